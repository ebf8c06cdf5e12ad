//go:build nodes

package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// ready returns an error if a node is not ready.
func ready(node *corev1.Node) error {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready: %+v", node.Name, node.Status.Conditions)
}

func TestNodesAreReadyAndSayWhatTheyRun(t *testing.T) {
	s := newBench(t)
	runtime := map[string]string{"": "containerd://2.4.2", "2.3": "containerd://2.3.7"}[os.Getenv(cluster.ContainerdVariable)]
	for _, n := range s.Nodes {
		node, err := s.Client().CoreV1().Nodes().Get(s.Context(), n.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := ready(node); err != nil {
			t.Error(err)
		}
		info := node.Status.NodeInfo
		if info.ContainerRuntimeVersion != runtime || info.KubeletVersion != "v1.35.4" {
			t.Errorf("node %s runs %s and kubelet %s, want %s and v1.35.4",
				n.Name, info.ContainerRuntimeVersion, info.KubeletVersion, runtime)
		}
		host, err := n.Run(s.Context(), "uname", "-n")
		if err != nil || string(host) != n.Name+"\n" {
			t.Errorf("the host name on node %s is %q, %v", n.Name, host, err)
		}
	}
}

func TestAJobRunsOnAllNodesAndEveryChainIsWhole(t *testing.T) {
	const indexes, steps = 6, 20
	s := newBench(t)
	pod := s.Pod("", cluster.Images["chain"],
		corev1.EnvVar{Name: "STEPS", Value: strconv.Itoa(steps)}, corev1.EnvVar{Name: "STEP_MS", Value: "50"})
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.JobNameLabel: "chains"}},
	}}
	jobs := s.Client().BatchV1().Jobs(s.Namespace)
	_, err := jobs.Create(s.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "chains"},
		Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](indexes), Parallelism: ptr.To[int32](indexes),
			CompletionMode: ptr.To(batchv1.IndexedCompletion), BackoffLimit: ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Eventually("the Job is complete", func(ctx context.Context) error {
		job, err := jobs.Get(ctx, "chains", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if job.Status.Succeeded != indexes || job.Status.CompletionTime == nil || job.Status.Failed != 0 {
			return fmt.Errorf("its status is %+v", job.Status)
		}
		return nil
	})
	pods, err := s.Client().CoreV1().Pods(s.Namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int{}
	for _, pod := range pods.Items {
		used[pod.Spec.NodeName]++
		index, err := strconv.ParseInt(pod.Annotations[batchv1.JobCompletionIndexAnnotation], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		output, err := s.Output(s.Context(), pod.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := workload.LastLine(output), workload.ChainResult(index, steps); got != want {
			t.Errorf("index %d ended with %q, want %q", index, got, want)
		}
	}
	if len(used) != len(s.Nodes) {
		t.Errorf("pods ran on %v, want all %d nodes used", used, len(s.Nodes))
	}
}

func TestPodsOfDifferentNodesReachEachOther(t *testing.T) {
	s := newBench(t)
	s.Create(site.On(s.Nodes[0], s.Pod("here", cluster.Images["counter"])))
	s.Create(site.On(s.Nodes[1], s.Pod("there", cluster.Images["counter"])))
	s.Running("here")
	address := s.Running("there").Status.PodIP
	// No process listens on this port: the pod refuses the connection if packets arrive.
	out, err := s.Nodes[0].Run(s.Context(), "timeout", "10", "bash", "-c", "</dev/tcp/"+address+"/1")
	if err == nil || !strings.Contains(string(out), "Connection refused") {
		t.Errorf("connect to %s from %s: %v: %s, want: Connection refused", address, s.Nodes[0].Name, err, out)
	}
}

func TestContainersContinueWithoutContainerdAndKubelet(t *testing.T) {
	s := newBench(t)
	node := s.Nodes[0]
	s.Create(site.On(node, s.Pod("counter", cluster.Images["counter"])))
	uid := s.Running("counter").UID
	before := s.printed("counter", 1)
	if err := errors.Join(node.KillKubelet(s.Context()), node.KillContainerd(s.Context())); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(node.StartContainerd(s.Context()), node.StartKubelet(s.Context())); err != nil {
		t.Fatal(err)
	}
	if err := workload.CheckTicks(s.printed("counter", len(before)+10), 1); err != nil {
		t.Error(err)
	}
	pod := s.Get("counter")
	if pod.UID != uid || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod is %s with %d restarts, want %s with none", pod.UID, pod.Status.ContainerStatuses[0].RestartCount, uid)
	}
}

func TestANodeThatWasKilledJoinsAgain(t *testing.T) {
	s := newBench(t)
	node := s.Nodes[1]
	s.Create(site.On(node, s.Pod("before", cluster.Images["counter"])))
	s.freeze(node, s.Running("before")) // a frozen pod is hard to kill
	agent := node.Program("/bin/sleep", "1000")
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if err := node.Kill(s.Context()); err != nil {
		t.Fatal(err)
	}
	if ns := node.NetNS(); ns != "" {
		t.Errorf("a dead node has the network namespace %s", ns)
	}
	s.Eventually("the node's program has died with it", func(context.Context) error {
		if agent.Running() {
			return errors.New("it runs")
		}
		return nil
	})
	if err := node.Start(s.Context()); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the pod from before is known to have died", func(ctx context.Context) error {
		pod, err := s.Client().CoreV1().Pods(s.Namespace).Get(ctx, "before", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	s.Create(site.On(node, s.Pod("after", cluster.Images["counter"])))
	s.Running("after")
}

func TestAProgramOfANodeIsKilledAndStartedAgain(t *testing.T) {
	s := newBench(t)
	node := s.Nodes[0]
	program := node.Program("/bin/sh", "-c", `echo "$GREETING from $(uname -n)"; exec sleep 1000`)
	program.Env = []string{"GREETING=hello"}
	greeted := func(times int) {
		t.Helper()
		s.Eventually(fmt.Sprintf("start %d is in the log", times), func(context.Context) error {
			log, err := os.ReadFile(program.LogPath())
			if want := strings.Repeat("hello from node-a\n", times); err == nil && string(log) != want {
				err = fmt.Errorf("it is %q, want %q", log, want)
			}
			return err
		})
	}
	for i, end := range []func(context.Context) error{program.Kill, program.Stop, program.Restart} {
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		greeted(i + 1)
		if err := program.Start(); err == nil {
			t.Error("it was started twice")
		}
		if err := end(s.Context()); err != nil {
			t.Fatal(err)
		}
	}
	greeted(4)
	if err := program.Kill(s.Context()); err != nil || program.Running() {
		t.Errorf("it runs after it was killed, %v", err)
	}
}

func TestACommandOnANodeIsEndedWithItsContext(t *testing.T) {
	s := newBench(t)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.Nodes[0].Run(ctx, "sleep", "1000"); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
	out, err := s.Nodes[0].Run(s.Context(), "sh", "-c", "echo why >&2; exit 3")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "why") || string(out) != "why\n" {
		t.Errorf("Run = %q, %v, want exit code 3 and what was printed", out, err)
	}
}

// ticks returns the values that a counter has printed so far.
func (s *bench) ticks(ctx context.Context, pod string) ([]workload.Tick, error) {
	output, err := s.Output(ctx, pod)
	if err != nil {
		return nil, err
	}
	return workload.ParseTicks(output)
}

// printed waits until a counter has printed at least atLeast values, and returns all values.
func (s *bench) printed(pod string, atLeast int) []workload.Tick {
	s.Helper()
	var ticks []workload.Tick
	s.Eventually("the counter in pod "+pod+" counts", func(ctx context.Context) (err error) {
		ticks, err = s.ticks(ctx, pod)
		if err == nil && len(ticks) < atLeast {
			err = fmt.Errorf("it has printed %d values, want %d", len(ticks), atLeast)
		}
		return err
	})
	return ticks
}
