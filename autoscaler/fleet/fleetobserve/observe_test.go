package fleetobserve

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures/fleetfixtures"
)

const (
	testGiB = 1 << 30
	second  = time.Second
	minute  = time.Minute
)

// Short names of the objects that tests are made of.
var (
	epoch       = fleetfixtures.Epoch
	fleetNamed  = fleetfixtures.Fleet
	modelFlavor = fleetfixtures.Flavor
	testNode    = fleetfixtures.Node
	testPod     = fleetfixtures.Pod
	placedOn    = fleetfixtures.Placed
	waitingPod  = fleetfixtures.Waiting
	ownedBy     = fleetfixtures.Owned
	budgetOf    = fleetfixtures.Budget
)

// scene is a cluster observed at the epoch. Machines take two minutes.
type scene struct {
	world *world.World
	all   []*Stock
}

func newScene(flavors ...provider.Flavor) *scene {
	s := &scene{world: &world.World{Nodes: map[string]*corev1.Node{}, Namespaces: map[string]map[string]string{"default": {}}}}
	s.fleet("f", flavors...)
	return s
}

// fleet adds a fleet. The first one observes.
func (s *scene) fleet(name string, flavors ...provider.Flavor) *Stock {
	f := &Stock{Fleet: fleetNamed(name), Class: class.Any, Inventory: &provider.Inventory{Flavors: flavors}, Prices: pricesOf(flavors, &Prices{}, 0)}
	s.all = append(s.all, f)
	return f
}

// machine adds an existing machine to a fleet, and to its desired number.
func (f *Stock) machine(name, flavor, node string, age time.Duration) *provider.Machine {
	f.Inventory.Machines = append(f.Inventory.Machines, provider.Machine{Name: name, Flavor: flavor, Node: node, Ordered: epoch.Add(-age)})
	at := slices.IndexFunc(f.Inventory.Flavors, func(x provider.Flavor) bool { return x.Name == flavor })
	f.Inventory.Flavors[at].Want++
	return &f.Inventory.Machines[len(f.Inventory.Machines)-1]
}

// node adds a node with four cores and 16 GiB that became ready a minute ago.
func (s *scene) node(name string) *corev1.Node {
	n := testNode(name, packing.Size{MilliCPU: 4000, MemoryBytes: 16 * testGiB}, epoch.Add(-minute))
	n.Labels[corev1.LabelArchStable] = "amd64"
	s.world.Nodes[name] = n
	return n
}

func (s *scene) pod(pod *corev1.Pod) *corev1.Pod {
	s.world.Pods = append(s.world.Pods, pod)
	return s.world.Pods[len(s.world.Pods)-1]
}

func (s *scene) daemon(name string, cpu int64, change func(spec *corev1.PodSpec)) {
	set := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	set.Spec.Template.Spec = testPod(name, cpu, 512, 0).Spec
	if change != nil {
		change(&set.Spec.Template.Spec)
	}
	s.world.Daemons = append(s.world.Daemons, set)
}

func (s *scene) observe() *Observation {
	return observe(s.world, s.all, s.all[0], func(string) time.Duration { return 2 * minute }, runtimes.NewLearner(), epoch)
}

// told formats nodes as "NAME PHASE CLASS CPU, DUE, PODS".
func told(o *Observation) []string {
	phases := map[cluster.Phase]string{cluster.Ordered: "ordered", cluster.Ready: "ready", cluster.Leaving: "leaving"}
	all := []string{}
	for _, n := range o.State.Nodes {
		text := fmt.Sprintf("%s: %s, %s, %dm", n.Name, phases[n.Phase], n.Class, n.Capacity.MilliCPU)
		if n.Phase == cluster.Ordered {
			text += fmt.Sprintf(", due in %v", n.Due)
		}
		if n.Kept {
			text += ", kept"
		}
		for _, p := range n.Pods {
			text += " " + strings.TrimPrefix(p.Name, "default/")
			if p.Fixed || p.Ways.Without(cluster.Wait) == 0 {
				text += "!"
			}
		}
		all = append(all, text)
	}
	return all
}

func pendingOf(o *Observation) []string {
	all := []string{}
	for _, p := range o.State.Pending {
		all = append(all, strings.TrimPrefix(p.Name, "default/"))
	}
	return all
}

