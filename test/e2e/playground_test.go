//go:build e2e

package e2e

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

const (
	startTimeout = 3 * time.Minute // it takes seconds; a loaded machine takes longer
	stopTimeout  = time.Minute
	podTimeout   = 2 * time.Minute
)

// TestPlaygroundRunsPodsAndLeavesNothing is the whole life of a playground.
func TestPlaygroundRunsPodsAndLeavesNothing(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	playground := start(t, "supercargo", "playground", "--nodes", "3", "--kubeconfig", kubeconfig)
	if before := playground.waitLine(t, "ready", startTimeout); !slices.Contains(before, kubeconfig) {
		t.Errorf("output before ready = %q, want the kubeconfig's path %s", before, kubeconfig)
	}
	ctx, cancel := context.WithTimeout(t.Context(), podTimeout)
	defer cancel()
	client := connect(t, kubeconfig)
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list nodes: %v", err)
	}
	if len(nodes.Items) != 3 {
		t.Errorf("%d nodes, want 3", len(nodes.Items))
	}

	if _, err := client.AppsV1().Deployments("default").Create(ctx, webDeployment(4), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create Deployment: %v", err)
	}
	if _, err := client.BatchV1().Jobs("default").Create(ctx, batchJob(3), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create Job: %v", err)
	}
	waitStarted(ctx, t, client, "app=web", 4)
	waitStarted(ctx, t, client, "app=batch", 3)

	if err := playground.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("send SIGTERM: %v", err)
	}
	if code := playground.waitExit(t, stopTimeout); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if left := playground.alive(t); len(left) > 0 {
		t.Errorf("processes left running: %v", left)
	}
}

// TestInterruptedStartLeavesNothing interrupts a playground that is not ready yet.
func TestInterruptedStartLeavesNothing(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	playground := start(t, "supercargo", "playground", "--nodes", "1", "--kubeconfig", kubeconfig)
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, startTimeout, true,
		func(context.Context) (bool, error) {
			_, err := os.Stat(kubeconfig)
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return err == nil, err
		})
	if err != nil {
		t.Fatalf("wait for the kubeconfig: %v", err)
	}
	if err := playground.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatalf("send SIGINT: %v", err)
	}
	if code := playground.waitExit(t, stopTimeout); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if left := playground.alive(t); len(left) > 0 {
		t.Errorf("processes left running: %v", left)
	}
}

func TestBadUsageExitsWithTwo(t *testing.T) {
	for _, args := range [][]string{
		{"no-such-command"},
		{"playground", "--no-such-flag"},
		{"playground", "--nodes", "-1"},
		{"playground", "--workload", "/does/not/exist"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			cmd := exec.Command(binary(t, "supercargo"), args...)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Errorf("%v, want exit code 2", err)
			}
			if stderr.Len() == 0 || stdout.Len() > 0 {
				t.Errorf("stdout = %q, stderr = %q, want the error on stderr alone", &stdout, &stderr)
			}
		})
	}
}

// TestKubeSchedulerSpeaksForItsKubernetes: clients and operators compare this
// version with the cluster's.
func TestKubeSchedulerSpeaksForItsKubernetes(t *testing.T) {
	out, err := exec.Command(binary(t, "kube-scheduler"), "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("--version: %v\n%s", err, out)
	}
	if got := strings.TrimSpace(string(out)); !strings.HasPrefix(got, "Kubernetes v1.35.") {
		t.Errorf("--version prints %q, want Kubernetes v1.35.x", got)
	}
}

func connect(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("read kubeconfig: %v", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	return client
}

// waitStarted waits until so many pods have been started on a node. A kwok node
// may end a Job's pod at once, so one that has succeeded counts.
func waitStarted(ctx context.Context, t *testing.T, client kubernetes.Interface, selector string, want int) {
	t.Helper()
	var seen []string
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return false, err
		}
		seen = seen[:0]
		started := 0
		for _, pod := range pods.Items {
			seen = append(seen, pod.Name+" "+string(pod.Status.Phase)+" on "+pod.Spec.NodeName)
			if pod.Spec.NodeName != "" && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded) {
				started++
			}
		}
		return started == want, nil
	})
	if err != nil {
		t.Fatalf("wait for %d started pods %s: %v; pods: %q", want, selector, err, seen)
	}
}

func podTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:  app,
			Image: "example.com/" + app, // kwok pulls nothing
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("64Mi"),
			}},
		}}},
	}
}

func webDeployment(replicas int32) *appsv1.Deployment {
	template := podTemplate("web")
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: template,
		},
	}
}

func batchJob(parallelism int32) *batchv1.Job {
	template := podTemplate("batch")
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "batch"},
		Spec:       batchv1.JobSpec{Parallelism: ptr.To(parallelism), Completions: ptr.To(parallelism), Template: template},
	}
}
