package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// publishDevices gives a node the extended resources of its flavor, as the driver of a device does.
func publishDevices(node *corev1.Node, f *provider.Flavor) {
	for name, amount := range f.Extended {
		node.Status.Allocatable[name] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
}

// withGPUs requests GPUs. The pod may be restarted.
func withGPUs(p *corev1.Pod, n int64) *corev1.Pod {
	p.Spec.Containers[0].Resources.Requests[gpu] = *resource.NewQuantity(n, resource.DecimalSI)
	p.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
	return p
}

// gpuFlavors are small machines of four cores, and dear ones of eight with two GPUs.
func gpuFlavors() []provider.Flavor {
	dear := modelFlavor("gpus", 8, 32, 1_000_000)
	dear.Extended = map[corev1.ResourceName]int64{gpu: 2}
	return []provider.Flavor{dear, modelFlavor("small", 4, 16, 100_000)}
}

func TestMachinesWithGPUsComeForPodsThatRequestThem(t *testing.T) {
	for name, tc := range map[string]struct {
		pods func() []*corev1.Pod
		runs time.Duration
		want string
	}{
		"they are filled with other pods, and released": {func() []*corev1.Pod {
			return []*corev1.Pod{withGPUs(testPod("a", 1000, 1024, 4*minute), 1), withGPUs(testPod("b", 1000, 1024, 4*minute), 1), testPod("c", 3000, 1024, 4*minute)}
		}, 15 * minute, "0 pods run, 0 wait, 3 have ended, lost []; gpus 0 of 0, at most 1; small 0 of 0, at most 0; 1 were made, 0 nodes are cordoned"},
		"other pods get others": {func() []*corev1.Pod {
			return []*corev1.Pod{testPod("a", 3000, 1024, time.Hour), testPod("b", 3000, 1024, time.Hour)}
		}, 5 * minute, "2 pods run, 0 wait, 0 have ended, lost []; gpus 0 of 0, at most 0; small 2 of 2, at most 2; 2 were made, 0 nodes are cordoned"},
		"or none, if no other can hold them": {func() []*corev1.Pod {
			return []*corev1.Pod{testPod("a", 7000, 1024, time.Hour)}
		}, 5 * minute, "0 pods run, 1 wait, 0 have ended, lost []; gpus 0 of 0, at most 0; small 0 of 0, at most 0; 0 were made, 0 nodes are cordoned"},
		"more GPUs than a machine has": {func() []*corev1.Pod {
			return []*corev1.Pod{withGPUs(testPod("a", 1000, 1024, time.Hour), 3)}
		}, 5 * minute, "0 pods run, 1 wait, 0 have ended, lost []; gpus 0 of 0, at most 0; small 0 of 0, at most 0; 0 were made, 0 nodes are cordoned"},
		"as many as the GPUs require": {func() []*corev1.Pod {
			return []*corev1.Pod{withGPUs(testPod("a", 100, 1024, time.Hour), 2), withGPUs(testPod("b", 100, 1024, time.Hour), 1), withGPUs(testPod("c", 100, 1024, time.Hour), 2)}
		}, 8 * minute, "3 pods run, 0 wait, 0 have ended, lost []; gpus 3 of 3, at most 3; small 0 of 0, at most 0; 3 were made, 0 nodes are cordoned"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, alone(nil), gpuFlavors())
			m.add(tc.pods()...)
			m.run(tc.runs, "f")
			m.checkOutcome(tc.want)
		})
	}
}

// TestAMachineWithGPUsIsNotKeptForOtherPods has a job without GPUs that outlasts those with GPUs on the machine.
func TestAMachineWithGPUsIsNotKeptForOtherPods(t *testing.T) {
	m := newModel(t, alone(nil), gpuFlavors())
	other := testPod("other", 3000, 1024, 10*time.Hour)
	other.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
	m.add(withGPUs(testPod("a", 1000, 1024, 4*minute), 2), other)
	m.run(30*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 1 have ended, lost []; gpus 0 of 0, at most 1; small 1 of 1, at most 1; 2 were made, 0 nodes are cordoned")
}

// TestNothingMoreIsBoughtUntilANodeHasItsGPUs has a driver that publishes the GPUs of a node seven minutes after it is ready.
func TestNothingMoreIsBoughtUntilANodeHasItsGPUs(t *testing.T) {
	m := newModel(t, alone(nil), gpuFlavors())
	m.silent = true
	m.add(withGPUs(testPod("p", 1000, 1024, time.Hour), 1))
	m.run(8*minute, "f")
	m.checkOutcome("0 pods run, 1 wait, 0 have ended, lost []; gpus 1 of 1, at most 1; small 0 of 0, at most 0; 1 were made, 0 nodes are cordoned")
	for _, node := range m.nodes() {
		publishDevices(node, m.flavor("gpus"))
		m.must(m.client.Status().Update(t.Context(), node))
	}
	m.run(2*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 0 have ended, lost []; gpus 1 of 1, at most 1; small 0 of 0, at most 0; 1 were made, 0 nodes are cordoned")
	if lag := m.fleet("f").Status.Flavors[0].Lag; lag == nil || lag.Mean.Duration < 8*minute {
		t.Errorf("the lag is %+v, want all the time until it took the pod", lag)
	}
}

// TestMachinesWhoseGPUsHaveNoDriverAreNotBoughtWithoutEnd has nodes that never have the GPUs of their flavor.
func TestMachinesWhoseGPUsHaveNoDriverAreNotBoughtWithoutEnd(t *testing.T) {
	m := newModel(t, alone(nil), gpuFlavors())
	m.silent = true
	said := events.NewFakeRecorder(1000)
	m.r.Events = said
	for i := range 3 { // of different sizes
		m.add(withGPUs(testPod(fmt.Sprint("p-", i), int64(1000*(i+1)), 1024, 10*time.Hour), 1))
	}
	m.run(3*time.Hour, "f")
	if m.made < 2 || m.most["gpus"] > 2 || m.made > 10 {
		t.Errorf("%d machines were bought in three hours, and %d at a time: %s", m.made, m.most["gpus"], m.outcome())
	}
	m.checkCondition(v1alpha1.FleetDegraded, "True MachinesNotReady")
	close(said.Events)
	for e := range said.Events {
		if strings.Contains(e, "ResourceMissing node node-m01 of flavor gpus still has no nvidia.com/gpu 10m0s after its machine was ordered") {
			return
		}
	}
	t.Error("nobody was told")
}
