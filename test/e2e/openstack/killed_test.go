//go:build openstack

package openstack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/provider/openstack"
)

// childMain buys a server in the project that the variable names, and hangs once Nova has accepted: before
// the order is recorded.
func childMain() int {
	name, id, _ := strings.Cut(os.Getenv(variableChild), " ")
	kube := fake.NewClientBuilder().WithObjects(cloudsSecret("cloud", name, userPassword)).Build()
	clouds := &openstack.Clouds{Live: kube, Writer: kube, Clock: clock.RealClock{}, Cluster: id, Wrap: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/servers") {
				fmt.Println("made")
				select {}
			}
			return answer, err
		})
	}}
	fleet := &v1alpha1.NodeFleet{Spec: v1alpha1.NodeFleetSpec{Provider: v1alpha1.FleetOpenStack, OpenStack: serversSpec("cloud")}}
	fleet.Name, fleet.UID, fleet.Generation = "batch", types.UID(name), 1
	err := clouds.For(fleet, map[string]*corev1.Node{}).Buy(context.Background(), "first", "m3.small", 0, 1)
	fmt.Println("not killed:", err)
	return 1
}

func TestAProcessThatIsKilledBetweenCreateAndRecordLeavesOneServer(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 5))
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), variableChild+"="+b.name+" "+b.id)
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := must(child.StdoutPipe())(t)
	b.try("start the process", child.Start())
	said, err := bufio.NewReader(out).ReadString('\n')
	b.try("kill it", child.Process.Kill())
	_ = child.Wait() // it was killed
	if err != nil || said != "made\n" {
		t.Fatalf("the process said %q (%v)", said, err)
	}

	// The next process observes the server despite its unknown intent: it counts, and is not bought again.
	found := b.observe()
	if len(found.Machines) != 1 || found.Machines[0].Flavor != "m3.small" || found.Machines[0].Failed != "" {
		t.Errorf("the next process finds %+v, want the server that was made", found.Machines)
	}
	if err := b.provider().Buy(t.Context(), "another", "m3.small", 0, 1); !errors.Is(err, provider.ErrChanged) {
		t.Errorf("an order that overlooks it says %v", err)
	}
	b.buy("first", "m3.small", 0, 1)
	if all := b.settled(); len(all) != 1 {
		t.Errorf("there are %d servers, want exactly one", len(all))
	}
	b.clean()
	b.left(1)
}

// cut closes the connection after Nova has processed the first request.
func cut(r *http.Request, done *bool) bool {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/servers") || *done {
		return false
	}
	*done = true
	return true
}

func TestAnOrderWhoseAnswerIsLostIsNotMadeTwice(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 5))
	var done bool
	b.ledger.intercept(nil, func(r *http.Request, answer *http.Response) (*http.Response, error) {
		if cut(r, &done) {
			_ = answer.Body.Close() // the answer is discarded
			return nil, io.ErrUnexpectedEOF
		}
		return answer, nil
	})
	b.buy("first", "m3.small", 0, 1)
	if all := b.settled(); len(all) != 1 || !done {
		t.Errorf("there are %d servers, want exactly one; broke off: %v", len(all), done)
	}
}