func TestMachinesAreSeenInAllTheirPhases(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 100_000), modelFlavor("large", 16, 64, 350_000))
	f := s.all[0]
	f.machine("m-ready", "small", "n-ready", time.Hour)
	s.node("n-ready")
	f.machine("m-fresh", "small", "", 30*second)
	f.machine("m-slow", "large", "", 5*minute) // later than expected, but not than the timeout
	f.machine("m-late", "large", "", 10*minute)
	f.machine("m-starting", "small", "n-starting", minute)
	s.node("n-starting").Status.Conditions[0].Status = corev1.ConditionFalse
	f.machine("m-tainted", "small", "n-tainted", minute)
	s.node("n-tainted").Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}}
	f.machine("m-dead", "small", "n-dead", time.Hour)
	s.node("n-dead").Status.Conditions[0].Status = corev1.ConditionUnknown
	f.machine("m-closed", "small", "n-closed", time.Hour)
	s.node("n-closed").Spec.Unschedulable = true
	f.machine("m-gone", "small", "n-gone", time.Hour) // its node is not in the cache, or no longer
	f.machine("m-leaving", "small", "n-leaving", time.Hour).Leaving = true
	f.Inventory.Flavors[0].Want-- // as it has been released
	s.node("n-leaving")
	f.Inventory.Flavors[0].Want += 2 // not created yet
	s.node("foreign")
	s.pod(placedOn("n-ready", testPod("p", 1000, 1024, time.Hour)))
	s.pod(placedOn("n-leaving", testPod("q", 1000, 1024, time.Hour)))
	s.pod(placedOn("foreign", testPod("r", 1000, 1024, 0)))

	o := s.observe()
	want := []string{
		"foreign: ready, any, 4000m, kept r!",
		"machine 8 of small: ordered, any, 4000m, due in 2m0s",
		"machine 9 of small: ordered, any, 4000m, due in 2m0s",
		"machine m-fresh: ordered, any, 4000m, due in 1m30s",
		"machine m-gone: leaving, any, 4000m",
		"machine m-late: leaving, any, 16000m",
		"machine m-slow: ordered, any, 16000m, due in 0s",
		"machine m-starting: ordered, any, 4000m, due in 1m0s",
		"machine m-tainted: ordered, any, 4000m, due in 1m0s",
		"n-closed: leaving, any, 4000m",
		"n-dead: leaving, any, 4000m",
		"n-ready: ready, any, 4000m p!",
	}
	if diff := cmp.Diff(want, told(o)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"small": 9, "large": 2}, o.Ordered); diff != "" {
		t.Errorf("ordered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"small": 6, "large": 2}, o.InFlight); diff != "" {
		t.Errorf("in flight (-want +got):\n%s", diff)
	}
	if want := int64(10*100_000 + 2*350_000); o.Paid != want { // including the leaving one
		t.Errorf("%d are paid, want %d", o.Paid, want)
	}
	if diff := cmp.Diff(map[string]bool{"n-leaving": true}, o.going); diff != "" {
		t.Errorf("going (-want +got):\n%s", diff)
	}
	names := slices.Sorted(maps.Keys(o.Own))
	if diff := cmp.Diff([]string{"machine m-fresh", "machine m-gone", "machine m-late", "machine m-slow", "machine m-starting", "machine m-tainted", "n-closed", "n-dead", "n-ready"}, names); diff != "" {
		t.Errorf("own (-want +got):\n%s", diff)
	}
	for _, n := range o.State.Nodes {
		if n.Name == "n-ready" && (n.Age != time.Hour || n.MicroDollarsPerHour != 100_000 || n.Flavor != "small" || *n.MaxPods != 110) {
			t.Errorf("the ready node is %+v", n)
		}
	}
}

// TestNoMachineIsPromisedUntilTheOneBeforeItIsGone has a machine that somebody deletes, which takes long.
func TestNoMachineIsPromisedUntilTheOneBeforeItIsGone(t *testing.T) {
	for _, blocked := range []int{1, 0} {
		s := newScene(modelFlavor("small", 4, 16, 100_000))
		f := s.all[0]
		f.machine("m", "small", "n", time.Hour)
		s.node("n")
		f.machine("m-going", "small", "n-going", time.Hour).Leaving = true
		s.node("n-going")
		f.Inventory.Flavors[0].Blocked = blocked
		o := s.observe()
		want := []string{"n: ready, any, 4000m"}
		if blocked == 0 { // it is gone
			want = []string{"machine 2 of small: ordered, any, 4000m, due in 2m0s", "n: ready, any, 4000m"}
		}
		if diff := cmp.Diff(want, told(o)); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
		if o.Ordered["small"] != 2-blocked || o.InFlight["small"] != 1-blocked {
			t.Errorf("%d blocked: %d are ordered and %d in flight", blocked, o.Ordered["small"], o.InFlight["small"])
		}
	}
}

