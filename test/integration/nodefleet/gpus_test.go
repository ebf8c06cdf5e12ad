package nodefleet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// statesGPU sets the annotations of cluster-autoscaler that state a GPU on machines of a flavor.
func (b *bench) statesGPU(flavor string) {
	b.Helper()
	b.annotate(flavor, "capacity.cluster-autoscaler.kubernetes.io/gpu-type", string(gpu))
	b.annotate(flavor, "capacity.cluster-autoscaler.kubernetes.io/gpu-count", "1")
}

// publishGPUs gives the nodes of a flavor their GPU, as a device plugin does some time after they are ready.
func (b *bench) publishGPUs(flavor string) {
	b.Helper()
	for _, n := range b.Nodes() {
		if _, has := n.Status.Allocatable[gpu]; !has && n.Labels[corev1.LabelInstanceTypeStable] == flavor {
			b.offerGPU(n.Name)
		}
	}
}

// TestAMachineWithAGPUIsBoughtFilledAndReleased has a pod that requests a GPU, and one that would fit on a cheap machine.
func TestAMachineWithAGPUIsBoughtFilledAndReleased(t *testing.T) {
	t.Parallel()
	b := newBench(t, "gpubuy")
	b.flavor("gpu", "4", "8Gi", "3.00")
	b.flavor("plain", "2", "4Gi", "0.10")
	b.statesGPU("gpu")
	highest := b.highest()
	b.Meanwhile = func() { b.publishGPUs("gpu") }
	b.Make(b.pod("training", "500m", "1Gi", asksForGPU))
	b.Make(b.pod("other", "1900m", "1Gi"))
	b.wait(2)
	b.fleet("all")
	b.autoscale()
	b.Runs(2)
	b.becomes(map[string]int{"gpu": 1})
	b.removePods()
	b.becomes(map[string]int{})
	b.pods("plain", 2, "1900m", "1Gi")
	b.Runs(2)
	b.becomes(map[string]int{"plain": 2})
	if each, _ := highest(); !cmp.Equal(map[string]int{"gpu": 1, "plain": 2}, each) {
		t.Errorf("there were to be %v machines", each)
	}
}

// TestAGPUThatNoDriverPublishesIsTold has machines whose GPU is stated and never published.
func TestAGPUThatNoDriverPublishesIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, "gpuless")
	b.flavor("gpu", "4", "8Gi", "3.00")
	b.statesGPU("gpu")
	highest := b.highest()
	b.fleet("all", func(s *v1alpha1.NodeFleetSpec) { s.Scaling.JoinTimeout, s.Scaling.BackOff = seconds(10), seconds(3600) })
	b.autoscale()
	b.Make(b.pod("training", "500m", "1Gi", asksForGPU))
	if note := b.event("ResourceMissing"); !strings.Contains(note, string(gpu)) {
		t.Errorf("the Event says %q", note)
	}
	b.becomes(map[string]int{})
	if each, _ := highest(); !cmp.Equal(map[string]int{"gpu": 1}, each) {
		t.Errorf("there were to be %v machines, want one", each)
	}
}
