//go:build nodes

package agent

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// shipped starts a counter and moves its checkpoint to a node, where the new pod is not bound yet.
func (b *bench) shipped(from, to *cluster.Node) (*corev1.Pod, *v1alpha1.Migration) {
	b.Helper()
	pod := b.pod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "16"})
	b.counts(pod.Name, 3)
	m := b.prepare(pod, to, v1alpha1.BackendContainerd)
	b.order(m, v1alpha1.OrderFreeze)
	b.targetSays(m, v1alpha1.TargetStaged)
	b.sourceSays(m, v1alpha1.SourceShipped)
	return pod, m
}

// TestPodsStartWithoutTheAgentAndTheMovedPodWaitsForIt kills the agent while a checkpoint is staged on its node.
func TestPodsStartWithoutTheAgentAndTheMovedPodWaitsForIt(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod, m := b.shipped(from, to)
	if err := b.Agents[to.Name].Kill(b.ctx()); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		b.counts(b.pod(fmt.Sprintf("before-%d", i), to, cluster.Images["counter"]).Name, 1)
	}
	moved := b.bind(m, to)
	b.eventually("the runtime asks for the checkpoint", func() error {
		out, err := to.Run(b.ctx(), "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0\\n' '  '; true")
		if err == nil && !strings.Contains(string(out), "create --bundle") {
			err = fmt.Errorf("no container is being created")
		}
		return err
	})
	for i := range 3 {
		b.counts(b.pod(fmt.Sprintf("beside-%d", i), to, cluster.Images["counter"]).Name, 1)
	}
	if err := b.Get(b.ctx(), client.ObjectKeyFromObject(moved), moved); err != nil || moved.Status.Phase != corev1.PodPending {
		t.Errorf("the moved pod is %s (%v), want %s until the agent answers", moved.Status.Phase, err, corev1.PodPending)
	}
	if err := b.Agents[to.Name].Start(); err != nil {
		t.Fatal(err)
	}
	b.runs(moved)
	b.handOver(m, pod)
	if err := workload.CheckTicks(b.counts(moved.Name, 5), 1); err != nil {
		t.Error(err)
	}
}

// TestAMovedPodNeverStartsFromTheBeginning binds the new pod on a node that no longer expects it, as after a restart of the node.
func TestAMovedPodNeverStartsFromTheBeginning(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod, m := b.shipped(from, to)
	b.run(to, "rm "+filepath.Join(to.RestoreDir, "pods", "*"))
	moved := b.bind(m, to)
	b.eventually("the new pod fails", func() error {
		if err := b.Get(b.ctx(), client.ObjectKeyFromObject(moved), moved); err != nil {
			return err
		}
		if moved.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("it is %s: %+v", moved.Status.Phase, moved.Status.ContainerStatuses)
		}
		return nil
	})
	if s := moved.Status.ContainerStatuses[0].State.Terminated; s == nil || s.Reason != "StartError" {
		t.Errorf("its container ended as %+v, want a StartError", moved.Status.ContainerStatuses[0].State)
	}
	if r := b.targetSays(m, v1alpha1.TargetFailed); r.Reason != v1alpha1.MigrationReasonImageLost {
		t.Errorf("the target says %s: %s, want reason %s", r.Reason, r.Message, v1alpha1.MigrationReasonImageLost)
	}
	if err := b.Delete(b.ctx(), moved, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	b.continues(m, pod)
}