// TestFleetsCountOnTheMachinesThatOthersHaveOnOrder keeps two fleets from buying for the same pods.
func TestFleetsCountOnTheMachinesThatOthersHaveOnOrder(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 100_000))
	g := s.fleet("g", modelFlavor("large", 16, 64, 350_000))
	g.Class = class.Batch
	s.all[0].machine("m", "small", "", minute)
	g.machine("m", "large", "", minute) // of the same name
	g.machine("ready", "large", "n", time.Hour)
	s.node("n")
	g.Inventory.Flavors[0].Want++

	for range 2 {
		o := s.observe()
		other := "f"
		want := []string{
			"machine 3 of large: ordered, batch, 16000m, due in 0s, kept",
			"machine m: ordered, any, 4000m, due in 1m0s",
			"machine m: ordered, batch, 16000m, due in 0s, kept",
			"n: ready, batch, 4000m, kept",
		}
		own, ordered := []string{"machine m"}, map[string]int{"small": 1}
		if s.all[0] == g {
			other = "g"
			want = []string{
				"machine 3 of large: ordered, batch, 16000m, due in 2m0s",
				"machine m: ordered, any, 4000m, due in 0s, kept",
				"machine m: ordered, batch, 16000m, due in 1m0s",
				"n: ready, batch, 4000m",
			}
			own, ordered = []string{"machine m", "n"}, map[string]int{"large": 3}
		}
		got := told(o)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("nodes as fleet %s sees them (-want +got):\n%s", other, diff)
		}
		if diff := cmp.Diff(own, slices.Sorted(maps.Keys(o.Own))); diff != "" {
			t.Errorf("own (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ordered, o.Ordered); diff != "" {
			t.Errorf("ordered (-want +got):\n%s", diff)
		}
		slices.Reverse(s.all)
	}
}

func TestDaemonSetsTakeTheirShareOfMachinesToCome(t *testing.T) {
	gpu := modelFlavor("gpu", 4, 16, 100_000)
	gpu.Labels["gpu"] = "yes"
	gpu.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: "cold", Effect: corev1.TaintEffectPreferNoSchedule}}
	full := modelFlavor("tiny", 1, 1, 1000)
	few := modelFlavor("few", 4, 16, 1000)
	few.MaxPods = 3
	s := newScene(few, gpu, modelFlavor("small", 4, 16, 100_000), full)
	s.daemon("log", 200, nil) // runs where there is no taint
	s.daemon("agent", 300, func(spec *corev1.PodSpec) {
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	s.daemon("driver", 500, func(spec *corev1.PodSpec) {
		spec.NodeSelector = map[string]string{"gpu": "yes"}
		spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	})
	s.daemon("arm", 100, func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{corev1.LabelArchStable: "arm64"} })
	s.daemon("large", 600, func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"size": "large"} })
	s.all[0].machine("m", "gpu", "", minute)

	o := s.observe()
	got := map[string]string{}
	for _, f := range o.State.Flavors {
		got[f.Name] = fmt.Sprintf("%dm %dMi %d pods", f.Size.MilliCPU, f.Size.MemoryBytes>>20, *f.MaxPods)
	}
	want := map[string]string{
		"few": "3500m 15360Mi 1 pods", "gpu": "3200m 15360Mi 108 pods", "small": "3500m 15360Mi 108 pods", "tiny": "500m 0Mi 108 pods",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flavors (-want +got):\n%s", diff)
	}
	if n := o.State.Nodes[0]; n.Capacity.MilliCPU != 3200 || *n.MaxPods != 108 {
		t.Errorf("the machine on its way holds %+v and %d pods", n.Capacity, *n.MaxPods)
	}
	s.daemon("more", 600, nil)
	for _, f := range s.observe().State.Flavors {
		if f.Name == "few" || f.Name == "tiny" {
			t.Errorf("DaemonSets fill %s, and it is for sale with %+v", f.Name, f)
		}
	}
}

