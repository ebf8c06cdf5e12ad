//go:build workers

package workers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// finalizer keeps a terminating pod until its process has ended, because kwok would remove it at once.
const finalizer = "test.supercargo.dev/process"

// shim acts as the kubelet for the pods of a namespace. It runs the container's command of each running pod,
// with the pod's name as host name. When a pod is deleted, it sends SIGTERM to only that command, and removes
// the finalizer when it has ended.
type shim struct {
	t         *testing.T
	client    client.Client
	namespace string
	dir       string // of logs and sandboxes
	secrets   string // replaces /var/run/supercargo
	mu        sync.Mutex
	processes map[types.UID]*process
}

// process is the process of a pod.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	termed bool
}

// startShim runs a shim until the test ends.
func startShim(t *testing.T, c client.Client, namespace, password string) *shim {
	t.Helper()
	s := &shim{t: t, client: c, namespace: namespace, dir: t.TempDir(), secrets: t.TempDir(), processes: map[types.UID]*process{}}
	if err := os.MkdirAll(filepath.Join(s.secrets, "work-queue"), 0o700); err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, filepath.Join(s.secrets, "work-queue", "password"), password)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.Tick(poll); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
				s.reconcile(ctx)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		s.kill()
	})
	return s
}

// reconcile reconciles the processes with the pods. It retries failures at the next call.
func (s *shim) reconcile(ctx context.Context) {
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(s.namespace), client.HasLabels{v1alpha1.LabelWorkerPool}); err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range pods.Items {
		pod := &pods.Items[i]
		p := s.processes[pod.UID]
		switch {
		case pod.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(pod, finalizer):
			controllerutil.AddFinalizer(pod, finalizer)
			_ = s.client.Update(ctx, pod)
		case pod.DeletionTimestamp == nil && p == nil && pod.Status.Phase == corev1.PodRunning:
			s.processes[pod.UID] = s.start(pod)
		case pod.DeletionTimestamp != nil && p != nil && !p.termed:
			p.termed = true
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		case pod.DeletionTimestamp != nil && (p == nil || p.over()):
			controllerutil.RemoveFinalizer(pod, finalizer)
			_ = s.client.Update(ctx, pod)
		}
	}
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// start runs the command of the pod's container.
func (s *shim) start(pod *corev1.Pod) *process {
	c := &pod.Spec.Containers[0]
	hosts := filepath.Join(s.dir, pod.Name+".hosts") // as a kubelet writes it; the worker resolves its own name
	n := len(s.processes) + 1
	if err := os.WriteFile(hosts, fmt.Appendf(nil, "127.0.0.1 localhost\n127.77.%d.%d %s\n", n/250, n%250+1, pod.Name), 0o600); err != nil {
		s.t.Errorf("hosts of pod %s: %v", pod.Name, err)
	}
	enter := `hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"`
	command := slices.Concat([]string{"--uts", "--mount", "/bin/sh", "-c", enter, pod.Name, hosts}, c.Command, c.Args)
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "/var/run/supercargo", s.secrets)
	}
	p := &process{cmd: exec.Command("unshare", command...), ended: make(chan struct{})}
	log, err := os.Create(filepath.Join(s.dir, pod.Name+".log"))
	if err != nil {
		s.t.Errorf("log of pod %s: %v", pod.Name, err)
	}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, log, log
	p.cmd.Env = append(os.Environ(), "TMPDIR="+s.dir)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		s.t.Errorf("run the worker of pod %s: %v", pod.Name, err)
		close(p.ended)
		return p
	}
	go func() {
		_ = p.cmd.Wait() // its errors are in its log
		log.Close()
		close(p.ended)
	}()
	return p
}

// kill ends all remaining processes and their descendants.
func (s *shim) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.cmd.Process != nil && !p.over() {
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.ended
		}
	}
}

// left returns the number of processes that have not ended.
func (s *shim) left() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if !p.over() {
			n++
		}
	}
	return n
}

// count returns how many pods had a process, and how many of these have ended after SIGTERM.
func (s *shim) count() (started, drained int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.termed && p.over() {
			drained++
		}
	}
	return len(s.processes), drained
}
