package fleet

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/packing"
)

// TestMachinesThatHoldLessThanPromisedAreNotBoughtWithoutEnd has nodes that are smaller than their flavor, so that none
// holds the pod, and releases empty ones.
func TestMachinesThatHoldLessThanPromisedAreNotBoughtWithoutEnd(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	m.promised = packing.Size{MilliCPU: 200}
	said := events.NewFakeRecorder(1000)
	m.r.Events = said
	m.add(testPod("p", 4000, 1024, 10*time.Hour))
	m.run(2*time.Hour, "f")
	if m.made < 3 || m.made > 5 { // after 0, 6, 17, 38 and 79 minutes
		t.Errorf("%d machines were bought in two hours for a pod that none holds: %s", m.made, m.outcome())
	}
	m.checkCondition(v1alpha1.FleetDegraded, "True PodsDoNotFit")
	close(said.Events)
	told := 0
	for e := range said.Events {
		if strings.Contains(e, "PodDoesNotFit pod default/p: flavor small was expected to leave CPU 4000m") {
			told++
		}
	}
	if told < 3 {
		t.Errorf("that was said %d times", told)
	}
}

// driver is a taint that the driver of a device removes.
var driver = corev1.Taint{Key: "nvidia.com/driver-not-ready", Effect: corev1.TaintEffectNoSchedule}

// TestNothingMoreIsBoughtWhileANodeStarts has nodes that are ready but stay tainted for longer than the expected lag,
// and another flavor that could be bought.
func TestNothingMoreIsBoughtWhileANodeStarts(t *testing.T) {
	m := newModel(t, alone(nil), append(smalls(), modelFlavor("zlarge", 8, 32, 300_000)))
	m.taints = []corev1.Taint{driver}
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(8*minute, "f")
	m.checkOutcome("0 pods run, 1 wait, 0 have ended, lost []; small 1 of 1, at most 1; zlarge 0 of 0, at most 0; 1 were made, 0 nodes are cordoned")
	for _, node := range m.nodes() {
		node.Spec.Taints = nil
		m.must(m.client.Update(t.Context(), node))
	}
	m.run(2*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 0 have ended, lost []; small 1 of 1, at most 1; zlarge 0 of 0, at most 0; 1 were made, 0 nodes are cordoned")
	if lag := m.fleet("f").Status.Flavors[0].Lag; lag == nil || lag.Mean.Duration < 8*minute {
		t.Errorf("the lag is %+v, want all the time until it took pods", lag)
	}
}

// TestATaintThatRemainsIsToldAndOthersAreBought ends the time in which a node starts.
func TestATaintThatRemainsIsToldAndOthersAreBought(t *testing.T) {
	m := newModel(t, alone(nil), append(smalls(), modelFlavor("zlarge", 8, 32, 300_000)))
	said := events.NewFakeRecorder(1000)
	m.r.Events = said
	m.taints = []corev1.Taint{driver}
	m.add(testPod("p", 3000, 1024, time.Hour))
	for range 900 {
		if m.run(second, "f"); m.did("buy zlarge") {
			break
		}
	}
	m.taints = nil // of later nodes
	m.run(6*minute, "f")
	m.checkOutcome("1 pods run, 0 wait, 0 have ended, lost []; small 0 of 0, at most 1; zlarge 1 of 1, at most 1; 2 were made, 0 nodes are cordoned")
	if f := m.fleet("f").Status.Flavors[0]; f.Failures != 1 {
		t.Errorf("the flavor has failed %d times, want once", f.Failures)
	}
	close(said.Events)
	for e := range said.Events {
		if strings.Contains(e, "TaintRemains node node-m01 of flavor small still has taint nvidia.com/driver-not-ready:NoSchedule 10m0s") {
			return
		}
	}
	t.Error("nobody was told")
}

// TestWhatAMachineOfAnOlderTemplateHeldIsForgotten changes the template of a flavor to one of larger machines. The fleet
// observes that before it knows that the machine is of the older template.
func TestWhatAMachineOfAnOlderTemplateHeldIsForgotten(t *testing.T) {
	small := modelFlavor("small", 4, 16, 100_000)
	small.Template, small.Seen = "a", true
	m := newModel(t, alone(nil), []provider.Flavor{small})
	m.add(testPod("p", 3000, 1024, 10*time.Hour))
	m.run(3*minute, "f")
	m.flavors[0].Template = "b"
	m.run(minute, "f")
	if seen := m.fleet("f").Status.Flavors[0].Seen; seen == nil || seen.Template != "b" {
		t.Fatalf("the scene is another: %+v was seen", seen)
	}
	m.flavors[0].Size.MilliCPU, m.flavors[0].Seen, m.machines[0].Outdated = 8000, false, true
	m.run(minute, "f")
	if seen := m.fleet("f").Status.Flavors[0].Seen; seen != nil {
		t.Errorf("%+v is kept", seen)
	}
	m.add(testPod("large", 7000, 1024, time.Hour))
	m.run(3*minute, "f")
	m.checkOutcome("2 pods run, 0 wait, 0 have ended, lost []; small 2 of 2, at most 2; 2 were made, 0 nodes are cordoned")
}

// TestAReadyNodeThatDoesNotSayWhatItHoldsIsStillStarting has a node that reports what pods can use only after it is ready.
func TestAReadyNodeThatDoesNotSayWhatItHoldsIsStillStarting(t *testing.T) {
	m := newModel(t, alone(nil), smalls())
	m.promised = m.flavors[0].Size
	m.add(testPod("p", 3000, 1024, time.Hour))
	m.run(3*minute, "f")
	m.checkOutcome("0 pods run, 1 wait, 0 have ended, lost []; small 1 of 1, at most 1; 1 were made, 0 nodes are cordoned")
	m.checkCondition(v1alpha1.FleetDegraded, "False MachinesReady")
	for _, node := range m.nodes() {
		node.Status.Allocatable[corev1.ResourceCPU], node.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("4"), resource.MustParse("16Gi")
		m.must(m.client.Status().Update(t.Context(), node))
	}
	m.promised = packing.Size{}
	m.add(testPod("q", 3000, 1024, time.Hour))
	m.run(3*minute, "f")
	m.checkOutcome("2 pods run, 0 wait, 0 have ended, lost []; small 2 of 2, at most 2; 2 were made, 0 nodes are cordoned")
}

// TestAMachineThatAPodNeedsForWhichNothingIsBoughtIsKept has a pod become pending when the machine with the only GPU is
// already cordoned.
func TestAMachineThatAPodNeedsForWhichNothingIsBoughtIsKept(t *testing.T) {
	const gpu corev1.ResourceName = "nvidia.com/gpu"
	m := emptied(t)
	node := m.nodes()["node-m01"]
	node.Status.Allocatable[gpu] = resource.MustParse("1")
	m.must(m.client.Status().Update(t.Context(), node))
	training := waitingPod(testPod("training", 1000, 1024, time.Hour))
	training.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse("1")
	training.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-m01"} // the model's scheduler ignores GPUs
	m.must(m.client.Create(t.Context(), training))
	m.must(m.client.Status().Update(t.Context(), training))
	for range 20 {
		if m.round("f"); !m.nodes()["node-m01"].Spec.Unschedulable {
			break
		}
		m.clock.SetTime(m.clock.Now().Add(second))
	}
	if node := m.nodes()["node-m01"]; node.Spec.Unschedulable || m.did("release") {
		t.Errorf("it is not kept:\n%s", strings.Join(m.log, "\n"))
	}
}
