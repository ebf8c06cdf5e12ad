//go:build nodes

package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// TestContainerContinuesAfterContainerdWasKilledWhileItWasFrozen rolls a move back after containerd has read the
// states of all containers again, and the kubelet has read them from it.
func TestContainerContinuesAfterContainerdWasKilledWhileItWasFrozen(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod, m := b.shipped(from, to)
	if err := from.KillContainerd(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := from.StartContainerd(b.ctx()); err != nil {
		t.Fatal(err)
	}
	b.syncs(pod, from)
	b.same(pod)
	b.continues(m, pod)
	b.same(pod)
}

// syncs has the kubelet of a node compare a pod with its containers, which it does for each change of the pod.
// Otherwise, it does so once a minute.
func (b *bench) syncs(pod *corev1.Pod, node *cluster.Node) {
	b.Helper()
	before := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "test/changed", "true")
	if err := b.Patch(b.ctx(), pod, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
	// A pod that is created later runs later.
	b.counts(b.pod("beside", node, cluster.Images["counter"]).Name, 30)
}

// same checks that a pod has the container that it had.
func (b *bench) same(pod *corev1.Pod) {
	b.Helper()
	now := &corev1.Pod{}
	if err := b.Get(b.ctx(), client.ObjectKeyFromObject(pod), now); err != nil {
		b.Fatal(err)
	}
	is, was := now.Status.ContainerStatuses[0], pod.Status.ContainerStatuses[0]
	if is.ContainerID != was.ContainerID || is.RestartCount != was.RestartCount || is.State.Running == nil {
		b.Errorf("the pod has container %+v, had %+v", is, was)
	}
}