func TestServicesMayLeaveTheMachinesOfTheFleetThatLooks(t *testing.T) {
	for which, free := range map[v1alpha1.ServiceEviction]bool{
		v1alpha1.EvictServicesOptOut: true, v1alpha1.EvictServicesOptIn: false, v1alpha1.EvictServicesNever: false, "": false,
	} {
		s := newScene(modelFlavor("small", 4, 16, 100_000))
		s.all[0].machine("m", "small", "own", time.Hour)
		other := s.fleet("other", modelFlavor("large", 4, 16, 350_000))
		other.machine("m", "large", "theirs", time.Hour)
		for i, name := range []string{"own", "theirs", "nobodys"} {
			s.node(name)
			s.pod(placedOn(name, testPod(fmt.Sprint("p", i), 100, 512, 0)))
		}
		s.all[0].Fleet.Spec.Consolidation.EvictServices = which
		for _, n := range s.observe().State.Nodes {
			if may := n.Pods[0].Ways.Has(cluster.Evict); may != (free && n.Name == "own") || may == n.Pods[0].Fixed {
				t.Errorf("with evictServices %q the pod on node %s may be evicted: %t, and must stay: %t", which, n.Name, may, n.Pods[0].Fixed)
			}
		}
	}
}

func TestPodsThatAreOnEveryNodeTakeRoomAndAreNobodysConcern(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 100_000))
	s.all[0].machine("m", "small", "n", time.Hour)
	s.node("n")
	s.pod(placedOn("n", ownedBy("DaemonSet", testPod("agent", 300, 512, 0))))
	s.pod(placedOn("n", ownedBy("Node", testPod("proxy", 200, 512, 0))))
	s.pod(placedOn("n", testPod("service", 1000, 1024, 0)))
	s.pod(waitingPod(ownedBy("DaemonSet", testPod("agent-waits", 300, 512, 0))))
	o := s.observe()
	if diff := cmp.Diff([]string{"n: ready, any, 3500m service"}, told(o)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if n := o.State.Nodes[0]; *n.MaxPods != 108 {
		t.Errorf("it takes %d pods, want 108", *n.MaxPods)
	}
	if len(o.State.Pending) > 0 || len(o.Held) > 0 {
		t.Errorf("pending %v, held %v", pendingOf(o), o.Held)
	}
}

func TestPodsOnTheirWayTakeTheRoomThatIsPromisedToThem(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 100_000))
	s.all[0].machine("m", "small", "n", time.Hour)
	s.node("n")
	s.pod(waitingPod(testPod("nominated", 1000, 1024, time.Hour))).Status.NominatedNodeName = "n"
	s.pod(waitingPod(testPod("lost", 1000, 1024, time.Hour))).Status.NominatedNodeName = "no-more"
	s.pod(placedOn("no-more", testPod("orphan", 1000, 1024, time.Hour)))
	restored := s.pod(testPod("restored", 1000, 1024, time.Hour))
	s.world.Migrations = []v1alpha1.Migration{{Status: v1alpha1.MigrationStatus{
		Reservation: &v1alpha1.MigrationReservation{Node: "n", PodUID: string(restored.UID)},
	}}}
	o := s.observe()
	if diff := cmp.Diff([]string{"n: ready, any, 4000m nominated! restored!"}, told(o)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if o.State.Nodes[0].Incoming != 2 {
		t.Errorf("%d pods are on their way", o.State.Nodes[0].Incoming)
	}
	if diff := cmp.Diff([]string{"lost"}, pendingOf(o)); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}

func TestOnlyPodsThatFoundNoRoomWait(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 100_000))
	s.pod(waitingPod(testPod("waits", 1000, 1024, time.Hour)))
	s.pod(testPod("new", 1000, 1024, time.Hour))
	s.pod(waitingPod(testPod("gated", 1000, 1024, time.Hour))).Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
	s.pod(waitingPod(testPod("going", 1000, 1024, time.Hour))).DeletionTimestamp = new(metav1.NewTime(epoch))
	s.pod(waitingPod(testPod("placed", 1000, 1024, time.Hour))).Status.Conditions[0].Status = corev1.ConditionTrue
	o := s.observe()
	if diff := cmp.Diff([]string{"waits"}, pendingOf(o)); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	p := o.State.Pending[0]
	if p.Waited != 30*second || p.Runtime != time.Hour || p.Class != class.Batch || p.Size != (packing.Size{MilliCPU: 1000, MemoryBytes: testGiB}) {
		t.Errorf("the pod is %+v", p)
	}
	if diff := cmp.Diff(map[string]time.Time{"default/waits": epoch.Add(-30 * second)}, o.Waited); diff != "" {
		t.Errorf("waited (-want +got):\n%s", diff)
	}
}

