package playground

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// patience is how long a test waits for something that takes moments on an idle
// machine.
const patience = time.Minute

// eventually polls check until it returns "", and fails the test with its last result on a timeout.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	testwait.Until(t, patience, "what the test waits for", check)
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
}

func createPod(t *testing.T, p *playground.Playground, pod *corev1.Pod) {
	t.Helper()
	if _, err := p.Client().CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create pod %s: %v", pod.Name, err)
	}
}

// awaitPod waits until ok accepts a pod in the namespace default.
func awaitPod(t *testing.T, p *playground.Playground, name string, ok func(*corev1.Pod) bool) {
	t.Helper()
	eventually(t, func() string {
		pod, err := p.Client().CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !ok(pod) {
			return "pod " + name + " is " + pod.Status.String()
		}
		return ""
	})
}

func isRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
func isBound(pod *corev1.Pod) bool   { return pod.Spec.NodeName != "" }

// gone checks that path does not exist.
func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

func TestAPodRunsOnceTheNodesAreReady(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(3)})
	createPod(t, p, newPod("web"))
	awaitPod(t, p, "web", isRunning)
}

func TestAJobEndsAfterItsAnnotatedRuntime(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(5)})
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}
	job.Spec.Template.Spec = newPod("").Spec
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationRuntime: "2s"}
	jobs := p.Client().BatchV1().Jobs(metav1.NamespaceDefault)
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		got, err := jobs.Get(t.Context(), job.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got.Status.Succeeded != 1 || got.Status.CompletionTime == nil {
			return got.Status.String()
		}
		// Both are rounded down to seconds.
		if took := got.Status.CompletionTime.Sub(got.Status.StartTime.Time); took < time.Second {
			t.Errorf("the job took %v, want 2s", took)
		}
		return ""
	})
}

func TestADeletedPodGoes(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(1)})
	createPod(t, p, newPod("web"))
	awaitPod(t, p, "web", isRunning)
	pods := p.Client().CoreV1().Pods(metav1.NamespaceDefault)
	if err := pods.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) > 0 {
			return "the pod is still there"
		}
		return ""
	})
}

func TestItListensOnLoopbackOnly(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(1), ClusterAPI: true})
	pids := append(children(t, os.Getpid()), os.Getpid())
	if len(pids) != 3 {
		t.Fatalf("processes are %v, want this one, kwok and cluster-api", pids)
	}
	addrs := listening(t, pids...)
	found := false
	for _, addr := range addrs {
		if !addr.IP.IsLoopback() {
			t.Errorf("listens on %v", addr)
		}
		found = found || strings.HasSuffix(p.Config().Host, addr.String())
	}
	// The addresses of kwok's health endpoint, the API server and cluster-api's webhooks.
	if !found || len(addrs) < 2 {
		t.Errorf("%s is not among the listening sockets %v: this test looks in the wrong place", p.Config().Host, addrs)
	}
}

func TestItsFilesAreForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	p := playground.ForTest(t, playground.Options{Dir: dir})
	for path, want := range map[string]fs.FileMode{
		dir:                              fs.ModeDir | 0o700,
		p.KubeconfigPath():               0o600,
		filepath.Join(dir, "pki/sa.key"): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
}

func TestTheKubeconfigLeadsToTheCluster(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.yaml")
	p := playground.ForTest(t, playground.Options{KubeconfigPath: path})
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != p.Config().Host {
		t.Errorf("the kubeconfig leads to %s, want %s", config.Host, p.Config().Host)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	gone(t, path)
}

func TestStopLeavesNothingBehind(t *testing.T) {
	for _, tc := range []struct {
		name string
		stop func(*playground.Playground, context.CancelFunc)
	}{
		{"when Stop is called", func(p *playground.Playground, _ context.CancelFunc) { _ = p.Stop() }},
		{"when the context is cancelled", func(_ *playground.Playground, cancel context.CancelFunc) { cancel() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			p, err := playground.Start(ctx, playground.Options{Nodes: playground.Fleet(1), ClusterAPI: true})
			if err != nil {
				t.Fatal(err)
			}
			tc.stop(p, cancel)
			select {
			case <-p.Done():
			case <-time.After(patience):
				t.Fatalf("not stopped after %v", patience)
			}
			if err := errors.Join(p.Stop(), p.Err()); err != nil {
				t.Errorf("stopped with %v", err)
			}
			gone(t, p.Dir())
			if left := children(t, os.Getpid()); len(left) > 0 {
				t.Errorf("processes %v still run", left)
			}
			if addrs := listening(t, os.Getpid()); len(addrs) > 0 {
				t.Errorf("still listens on %v", addrs)
			}
		})
	}
}

func TestStopDoesNotWaitForThoseWhoWatch(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	watch, err := p.Client().CoreV1().Pods(metav1.NamespaceAll).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	start := time.Now()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("stopped after %v", took)
	}
}

func TestTwoAtOnceDoNotMeet(t *testing.T) {
	var both [2]*playground.Playground
	var group sync.WaitGroup
	for i := range both {
		group.Go(func() {
			p, err := playground.Start(context.Background(), playground.Options{Nodes: playground.Fleet(i + 1), ClusterAPI: true})
			if err != nil {
				t.Errorf("start playground %d: %v", i, err)
				return
			}
			both[i] = p
		})
	}
	group.Wait()
	for i, p := range both {
		if p == nil {
			continue
		}
		nodes, err := p.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(nodes.Items) != i+1 {
			t.Errorf("playground %d has %d nodes (%v), want %d", i, len(nodes.Items), err, i+1)
		}
		createPod(t, p, newPod("web"))
		awaitPod(t, p, "web", isRunning) // that of the second playground also after the first has stopped
		addMachines(t, p, playground.MachineDeploymentSpec{Name: "machines", Replicas: 1})
		awaitMachines(t, p, "machines", "Running", 1)
		if err := errors.Join(p.Stop(), p.Err()); err != nil {
			t.Errorf("stop playground %d: %v", i, err)
		}
	}
}

