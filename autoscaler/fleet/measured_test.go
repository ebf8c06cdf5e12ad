package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/packing"
)

// staticPod is a pod that the kubelet of a node runs by itself.
func staticPod(node, name string, cpu, mib int64) *corev1.Pod {
	pod := placedOn(node, ownedBy("Node", testPod(name, cpu, mib, 0)))
	pod.Annotations[corev1.MirrorPodAnnotationKey] = "checksum"
	return pod
}

func TestStaticPodsTakeTheirShareOfMachinesToCome(t *testing.T) {
	small := modelFlavor("small", 4, 16, 100_000)
	small.Seen = true
	s := newScene(small, modelFlavor("other", 4, 16, 100_000))
	s.all[0].machine("a", "small", "a", time.Hour)
	s.all[0].machine("b", "small", "b", time.Hour)
	s.node("a")
	s.node("b") // which has just come
	s.pod(staticPod("a", "proxy-a", 250, 512))
	s.pod(staticPod("a", "agent-a", 100, 512))
	s.pod(staticPod("b", "proxy-b", 250, 512))
	s.pod(placedOn("a", ownedBy("DaemonSet", testPod("of-a-set", 500, 512, 0)))) // which is known beforehand
	s.pod(placedOn("a", ownedBy("Node", testPod("no-mirror", 500, 512, 0))))
	got := map[string]int64{}
	for _, f := range s.observe().state.Flavors {
		got[f.Name+" CPU"], got[f.Name+" MiB"], got[f.Name+" pods"] = f.Size.MilliCPU, f.Size.MemoryBytes>>20, *f.MaxPods
	}
	want := map[string]int64{"small CPU": 3650, "small MiB": 15 * 1024, "small pods": 108, "other CPU": 4000, "other MiB": 16 * 1024, "other pods": 110}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flavors (-want +got):\n%s", diff)
	}
}

func TestANodeThatIsReadyAndNotYetStartedIsAMachineOnItsWay(t *testing.T) {
	csi := corev1.Taint{Key: "ebs.csi.aws.com/agent-not-ready", Effect: corev1.TaintEffectNoExecute}
	key := func(key string) func(*provider.Flavor, *corev1.Node) {
		return func(_ *provider.Flavor, n *corev1.Node) { n.Spec.Taints[0].Key = key }
	}
	as := func(*provider.Flavor, *corev1.Node) {}
	for name, tc := range map[string]struct {
		change func(*provider.Flavor, *corev1.Node)
		age    time.Duration
		want   string
	}{
		"without a taint":            {func(_ *provider.Flavor, n *corev1.Node) { n.Spec.Taints = nil }, 2 * minute, "n: ready, any, 4000m p!"},
		"with a taint that none has": {as, 2 * minute, "machine m: ordered, any, 4000m, due in 0s p!"},
		"sooner than expected":       {as, minute, "machine m: ordered, any, 4000m, due in 1m0s p!"},
		"for longer than it may":     {as, 10 * minute, "n: ready, any, 4000m p!"},
		"with one that is stated":    {func(f *provider.Flavor, _ *corev1.Node) { f.Stated = []corev1.Taint{csi} }, 2 * minute, "n: ready, any, 4000m p!"},
		"with a mild one": {func(_ *provider.Flavor, n *corev1.Node) {
			n.Spec.Taints[0].Effect = corev1.TaintEffectPreferNoSchedule
		}, 2 * minute, "n: ready, any, 4000m p!"},
		"under pressure": {key(corev1.TaintNodeMemoryPressure), 2 * minute, "n: ready, any, 4000m p!"},
		"with one named for cluster-autoscaler, whoever states it": {func(f *provider.Flavor, n *corev1.Node) {
			n.Spec.Taints[0].Key = "startup-taint.cluster-autoscaler.kubernetes.io/gpu"
			f.Stated = n.Spec.Taints
		}, 2 * minute, "machine m: ordered, any, 4000m, due in 0s p!"},
	} {
		f := modelFlavor("small", 4, 16, 100_000)
		s := newScene(f)
		s.all[0].machine("m", "small", "n", tc.age)
		node := s.node("n")
		node.Spec.Taints = []corev1.Taint{csi}
		of := &s.all[0].inventory.Flavors[0]
		tc.change(of, node)
		of.Taints = node.Spec.Taints
		s.pod(placedOn("n", testPod("p", 1000, 1024, time.Hour)))
		o := s.observe()
		if diff := cmp.Diff([]string{tc.want}, told(o)); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", name, diff)
		}
		starting, taints := strings.HasPrefix(tc.want, "machine"), o.state.Flavors[0].Host.Taints
		marked := slices.ContainsFunc(o.inputMachines(), func(m fleetdecide.Machine) bool { return m.Startup != "" })
		if starting != marked || starting && len(taints) > 0 || !starting && len(taints) != len(node.Spec.Taints) {
			t.Errorf("%s: starting %v, and new machines come with %v", name, marked, taints)
		}
	}
}