// TestPodsThatCameWithinTheLagAreSeenTheLastFirst has machines that take two minutes.
func TestPodsThatCameWithinTheLagAreSeenTheLastFirst(t *testing.T) {
	s := newScene(provider.Flavor{Name: "small"})
	created := func(name string, ago time.Duration, change func(*corev1.Pod)) {
		p := testPod(name, 1000, 1024, time.Hour)
		p.CreationTimestamp = metav1.NewTime(epoch.Add(-ago))
		if change != nil {
			change(p)
		}
		s.pod(p)
	}
	s.node("n")
	created("old", 2*minute, nil)
	created("bound", minute, func(p *corev1.Pod) { p.Spec.NodeName = "n" })
	created("ended", 30*time.Second, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	created("waiting", 10*time.Second, func(p *corev1.Pod) { waitingPod(p) })
	created("daemon", time.Second, func(p *corev1.Pod) { ownedBy("DaemonSet", p) })
	created("by a clock that is ahead", -time.Second, nil)
	o := s.observe()
	var got []string
	for i := range o.State.Recent {
		p := &o.State.Recent[i]
		got = append(got, fmt.Sprintf("%s %v %v", p.Name, p.Waited, p.Runtime))
	}
	want := []string{"default/waiting 10s 1h0m0s", "default/ended 30s 1h0m0s", "default/bound 1m0s 1h0m0s"}
	if diff := cmp.Diff(want, got); diff != "" || o.State.Observed != 2*minute {
		t.Errorf("watched for %v; pods that came (-want +got):\n%s", o.State.Observed, diff)
	}
}

func TestAFleetManagesPodsOfItsClassAlone(t *testing.T) {
	for machines, want := range map[class.Class][]string{class.Any: {"job", "server"}, class.Batch: {"job"}, class.Service: {"server"}} {
		s := newScene(modelFlavor("small", 4, 16, 100_000))
		s.all[0].Class = machines
		s.pod(waitingPod(testPod("job", 1000, 1024, time.Hour)))
		s.pod(waitingPod(testPod("server", 1000, 1024, 0)))
		odd := s.pod(waitingPod(testPod("odd", 1000, 1024, 0))) // held where its class is managed
		odd.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
		o := s.observe()
		if diff := cmp.Diff(want, pendingOf(o)); diff != "" {
			t.Errorf("a fleet for %s: pending (-want +got):\n%s", machines, diff)
		}
		if (len(o.Held) == 1) != machines.Takes(class.Service) {
			t.Errorf("a fleet for %s holds %v", machines, o.Held)
		}
	}
}

// prioritized gives a pod a priority.
func prioritized(priority int32, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Priority = &priority
	return pod
}

// TestPodsBelowTheCutoffAreExpendable has pods with and without a priority, on a node and pending.
func TestPodsBelowTheCutoffAreExpendable(t *testing.T) {
	for cutoff, want := range map[int32]struct{ pending, recent, expendable []string }{
		-10: {[]string{"none", "pause"}, []string{"none", "pause"}, []string{"default/on-low"}},
		-11: {[]string{"low", "none", "pause"}, []string{"low", "none", "pause"}, nil},
		1:   {[]string{"none"}, []string{"none"}, []string{"default/on-low", "default/on-zero"}},
	} {
		s := newScene(modelFlavor("small", 4, 16, 100_000))
		if cutoff != v1alpha1.DefaultExpendablePodsPriorityCutoff {
			s.all[0].Fleet.Spec.Scaling.ExpendablePodsPriorityCutoff = &cutoff
		}
		s.node("n")
		s.all[0].machine("m", "small", "n", time.Hour)
		s.pod(waitingPod(testPod("none", 1000, 1024, 0)))
		s.pod(prioritized(-11, waitingPod(testPod("low", 1000, 1024, 0))))
		s.pod(prioritized(-10, waitingPod(testPod("pause", 1000, 1024, 0))))
		s.pod(prioritized(-11, placedOn("n", testPod("on-low", 100, 1024, 0))))
		s.pod(prioritized(0, placedOn("n", testPod("on-zero", 100, 1024, 0))))
		s.pod(placedOn("n", testPod("on-none", 100, 1024, 0)))
		o := s.observe()
		if diff := cmp.Diff(want.pending, pendingOf(o)); diff != "" {
			t.Errorf("cutoff %d: pending (-want +got):\n%s", cutoff, diff)
		}
		var recent, expendable []string
		for i := range o.State.Recent {
			if name := strings.TrimPrefix(o.State.Recent[i].Name, "default/"); !strings.HasPrefix(name, "on-") {
				recent = append(recent, name)
			}
		}
		for _, p := range o.State.Nodes[0].Pods {
			if p.Expendable {
				expendable = append(expendable, p.Name)
			}
		}
		if diff := cmp.Diff(want.recent, recent); diff != "" {
			t.Errorf("cutoff %d: arrived (-want +got):\n%s", cutoff, diff)
		}
		if diff := cmp.Diff(want.expendable, expendable); diff != "" {
			t.Errorf("cutoff %d: expendable (-want +got):\n%s", cutoff, diff)
		}
	}
}

func TestPodsThatNothingCanBePlannedForAreHeldWithAReason(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 100_000))
	many := s.pod(waitingPod(testPod("many", 1000, 1024, 0))).Spec.Containers[0].Resources.Requests
	many["example.com/nic"] = resource.MustParse("1")
	for i := range packing.Slots {
		many[corev1.ResourceName(fmt.Sprintf("example.com/gpu-%d", i))] = resource.MustParse("1")
	}
	disk := s.pod(waitingPod(testPod("disk", 1000, 1024, 0)))
	disk.Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	s.pod(waitingPod(testPod("claim", 1000, 1024, 0))).Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
	o := s.observe()
	if diff := cmp.Diff([]string{"disk"}, pendingOf(o)); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if len(o.Held) != 2 || o.Held[0].Name != "default/claim" || o.Held[1].Name != "default/many" || !strings.Contains(o.Held[1].Reason, "example.com/nic") {
		t.Errorf("held: %+v", o.Held)
	}
	if len(o.Waited) != 1 {
		t.Errorf("%d pods are waited for, those held are not to be", len(o.Waited))
	}
}

