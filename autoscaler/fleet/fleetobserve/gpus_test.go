package fleetobserve

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// gpuFlavor has two GPUs.
func gpuFlavor() provider.Flavor {
	f := modelFlavor("gpus", 4, 16, 100_000)
	f.Extended = map[corev1.ResourceName]int64{gpu: 2}
	return f
}

func asking(pod *corev1.Pod, gpus string) *corev1.Pod {
	pod.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse(gpus)
	return pod
}

func TestFlavorsAndPodsHaveTheirGPUs(t *testing.T) {
	s := newScene(gpuFlavor(), modelFlavor("plain", 4, 16, 100_000))
	s.pod(waitingPod(asking(testPod("p", 1000, 1024, time.Hour), "1")))
	o := s.observe()
	if len(o.Held) > 0 || len(o.State.Pending) != 1 || o.State.Pending[0].Size.Extended != packing.Amounts(1) {
		t.Errorf("pods are %+v, and %+v are held; want one with a GPU", o.State.Pending, o.Held)
	}
	gpus, plain := &o.State.Flavors[0], &o.State.Flavors[1]
	if want := (extended.GPUs{Any: true, Amounts: packing.Amounts(2)}); gpus.GPUs != want || gpus.Size.Extended != want.Amounts || gpus.Resources.Name(0) != string(gpu) {
		t.Errorf("the flavor with GPUs is %+v", gpus)
	}
	if plain.GPUs.Any || plain.Size.Extended != (packing.Extended{}) {
		t.Errorf("the flavor without GPUs is %+v", plain)
	}
}

func TestAReadyNodeWithoutItsGPUsIsAMachineOnItsWay(t *testing.T) {
	asks := func(gpus string) func(*scene, *corev1.Node) {
		return func(s *scene, _ *corev1.Node) {
			s.pod(waitingPod(asking(testPod("w", 1000, 1024, time.Hour), gpus)))
		}
	}
	for name, tc := range map[string]struct {
		change func(*scene, *corev1.Node)
		age    time.Duration
		want   string
		lacks  corev1.ResourceName
	}{
		"none yet":                        {asks("1"), 2 * minute, "machine m: ordered, any, 4000m, due in 0s p!", gpu},
		"none for as long as it may take": {asks("1"), 10 * minute, "n: ready, any, 4000m p!", gpu},
		"fewer than are stated": {func(s *scene, n *corev1.Node) {
			asks("1")(s, n)
			n.Status.Allocatable[gpu] = resource.MustParse("1")
		}, 2 * minute, "n: ready, any, 4000m p!", ""},
		"none, and none are requested": {asks("0"), 2 * minute, "n: ready, any, 4000m p!", ""},
	} {
		s := newScene(gpuFlavor())
		s.all[0].machine("m", "gpus", "n", tc.age)
		tc.change(s, s.node("n"))
		s.pod(placedOn("n", testPod("p", 1000, 1024, time.Hour)))
		o := s.observe()
		if diff := cmp.Diff([]string{tc.want}, told(o)); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", name, diff)
		}
		for _, m := range o.inputMachines() {
			if m.NodeState.Lacks != tc.lacks || (m.Startup != "") != m.OnOrder || m.OnOrder && m.Startup != string(gpu) {
				t.Errorf("%s: the machine is %+v, its node %+v, want that it lacks %q", name, m, m.NodeState, tc.lacks)
			}
		}
		if n := &o.State.Nodes[0]; n.Phase == 0 && n.Free().Extended != (packing.Amounts(2)) {
			t.Errorf("%s: %v are expected to be free", name, n.Free().Extended)
		}
	}
}

// TestTheGPUsOfTheLastMachineAreRemembered has a flavor that states none.
func TestTheGPUsOfTheLastMachineAreRemembered(t *testing.T) {
	seen := func(template string) *v1alpha1.SeenMachine {
		return &v1alpha1.SeenMachine{
			Template: template, CPU: resource.MustParse("4"), Memory: resource.MustParse("16Gi"), MaxPods: 110, ExtendedResources: corev1.ResourceList{gpu: resource.MustParse("2")},
		}
	}
	for name, tc := range map[string]struct {
		age  time.Duration // of the present machine; 0 for none
		has  string        // of it
		of   string        // template of the last one
		want map[corev1.ResourceName]int64
		kept bool // what is remembered next
	}{
		"there is none":                        {of: "a", want: map[corev1.ResourceName]int64{gpu: 2}},
		"there is none, of another one":        {of: "b"},
		"it is starting":                       {age: minute, of: "a", want: map[corev1.ResourceName]int64{gpu: 2}, kept: true},
		"it has fewer":                         {age: minute, has: "1", of: "a", want: map[corev1.ResourceName]int64{gpu: 1}, kept: true},
		"it should have published them by now": {age: time.Hour, of: "a", want: map[corev1.ResourceName]int64{gpu: 2}},
	} {
		f := modelFlavor("gpus", 4, 16, 100_000)
		f.Template, f.Seen = "a", tc.age > 0
		s := newScene(f)
		stock, of := s.all[0], &s.all[0].Inventory.Flavors[0]
		if tc.age > 0 {
			stock.machine("m", "gpus", "n", tc.age)
			if node := s.node("n"); tc.has != "" {
				node.Status.Allocatable[gpu] = resource.MustParse(tc.has)
				of.Extended = extended.Amounts(node.Status.Allocatable)
			}
		}
		stock.Fleet.Status.Flavors = []v1alpha1.FlavorStatus{{Name: "gpus", Seen: seen(tc.of)}}
		limitToSeen(stock.Fleet, stock.Inventory)
		if diff := cmp.Diff(tc.want, of.Extended); diff != "" {
			t.Errorf("%s: the flavor has (-want +got):\n%s", name, diff)
		}
		if tc.age == 0 {
			continue
		}
		if next := s.observe().SeenMachine(of).ExtendedResources; (len(next) > 0) != tc.kept {
			t.Errorf("%s: %v are remembered", name, next)
		}
	}
}

func TestEphemeralStorageThatIsStatedIsExpected(t *testing.T) {
	f := modelFlavor("f", 4, 16, 100_000)
	f.EphemeralStorage, f.Attaches = new(int64(10)), map[string]int64{"disk": 3}
	s := newScene(f)
	s.daemon("d", 100, func(spec *corev1.PodSpec) {
		spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("4")
	})
	host := s.observe().State.Flavors[0].Host
	if host.Disk == nil || host.Disk.Total != 6 || host.Disk.Free != 6 || host.Attaches["disk"] != 3 {
		t.Errorf("new machines have %+v and can attach %v, want 6 bytes and 3 volumes", host.Disk, host.Attaches)
	}
}
