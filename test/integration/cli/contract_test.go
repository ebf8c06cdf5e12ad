package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cmd/supercargo/cli"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// TestCommandsOfAClusterKeepTheirContract runs the commands that need an API server on a real one: the JSON that scripts
// read, and what shells complete.
func TestCommandsOfAClusterKeepTheirContract(t *testing.T) {
	s := siteWith(t, playground.Options{Nodes: []playground.NodeSpec{
		{Name: "one", CPU: "4", Memory: "16Gi", MachineType: "m5.xlarge", Annotations: map[string]string{v1alpha1.AnnotationPricePerHour: "0.20"}},
		{Name: "two", CPU: "4", Memory: "16Gi", MachineType: "m5.xlarge"},
	}})
	kubeconfig := s.KubeconfigPath()
	fleet := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Spec: quick()}
	fleet.Spec.ClusterAPI = &v1alpha1.ClusterAPIFlavors{Namespace: "default", Selector: &metav1.LabelSelector{}}
	web := deployment("web", 1, "1")
	web.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
	create(t, s.Client, fleet, web, deployment("huge", 1, "64"))
	pods := podsOf(t, s.Client)
	t.Run("JSON", func(t *testing.T) {
		commandtest.Hold(t, runCLI, []commandtest.Contract{
			{
				Name: "audit", Args: []string{"audit", "--kubeconfig", kubeconfig},
				Fields: "nodes count\n pods count\n pricedNodes count\n dollarsPerHour amount\n requested.cpu share\n requested.memory share\n cheapest.dollarsPerHour amount\n byMoves.moves count\n worstNodes[].node string\n unpricedNodes[].why string\n elapsedMillis amount",
				Values: map[string]any{"nodes": 2.0, "pricedNodes": 1.0, "dollarsPerHour": 0.2, "unpricedNodes[].node": "two"},
			},
			{Name: "explain pod", Args: []string{"explain", "pod", pods["web"], "-n", "default", "--kubeconfig", kubeconfig}, Fields: "schedulerName string\n placement.node string", Values: map[string]any{"phase": "Running", "pod": "default/" + pods["web"]}},
			{Name: "explain pods", Args: []string{"explain", "pods", "-n", "default", "--kubeconfig", kubeconfig}, Fields: "namespace string\n pods[].pending.since string\n pods[].pending.waitedSeconds amount\n pods[].pending.short[].requested string\n pods[].pending.short[].mostFree.free string\n pods[].pending.short[].largest.node string", Values: map[string]any{"pods[].pod": "default/" + pods["huge"]}},
			{Name: "explain nodefleet", Args: []string{"explain", "nodefleet/batch", "--kubeconfig", kubeconfig}, Values: map[string]any{"apiVersion": "supercargo.dev/v1alpha1", "kind": "NodeFleet"}},
		})
	})
	t.Run("completion", func(t *testing.T) {
		for line, want := range map[string]string{
			"explain -n default pod ": pods["huge"] + " " + pods["web"], "explain node ": "one two", "explain nf/": "nf/batch", "explain migration ": "",
			"migrate -n default ": pods["web"], "explain -n kube-s": "default kube-node-lease kube-public kube-system",
		} {
			args := append([]string{"__complete"}, strings.Split(line, " ")...)
			args = append(append(args[:2:2], "--kubeconfig", kubeconfig), args[2:]...)
			code, stdout, stderr := supercargo(args...)
			offered, _, _ := strings.Cut(stdout, ":4\n")
			if got := strings.Join(strings.Fields(offered), " "); code != exitOK || got != want {
				t.Errorf("%s<TAB>: exit code %d, %q, want %q: %s", line, code, got, want, stderr)
			}
		}
	})
	t.Run("record", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "trace.csv")
		if code, stdout, stderr := supercargo("record", "--for", "1s", "-o", path, "--kubeconfig", kubeconfig); code != exitOK || stdout != "" || !strings.Contains(stderr, "the recording lacks what it cannot hold: host ports of 1 pod.") {
			t.Errorf("exit code %d, %q: %s", code, stdout, stderr)
		}
		if code, _, stderr := simulate("-f", path, "--policy", "default"); code != exitOK {
			t.Errorf("simulate: exit code %d: %s", code, stderr)
		}
	})
	t.Run("dashboard", func(t *testing.T) { healthy(t, kubeconfig) })
}

// runCLI is the program supercargo.
func runCLI(_ context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Main(args, stdin, stdout, stderr)
}

// podsOf waits until the pod of web runs and that of huge is pending, and returns their names.
func podsOf(t *testing.T, c client.Client) map[string]string {
	t.Helper()
	names := map[string]string{}
	for _, app := range []string{"web", "huge"} {
		testwait.Until(t, patience, "there is the pod of "+app, func() string {
			var pods corev1.PodList
			if err := c.List(t.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{"app": app}); err != nil || len(pods.Items) != 1 {
				return fmt.Sprintf("%d pods (%v)", len(pods.Items), err)
			}
			if p := pods.Items[0]; app == "web" && p.Status.Phase != corev1.PodRunning || len(p.Status.Conditions) == 0 {
				return fmt.Sprint(p.Status)
			}
			names[app] = pods.Items[0].Name
			return ""
		})
	}
	return names
}

// healthy checks that the dashboard answers at the address of --listen.
func healthy(t *testing.T, kubeconfig string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "dashboard", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig)
	cmd.Env = append(os.Environ(), runAs+"=supercargo")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended it
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := strings.Cut(strings.TrimSpace(line), "?")
	testwait.Until(t, patience, "/healthz answers", func() string {
		answer, err := http.Get(strings.TrimSuffix(address, "/") + "/healthz")
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return answer.Status
		}
		return ""
	})
}