func TestFlavorsForSaleHaveRoomBelowTheirGreatestNumber(t *testing.T) {
	free := modelFlavor("free", 4, 16, 0)
	broken, unpriced, full, one := modelFlavor("broken", 4, 16, 1), modelFlavor("unpriced", 4, 16, 1), modelFlavor("full", 4, 16, 1), modelFlavor("one", 4, 16, 1)
	broken.Problem, unpriced.HasPrice, full.Max, one.Max = "it is", false, 2, 2
	unlimited := modelFlavor("unlimited", 4, 16, 1)
	unlimited.Max = provider.Unlimited
	s := newScene(broken, free, full, one, unlimited, unpriced)
	s.all[0].machine("a", "full", "", minute)
	s.all[0].machine("b", "full", "", minute)
	s.all[0].machine("c", "one", "", minute)
	s.all[0].machine("d", "unlimited", "", minute)
	got := map[string]*int{}
	for _, f := range s.observe().State.Flavors {
		got[f.Name] = f.Most
	}
	if diff := cmp.Diff(map[string]*int{"free": new(100), "full": new(0), "one": new(1), "unlimited": nil}, got); diff != "" {
		t.Errorf("how many more can be bought (-want +got):\n%s", diff)
	}
}

func TestALagIsLearnedOnceAMachineHasCome(t *testing.T) {
	s := newScene(modelFlavor("new", 4, 16, 1), modelFlavor("seen", 4, 16, 1), modelFlavor("forgotten", 4, 16, 1))
	f := s.all[0].Fleet
	f.Spec.Scaling.ExpectedLag.Duration = 2 * minute
	f.Status.Flavors = []v1alpha1.FlavorStatus{
		{Name: "seen", Lag: &v1alpha1.LearnedTime{Mean: metav1.Duration{Duration: minute}, Samples: 1}}, {Name: "forgotten", Lag: &v1alpha1.LearnedTime{}},
	}
	for _, got := range s.observe().inputFlavors() {
		lag := map[bool]time.Duration{false: 2 * minute, true: minute}[got.Name == "seen"]
		if got.Lag != lag || got.Learned != (got.Name == "seen") {
			t.Errorf("%s takes %v, learned: %t", got.Name, got.Lag, got.Learned)
		}
	}
}

