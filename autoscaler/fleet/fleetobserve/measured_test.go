package fleetobserve

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
	for _, f := range s.observe().State.Flavors {
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
		of := &s.all[0].Inventory.Flavors[0]
		tc.change(of, node)
		of.Taints = node.Spec.Taints
		s.pod(placedOn("n", testPod("p", 1000, 1024, time.Hour)))
		o := s.observe()
		if diff := cmp.Diff([]string{tc.want}, told(o)); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", name, diff)
		}
		starting, taints := strings.HasPrefix(tc.want, "machine"), o.State.Flavors[0].Host.Taints
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
	if diff := cmp.Diff([]corev1.Taint{dedicated}, o.State.Flavors[0].Host.Taints); diff != "" {
		t.Errorf("taints of new machines (-want +got):\n%s", diff)
	}
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
		StockOf(f, i)
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
		StockOf(f, i)
		if got := i.Flavors[0]; got.Size.MilliCPU != tc.cpu || got.Problem != tc.problem {
			t.Errorf("%s: CPU %dm (problem %q), want %dm (%q)", name, got.Size.MilliCPU, got.Problem, tc.cpu, tc.problem)
		}
	}
}