func TestADirectoryIsResumed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	p := playground.ForTest(t, playground.Options{Dir: dir, Nodes: playground.Fleet(1)})
	createPod(t, p, newPod("before"))
	awaitPod(t, p, "before", isRunning)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}

	p = playground.ForTest(t, playground.Options{Dir: dir, Nodes: playground.Fleet(1)})
	awaitPod(t, p, "before", isRunning)
	createPod(t, p, newPod("after"))
	awaitPod(t, p, "after", isRunning)
}

func TestADirectoryInUseIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	p := playground.ForTest(t, playground.Options{Dir: dir, NoScheduler: true, NoKwok: true, NoControllerManager: true})
	_, err := playground.Start(t.Context(), playground.Options{Dir: dir})
	wantInputError(t, err, "Dir", "another playground is using it")
	if err := p.Client().Discovery().RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error(); err != nil {
		t.Errorf("the first playground has suffered: %v", err)
	}
}

// wantInputError checks that err names an option and contains a text.
func wantInputError(t *testing.T, err error, option, says string) {
	t.Helper()
	var input *controlplane.InputError
	if !errors.As(err, &input) || input.Option != option || !strings.Contains(err.Error(), says) {
		t.Errorf("error is %v, want one about the option %s that says %q", err, option, says)
	}
}

func TestForeignFilesAreLeftUnchanged(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, []byte("clusters: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := playground.Start(t.Context(), playground.Options{Dir: dir})
	wantInputError(t, err, "Dir", "not a playground's")
	_, err = playground.Start(t.Context(), playground.Options{KubeconfigPath: file})
	wantInputError(t, err, "KubeconfigPath", "not a playground's")
	_, err = playground.Start(t.Context(), playground.Options{KubeconfigPath: filepath.Join(dir, "none", "config")})
	wantInputError(t, err, "KubeconfigPath", "does not exist")
	if data, err := os.ReadFile(file); err != nil || string(data) != "clusters: []\n" {
		t.Errorf("the file is now %q (%v)", data, err)
	}
}

func TestAFailedStartSaysWhyAndCleansUp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	broken := filepath.Join(t.TempDir(), "kwok")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho cannot play today\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := playground.Start(t.Context(), playground.Options{KwokPath: broken, Nodes: playground.Fleet(1)})
	if err == nil || !strings.Contains(err.Error(), "kwok") || !strings.Contains(err.Error(), "cannot play today") {
		t.Errorf("error is %v, want one that blames kwok and quotes its log", err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files %v are left (%v)", left, err)
	}
	if addrs := listening(t, os.Getpid()); len(addrs) > 0 {
		t.Errorf("still listens on %v", addrs)
	}
}

func TestAStartThatIsCancelledCleansUp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	// etcd's first log lines appear when the start is well advanced.
	_, err := playground.Start(ctx, playground.Options{Log: writerFunc(func([]byte) { cancel() })})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that the context was cancelled", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("temporary files %v are left (%v)", left, err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

func TestAComponentThatDiesIsNoticed(t *testing.T) {
	p, err := playground.Start(context.Background(), playground.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Stop() }()
	for _, pid := range children(t, os.Getpid()) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatalf("not noticed after %v", patience)
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "kwok") {
		t.Errorf("error is %v, want one that blames kwok", err)
	}
}

func TestASchedulerAloneBindsPods(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoKwok: true, NoControllerManager: true, Nodes: playground.Fleet(2)})
	createPod(t, p, newPod("web"))
	awaitPod(t, p, "web", isBound)
}

func TestTheLogsAreCopied(t *testing.T) {
	var log bytes.Buffer
	p := playground.ForTest(t, playground.Options{Log: &log, NoScheduler: true, NoKwok: true, NoControllerManager: true})
	if err := p.Stop(); err != nil { // after this, nothing writes to log
		t.Fatal(err)
	}
	for _, words := range []string{"etcd", "apiserver"} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log does not mention %s", words)
		}
	}
}

func TestTheServerIsRefusedOnceStopped(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	host, err := url.Parse(p.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", host.Host); err == nil {
		t.Errorf("something still answers on %s", host.Host)
		_ = conn.Close()
	}
}

func TestTheAPIServerListensWhereKubeletsReachIt(t *testing.T) {
	const address = "127.1.2.3"
	p := playground.ForTest(t, playground.Options{
		NoScheduler: true, NoKwok: true, KubeletsReach: net.ParseIP(address),
	})
	server, err := url.Parse(p.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	if server.Hostname() != address {
		t.Errorf("the API server is at %s, want %s", server.Host, address)
	}
	// A kubelet may report the status of only its own node.
	config := p.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:mine", Groups: []string{"system:nodes"}}
	kubelet, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, allowed := range map[string]bool{"mine": true, "other": false} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := kubelet.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
			t.Errorf("the kubelet of node mine makes node %s: %v, want it allowed: %v", name, err, allowed)
		}
	}
}