func TestMachinesTakeTheClassOfTheirFleetUnlessALabelSaysOtherwise(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 1))
	s.all[0].Class = class.Batch
	s.all[0].machine("a", "small", "plain", time.Hour)
	s.node("plain")
	s.all[0].machine("b", "small", "labelled", time.Hour)
	s.node("labelled").Labels[v1alpha1.LabelClass] = "any"
	s.node("foreign")
	s.node("odd").Labels[v1alpha1.LabelClass] = "nonsense"
	want := []string{"foreign: ready, any, 4000m, kept", "labelled: ready, any, 4000m", "odd: ready, any, 4000m, kept", "plain: ready, batch, 4000m"}
	if diff := cmp.Diff(want, told(s.observe())); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestHowLongJobsStillRun(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 1))
	s.all[0].machine("a", "small", "n", time.Hour)
	s.node("n")
	s.pod(placedOn("n", testPod("half", 1, 1, 2*minute)))     // of which it has run one
	s.pod(placedOn("n", testPod("overdue", 1, 1, 40*second))) // by 20 s
	s.pod(placedOn("n", testPod("just", 1, 1, minute)))       // due now
	s.pod(placedOn("n", testPod("service", 1, 1, 0)))         // has no end
	finish := s.pod(placedOn("n", testPod("said", 1, 1, 1)))  // said by its scheduler
	finish.Annotations[v1alpha1.AnnotationExpectedFinish] = "2026-01-01T00:05:00Z"
	got := map[string]time.Duration{}
	for _, p := range s.observe().State.Nodes[0].Pods {
		got[strings.TrimPrefix(p.Name, "default/")] = p.Runtime
		if p.Class == class.Batch && p.Ran != minute {
			t.Errorf("%s has run for %v", p.Name, p.Ran)
		}
	}
	want := map[string]time.Duration{"half": minute, "overdue": 20 * second, "just": second, "service": 0, "said": 5 * minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runtimes (-want +got):\n%s", diff)
	}
}

func TestPodsOfABudgetThatIsSpentStay(t *testing.T) {
	s := newScene(modelFlavor("small", 4, 16, 1))
	s.all[0].machine("a", "small", "n", time.Hour)
	s.node("n")
	movable := func(name string) *corev1.Pod {
		pod := testPod(name, 1, 1, time.Hour)
		pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
		return placedOn("n", pod)
	}
	s.pod(movable("free"))
	s.pod(movable("held")).Labels = map[string]string{"app": "x"}
	s.world.Budgets = append(s.world.Budgets, budgetOf(map[string]string{"app": "x"}))
	if diff := cmp.Diff([]string{"n: ready, any, 4000m free held!"}, told(s.observe())); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

// TestANodeIsUnhealthyOnceItHasHadAConditionForLongEnough has a node whose kernel has hung for ten minutes.
func TestANodeIsUnhealthyOnceItHasHadAConditionForLongEnough(t *testing.T) {
	now := time.Unix(10_000, 0)
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
		{Type: "KernelDeadlock", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-10 * time.Minute))},
	}}}
	when := func(kind string, status corev1.ConditionStatus, lasts time.Duration) v1alpha1.UnhealthyCondition {
		return v1alpha1.UnhealthyCondition{Type: kind, Status: status, Duration: metav1.Duration{Duration: lasts}}
	}
	const says = "condition KernelDeadlock of its node has been True for at least 10m0s"
	for _, tc := range []struct {
		name       string
		conditions []v1alpha1.UnhealthyCondition
		want       string
	}{
		{"no conditions", nil, ""},
		{"for long enough", []v1alpha1.UnhealthyCondition{when("KernelDeadlock", corev1.ConditionTrue, 10*time.Minute)}, says},
		{"not for long enough", []v1alpha1.UnhealthyCondition{when("KernelDeadlock", corev1.ConditionTrue, 10*time.Minute+1)}, ""},
		{"another status", []v1alpha1.UnhealthyCondition{when("KernelDeadlock", corev1.ConditionFalse, 0)}, ""},
		{"another condition", []v1alpha1.UnhealthyCondition{when("ReadonlyFilesystem", corev1.ConditionTrue, 0)}, ""},
		{"one of several", []v1alpha1.UnhealthyCondition{when("ReadonlyFilesystem", corev1.ConditionTrue, 0), when("KernelDeadlock", corev1.ConditionTrue, 10*time.Minute)}, says},
	} {
		if got := unhealthy(node, tc.conditions, now); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
