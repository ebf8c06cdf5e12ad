package nodefleet

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// offerGPU adds a GPU to a node, as a device plugin does.
func (b *bench) offerGPU(node string) {
	b.Helper()
	patch := fmt.Appendf(nil, `{"status":{"capacity":{%q:"1"},"allocatable":{%q:"1"}}}`, gpu, gpu)
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := b.Status().Patch(b.Context(), object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		b.Fatalf("give node %s a GPU: %v", node, err)
	}
}

func asksForGPU(p *corev1.Pod) {
	r := &p.Spec.Containers[0].Resources
	r.Requests[gpu] = resource.MustParse("1")
	r.Limits = corev1.ResourceList{gpu: resource.MustParse("1")}
}

// TestAMachineWhosePodNeedsItsGPUIsKept has a machine with a GPU whose pod may be restarted, and would find
// its CPU and memory on another machine, and an empty machine.
func TestAMachineWhosePodNeedsItsGPUIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, "gpu")
	b.flavor("gpu", "4", "8Gi", "3.00", begins(1))
	b.flavor("idle", "4", "8Gi", "0.16", begins(1))
	b.room()
	b.named("idle", 1)
	node := b.named("gpu", 1)[0]
	b.offerGPU(node)
	b.put(node, "training", "500m", "1Gi", asksForGPU)
	b.Runs(2)
	b.fleet("all", underUsed)
	b.autoscale()

	b.becomes(map[string]int{"gpu": 1, "room": 1})
	b.Eventually("nothing is left of what was done", b.untouched)
	b.Runs(2)
}

// TestAMachineWithAGPUThatAPodComesToNeedIsNotReleased creates a pod when the machine is already cordoned.
func TestAMachineWithAGPUThatAPodComesToNeedIsNotReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, "gpulate")
	b.closedWhile(func(node string) {
		b.offerGPU(node)
		b.Make(b.pod("training", "500m", "1Gi", asksForGPU))
		b.wait(1)
	})
	b.Runs(1)
	b.Eventually("the node is open", b.untouched)
}
