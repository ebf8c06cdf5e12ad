package eviction

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// requestEvictOnly is on pods that the stock descheduler may evict in the background.
const requestEvictOnly = "descheduler.alpha.kubernetes.io/request-evict-only"

// taintedPolicy configures the stock descheduler to evict the pods of one namespace from nodes with a taint
// that they do not tolerate.
const taintedPolicy = `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: bench=%[1]s
profiles:
- name: tainted
  pluginConfig:
  - name: DefaultEvictor
  - name: RemovePodsViolatingNodeTaints
    args:
      namespaces:
        include: [%[1]s]
  plugins:
    deschedule:
      enabled: [RemovePodsViolatingNodeTaints]
`

// peer starts a program in bin/ until the test ends.
func (b *bench) peer(name string, args ...string) (said *kit.Log, wait func() error) {
	b.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		b.Fatalf("find %s: %v: build it by `make bin/%s` and put bin/ into PATH", name, err, name)
	}
	said = &kit.Log{}
	cmd := exec.CommandContext(b.Context(), program, append([]string{"--kubeconfig", b.Site.KubeconfigPath()}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = kit.Patience
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	wait = sync.OnceValue(cmd.Wait)
	b.Cleanup(func() {
		_ = wait()
		if b.Failed() {
			b.Logf("%s says:\n%s", name, said.Tail(40))
		}
	})
	return said, wait
}

// taint taints a node, so that pods on it violate the taint.
func (b *bench) taint(name string) {
	b.Helper()
	var node corev1.Node
	b.Eventually("node "+name+" is tainted", func() string {
		if err := b.Get(b.Context(), client.ObjectKey{Name: name}, &node); err != nil {
			return err.Error()
		}
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "leave", Effect: corev1.TaintEffectNoSchedule})
		if err := b.Update(b.Context(), &node); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestWhatTheStockDeschedulerEvictsMoves runs the real descheduler. It either retries each round, as for any
// failed eviction, or, with evictions in the background, accepts the answer and waits.
func TestWhatTheStockDeschedulerEvictsMoves(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, gate string
		assumed    bool
	}{
		{"stock-asks", "EvictionsInBackground=false", false},
		{"stock-waits", "EvictionsInBackground=true", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.name, 2)
			pod := b.job(func(template *corev1.PodTemplateSpec) { template.Annotations[requestEvictOnly] = "" })
			policy := testfile.New(t, "policy.yaml", fmt.Appendf(nil, taintedPolicy, b.Space))
			b.taint(pod.Spec.NodeName)
			stock, _ := b.peer("descheduler-peer", "--policy-config-file", policy, "--descheduling-interval", "2s", "--feature-gates", tc.gate, "--secure-port", "0", "-v", "3")
			b.movedOff(pod)
			if got := strings.Contains(stock.String(), "Eviction in background assumed"); got != tc.assumed {
				t.Errorf("it took the answer for an eviction in the background: %v, want %v", got, tc.assumed)
			}
			if !tc.assumed && !strings.Contains(stock.String(), evictiondecide.Evacuation) {
				t.Error("it was not told that the pod moves")
			}
		})
	}
}

// TestWhatKarpenterDrainsMoves drains a node with Karpenter's own terminator and eviction queue.
func TestWhatKarpenterDrainsMoves(t *testing.T) {
	t.Parallel()
	b := newBench(t, "karpenter", 2)
	pod := b.job()
	_, wait := b.peer("karpenter-peer", "-drain", pod.Spec.NodeName)
	if err := wait(); err != nil {
		t.Fatalf("drain by Karpenter: %v", err)
	}
	b.movedOff(pod)
}

// movedOff waits until the Job's pod runs on another node, and checks that it was moved there once, and that
// its Job has counted no failure.
func (b *bench) movedOff(pod corev1.Pod) {
	b.Helper()
	b.allSucceeded(1)
	next := b.running(1)[0]
	job := &batchv1.Job{}
	b.Read("work", job)
	if next.Spec.NodeName == pod.Spec.NodeName || !metav1.IsControlledBy(&next, job) {
		b.Errorf("pod %s is on node %s, and was on %s", next.Name, next.Spec.NodeName, pod.Spec.NodeName)
	}
	if job.Status.Failed != 0 || job.Status.Active != 1 {
		b.Errorf("the Job has status %+v", job.Status)
	}
}