func TestATaintThatOldMachinesKeepIsOneOfTheFlavor(t *testing.T) {
	dedicated := corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	f := modelFlavor("small", 4, 16, 100_000)
	f.Taints = []corev1.Taint{dedicated}
	s := newScene(f)
	s.all[0].machine("old", "small", "old", time.Hour)
	s.all[0].machine("young", "small", "young", minute)
	s.node("old").Spec.Taints = []corev1.Taint{dedicated}
	s.node("young").Spec.Taints = []corev1.Taint{dedicated}
	o := s.observe()
	if diff := cmp.Diff([]string{"old: ready, any, 4000m", "young: ready, any, 4000m"}, told(o)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Taint{dedicated}, o.state.Flavors[0].Host.Taints); diff != "" {
		t.Errorf("taints of new machines (-want +got):\n%s", diff)
	}
}

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

// TestWhatWasSeenIsTrustedWhileTheLastMachineLeaves: static pods end before their node does.
func TestWhatWasSeenIsTrustedWhileTheLastMachineLeaves(t *testing.T) {
	for name, tc := range map[string]struct {
		machines []provider.Machine
		cpu      int64
		seen     bool
	}{
		"a machine stays":             {[]provider.Machine{{Flavor: "small", Node: "a"}, {Flavor: "small", Node: "b", Leaving: true}}, 4000, true},
		"the last leaves":             {[]provider.Machine{{Flavor: "small", Node: "b", Leaving: true}}, 3750, false},
		"and the next has no node":    {[]provider.Machine{{Flavor: "small"}, {Flavor: "small", Node: "b", Leaving: true}}, 3750, false},
		"and another is of no matter": {[]provider.Machine{{Flavor: "large", Node: "a"}, {Flavor: "small", Node: "b", Leaving: true}}, 3750, false},
	} {
		f := fleetNamed("f")
		f.Status.Flavors = []v1alpha1.FlavorStatus{{Name: "small", Seen: &v1alpha1.SeenMachine{
			CPU: resource.MustParse("3750m"), Memory: resource.MustParse("16Gi"), MaxPods: 109,
		}}}
		small := modelFlavor("small", 4, 16, 100_000)
		small.Seen = true
		i := &provider.Inventory{Flavors: []provider.Flavor{small}, Machines: tc.machines}
		limitToSeen(f, i)
		if got := i.Flavors[0]; got.Size.MilliCPU != tc.cpu || got.Seen != tc.seen {
			t.Errorf("%s: CPU %dm (seen: %t), want %dm (%t)", name, got.Size.MilliCPU, got.Seen, tc.cpu, tc.seen)
		}
	}
}

func TestWhatWasSeenOfATemplateIsUsedOnlyForMachinesOfIt(t *testing.T) {
	const unknown = "the capacity of its machines is unknown"
	for name, tc := range map[string]struct {
		change  func(*provider.Flavor)
		cpu     int64
		problem string
	}{
		"the stated size is limited": {func(*provider.Flavor) {}, 3750, ""},
		"of another template":        {func(f *provider.Flavor) { f.Template = "b" }, 4000, ""},
		// The machine may have been seen just before cluster-api said that it is not of the new template.
		"beside machines of an older template": {func(f *provider.Flavor) { f.Want = 1 }, 4000, ""},
		"no size is stated":                    {func(f *provider.Flavor) { f.Size, f.Problem, f.Unsized = packing.Size{}, unknown, true }, 3750, ""},
		"no size is stated, and of another template": {func(f *provider.Flavor) {
			f.Size, f.Problem, f.Unsized, f.Template = packing.Size{}, unknown, true, "b"
		}, 0, unknown},
		"no size is stated, beside an older template": {func(f *provider.Flavor) { f.Size, f.Problem, f.Unsized, f.Want = packing.Size{}, unknown, true, 1 }, 0, unknown},
		"something else is wrong":                     {func(f *provider.Flavor) { f.Size, f.Problem = packing.Size{}, "paused" }, 0, "paused"},
	} {
		f := fleetNamed("f")
		f.Status.Flavors = []v1alpha1.FlavorStatus{{Name: "small", Seen: &v1alpha1.SeenMachine{
			Template: "a", CPU: resource.MustParse("3750m"), Memory: resource.MustParse("16Gi"), MaxPods: 109,
		}}}
		small := modelFlavor("small", 4, 16, 100_000)
		small.Template = "a"
		tc.change(&small)
		i := &provider.Inventory{Flavors: []provider.Flavor{small}}
		if small.Want > 0 {
			i.Machines = []provider.Machine{{Flavor: "small", Node: "a", Outdated: true}}
		}
		limitToSeen(f, i)
		if got := i.Flavors[0]; got.Size.MilliCPU != tc.cpu || got.Problem != tc.problem {
			t.Errorf("%s: CPU %dm (problem %q), want %dm (%q)", name, got.Size.MilliCPU, got.Problem, tc.cpu, tc.problem)
		}
	}
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
