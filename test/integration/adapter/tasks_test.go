package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
	"supercargo.dev/supercargo/test/kit"
)

// The manager that the adapter queries, in the namespace of the only test that reads it.
const (
	genomics = "genomics"
	blast    = "blast"
	waiting  = 6 // tasks of it
)

// manager is a Work Queue manager whose tasks wait, because it has no workers.
type manager struct {
	what, address string
	end           func()
}

// newManager starts makeflow as a manager, with files in dir. If makeflow is not installed (Debian's
// coop-computing-tools), a server of the protocol gives the same answers.
func newManager(ctx context.Context, dir string) (*manager, error) {
	program, err := exec.LookPath("makeflow")
	if err == nil {
		return newMakeflow(ctx, program, dir)
	}
	m, err := workqueuetest.New(map[string]string{"queue_status": fmt.Sprintf(
		`[{"type":"wq_manager","tasks_waiting":%d,"tasks_on_workers":0,"tasks_submitted":%d}]`, waiting, waiting)}, "", nil)
	if err != nil {
		return nil, err
	}
	return &manager{what: "a server of the protocol", address: m.Address, end: m.Close}, nil
}

func newMakeflow(ctx context.Context, program, dir string) (*manager, error) {
	var rules strings.Builder
	for i := range waiting {
		fmt.Fprintf(&rules, "part.%d:\n\techo > part.%d\n", i, i)
	}
	if err := os.WriteFile(filepath.Join(dir, "flow.makeflow"), []byte(rules.String()), 0o600); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "-T", "wq", "-p", "0", "-Z", "port", "flow.makeflow")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// Debian's binary is linked to Open MPI, which refuses root and looks for ssh.
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_plm_rsh_agent=", "OMPI_MCA_ess_singleton_isolated=1")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	m := &manager{what: program, end: func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		<-ended
	}}
	giveUp, stop := context.WithTimeout(ctx, kit.Patience)
	defer stop()
	for tick := time.Tick(kit.Poll); ; {
		if port, err := os.ReadFile(filepath.Join(dir, "port")); err == nil && bytes.HasSuffix(port, []byte("\n")) {
			m.address = "127.0.0.1:" + strings.TrimSpace(string(port))
			return m, nil
		}
		select {
		case <-tick:
		case <-ended:
			return nil, fmt.Errorf("makeflow has ended: %s", said.String())
		case <-giveUp.Done():
			m.end()
			return nil, errors.New("makeflow does not say its port")
		}
	}
}

// TestAStockAutoscalerFollowsAWorkQueueManager checks that the manager's values are served to users with
// permission, and no longer when the manager has gone.
func TestAStockAutoscalerFollowsAWorkQueueManager(t *testing.T) {
	t.Parallel()
	s := site(t)
	t.Logf("the manager is %s", shared.manager.what)
	const metric = "work_queue_queue_length"
	namespace(t, s, genomics)
	deploy(t, s, genomics)
	config := rest.AnonymousClientConfig(s.Config())
	config.BearerToken = reader(t, s, genomics)
	account, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	tasks := func() string { return external(t, account, genomics, metric, "manager%3D"+blast) }
	if got := tasks(); got != "Forbidden" {
		t.Errorf("an account without rights reads it: %s, want Forbidden", got)
	}
	allow(t, s, genomics, metric, rbacv1.Subject{Kind: "ServiceAccount", Namespace: genomics, Name: "reader"})
	becomes(t, s, "the tasks that wait", fmt.Sprintf("map[]=%d", waiting), tasks)
	if got := external(t, account, genomics, metric, "manager%3Danother"); got != "" {
		t.Errorf("of another manager: %s, want nothing", got)
	}

	follower := follow(t, s, genomics, metric, map[string]string{"manager": blast}, waiting/2)
	replicas := func() string {
		d := &appsv1.Deployment{}
		if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: genomics, Name: "web"}, d); err != nil {
			return err.Error()
		}
		return fmt.Sprint(*d.Spec.Replicas)
	}
	becomes(t, s, "the replicas for three tasks each", "2", replicas)
	shared.manager.end()
	becomes(t, s, "what is served when it has gone", "", tasks)
	becomes(t, s, "what the autoscaler says then", "False", func() string { return scaling(t, s, follower) })
	if got := replicas(); got != "2" {
		t.Errorf("%s replicas when nothing is known, want 2 as before", got)
	}
}

// scaling returns the status of the condition that tells whether an autoscaler has its metrics.
func scaling(t *testing.T, s *kit.Site, h *autoscalingv2.HorizontalPodAutoscaler) string {
	t.Helper()
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(h), h); err != nil {
		return err.Error()
	}
	for _, c := range h.Status.Conditions {
		if c.Type == autoscalingv2.ScalingActive {
			return string(c.Status)
		}
	}
	return string(corev1.ConditionUnknown)
}
