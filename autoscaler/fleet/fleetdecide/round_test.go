package fleetdecide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/moves"
)

// releaseDelay is how long nodes are cordoned before their machines are released.
const releaseDelay = 3 * time.Second

// scene is what a fleet without any history observes at midnight.
type scene struct {
	Observation
	m *Memory
	c Config
}

func newScene() *scene {
	s := &scene{
		m: NewMemory(moves.DrainConfig{Threshold: 0.5, QueueEmpty: 1, Method: cluster.Evict}, 5*minute, midnight.Add(-time.Hour)),
		c: Config{
			Act: true, Class: class.Any, MaxUnavailable: intstr.FromString("100%"), Interval: minute, ExpectedLag: 2 * minute, BackOff: 5 * minute,
			Empty: true, UnderUsed: true, Horizon: time.Hour, DrainTimeout: 5 * minute, ReleaseDelay: releaseDelay,
		},
	}
	for _, f := range []cluster.Flavor{large, small} {
		s.State.Flavors = append(s.State.Flavors, f)
		s.Flavors = append(s.Flavors, Flavor{
			Name: f.Name, Size: f.Size, Sold: f.Size, MicroDollarsPerHour: f.MicroDollarsPerHour, JoinTimeout: 10 * minute, Lag: 2 * minute,
		})
	}
	return s
}

func (s *scene) flavor(name string) *Flavor {
	return &s.Flavors[slices.IndexFunc(s.Flavors, func(f Flavor) bool { return f.Name == name })]
}

// machine adds a machine that was ordered some time ago and has no node yet.
func (s *scene) machine(name, flavor string, age time.Duration) *Machine {
	f := s.flavor(flavor)
	f.Want++
	f.Ordered++
	n := node("machine " + name)
	n.Flavor, n.Capacity, n.Age, n.Phase, n.Due = flavor, f.Size, age, cluster.Ordered, max(0, f.Lag-age)
	n.MicroDollarsPerHour = f.MicroDollarsPerHour
	if age >= f.JoinTimeout {
		n.Phase = cluster.Leaving
	}
	s.State.Nodes = append(s.State.Nodes, n)
	s.Machines = append(s.Machines, Machine{Machine: provider.Machine{Name: name, Flavor: flavor, Ordered: midnight.Add(-age)}, Key: n.Name, OnOrder: true})
	return &s.Machines[len(s.Machines)-1]
}

// ready adds a machine that has had a node for an hour, with pods.
func (s *scene) ready(name, flavor string, pods ...cluster.Pod) *Machine {
	m := s.machine(name, flavor, time.Hour)
	m.Key, m.OnOrder, m.Node = name, false, name
	m.NodeState = &NodeState{Name: name, Created: m.Ordered, Changed: m.Ordered, Ready: true}
	n := s.node("machine " + name)
	n.Name, n.Phase, n.Pods = name, cluster.Ready, pods
	return m
}

// drained adds a machine whose node was cordoned some time ago.
func (s *scene) drained(name, flavor string, ago time.Duration, pods ...cluster.Pod) *Draining {
	m := s.ready(name, flavor, pods...)
	m.NodeState.Drained = true
	s.node(name).Phase = cluster.Leaving
	d := Draining{Node: name, Since: midnight.Add(-ago), Joined: true}
	for _, p := range pods {
		d.Pods = append(d.Pods, LeavingPod{Name: p.Name, Class: p.Class})
	}
	s.Drains = append(s.Drains, d)
	return &s.Drains[len(s.Drains)-1]
}

func (s *scene) node(name string) *cluster.Node {
	return &s.State.Nodes[slices.IndexFunc(s.State.Nodes, func(n cluster.Node) bool { return n.Name == name })]
}

func (s *scene) pending(pods ...cluster.Pod) { s.State.Pending = append(s.State.Pending, pods...) }

func (s *scene) round() Actions { return Round(&s.Observation, s.m, s.c, midnight) }

// does formats actions in a few words each.
func does(a *Actions) []string {
	did := []string{}
	for _, o := range a.Orders {
		did = append(did, fmt.Sprintf("order %s %d to %d", o.Flavor, o.From, o.To))
	}
	for i := range a.Abandoned {
		x := &a.Abandoned[i]
		did = append(did, fmt.Sprintf("abandon %s: release %v of %d, %d fewer", x.Flavor, x.Release, x.Want, x.Fewer))
	}
	for _, n := range a.Release {
		did = append(did, "release "+n)
	}
	for _, n := range a.Uncordon {
		did = append(did, "uncordon "+n.Node)
	}
	for _, n := range a.Cordon {
		did = append(did, "cordon "+n.Node)
	}
	for _, n := range a.Ask {
		did = append(did, "ask "+n)
	}
	return did
}

func check(t *testing.T, a Actions, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), does(&a)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestMachinesAreOrderedWhateverElseContinues(t *testing.T) {
	p := job("p", 10, time.Hour)
	t.Run("an empty machine is released", func(t *testing.T) {
		s := newScene()
		s.drained("a", "small", 10*time.Second)
		s.pending(p)
		check(t, s.round(), "order large 0 to 1", "release a")
	})
	t.Run("a machine that did not come is abandoned", func(t *testing.T) {
		s := newScene()
		s.machine("a", "small", 10*minute)
		s.pending(p)
		check(t, s.round(), "order large 0 to 1", "abandon small: release [a] of 1, 0 fewer")
	})
	t.Run("pods are asked to leave a node", func(t *testing.T) {
		s := newScene()
		s.drained("a", "small", minute, job("x", 4, time.Hour))
		s.ready("b", "small")
		s.c.Empty = false
		s.pending(p)
		check(t, s.round(), "order large 0 to 1", "ask a")
	})
	t.Run("a node is uncordoned that is too small", func(t *testing.T) {
		s := newScene()
		s.drained("a", "small", minute, service("x", 1))
		s.pending(p)
		check(t, s.round(), "order large 0 to 1", "uncordon a")
	})
	t.Run("but no machine of a flavor of which one is released", func(t *testing.T) {
		s := newScene()
		s.drained("a", "large", 10*time.Second)
		s.node("a").Capacity = size(9, 9) // it holds less than the next
		s.pending(p)
		check(t, s.round(), "order large 1 to 2")
	})
}

func TestOrdersCountOnNodesThatAreOpenedAgain(t *testing.T) {
	s := newScene()
	s.drained("a", "small", minute)
	s.pending(job("p", 4, time.Hour))
	check(t, s.round(), "uncordon a")
	s.m.Uncordoned("a", false)
	check(t, s.round(), "order small 1 to 2", "uncordon a")
	s.m.Uncordoned("a", true)
	check(t, s.round(), "uncordon a")
}

// TestMachinesThatAreAbandonedServeNoPod has pods whose ordered machines do not come.
func TestMachinesThatAreAbandonedServeNoPod(t *testing.T) {
	nominated := func(s *scene) {
		s.m.nominations = nominations{orders: []nomination{{
			flavor: "small", count: 1, machines: map[string]bool{"a": true}, pods: map[string]bool{"p": true}, until: midnight.Add(minute),
		}}}
		s.pending(job("p", 4, time.Hour))
	}
	t.Run("it was made", func(t *testing.T) {
		s := newScene()
		s.machine("a", "small", 10*minute)
		nominated(s)
		a := s.round()
		if diff := cmp.Diff([]string{"a"}, a.Unseen()); diff != "" {
			t.Errorf("machines to check again (-want +got):\n%s", diff)
		}
		for range 2 { // as long as it is not carried out
			check(t, s.round(), "order large 0 to 1", "abandon small: release [a] of 1, 0 fewer")
		}
		if len(s.m.nominations.orders) != 1 {
			t.Error("the pod is not nominated any more although nothing was done")
		}
		s.m.Abandoned(a.Abandoned)
		if len(s.m.nominations.orders) != 0 || !s.m.overdue["a"] {
			t.Errorf("after it was done the memory is %+v", s.m)
		}
	})
	t.Run("it was never made", func(t *testing.T) {
		s := newScene()
		f := s.flavor("small")
		f.Want, f.Ordered = 1, 1
		n := node("machine 1 of small")
		n.Flavor, n.Capacity, n.Phase, n.Due = "small", f.Size, cluster.Ordered, 2*minute
		s.State.Nodes = append(s.State.Nodes, n)
		s.m.missing["small"] = &stall{since: midnight.Add(-10 * minute), lacks: 1}
		nominated(s)
		a := s.round()
		check(t, a, "order large 0 to 1", "abandon small: release [] of 1, 1 fewer")
		s.m.Abandoned(a.Abandoned)
		if len(s.m.missing) > 0 {
			t.Errorf("after it was done %v is missing", s.m.missing)
		}
	})
}

func TestPodsAreNominatedOnceTheirMachinesAreOrdered(t *testing.T) {
	s := newScene()
	s.pending(job("p", 4, time.Hour))
	check(t, s.round(), "order small 0 to 1")
	s.m.Ordered("small", midnight)
	s.machine("a", "small", 0)
	s.node("machine a").Capacity = size(3, 3) // less than was planned with
	check(t, s.round())
	later := midnight.Add(NominatedFor(2 * minute))
	if a := Round(&s.Observation, s.m, s.c, later); len(a.Orders) != 1 {
		t.Errorf("when its machine should have come: %v", does(&a))
	}
}

// TestWhatARoundLeftUnfinishedIsKnown has a round that died while it ordered for the pending pods, and a process before
// it that ordered for earlier ones.
func TestWhatARoundLeftUnfinishedIsKnown(t *testing.T) {
	for _, tc := range []struct {
		name       string
		unfinished []Order
		nominated  bool // still, by the process before
	}{
		{"its order was not made", []Order{{"small", 1, 2}}, false},
		{"its order was made", []Order{{"small", 0, 1}}, true},
		{"it ordered nothing", nil, true},
		{"it wanted fewer", []Order{{"small", 2, 1}}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			s.machine("a", "small", minute)
			s.node("machine a").Capacity = size(3, 3)
			s.m.Inherit(midnight.Add(-minute), midnight.Add(minute))
			p := job("p", 4, time.Hour)
			p.Waited = 2 * minute
			s.pending(p)
			s.Interrupted, s.Unfinished = true, tc.unfinished
			if a := s.round(); len(a.Orders) == 0 != tc.nominated {
				t.Errorf("nominated is %t: %v", tc.nominated, does(&a))
			}
		})
	}
}

func TestAClockThatWasAheadHoldsNothingForLongerThanOneThatWasRight(t *testing.T) {
	ahead := midnight.Add(240 * time.Hour)
	s := newScene()
	s.pending(job("p", 4, time.Hour))
	Round(&s.Observation, s.m, s.c, ahead)
	s.m.Ordered("small", ahead)
	s.machine("a", "small", 0)
	s.node("machine a").Capacity = size(3, 3) // less than was planned with
	check(t, s.round())
	if a := Round(&s.Observation, s.m, s.c, midnight.Add(NominatedFor(2*minute))); len(a.Orders) != 1 {
		t.Errorf("its pod is not ordered for when the machine should have come: %v", does(&a))
	}

	s = newScene()
	s.flavor("small").AvoidUntil = ahead
	if got := newPlanning(&s.Observation, s.m, s.c, midnight).avoided["small"].Until.Sub(midnight); got != 80*minute {
		t.Errorf("a flavor is avoided for %v, want no more than 80m", got)
	}
	s.ready("b", "small")
	s.m.kept["b"] = kept{until: ahead}
	check(t, s.round(), "cordon b")
}

// TestWhatTheFleetDoesNotKnowIsLeftUnchanged has machines of an unknown flavor, and a drained node without a machine.
func TestWhatTheFleetDoesNotKnowIsLeftUnchanged(t *testing.T) {
	s := newScene()
	s.Machines = append(s.Machines, Machine{Machine: provider.Machine{Name: "a", Flavor: "other", Ordered: midnight.Add(-time.Hour)}, Key: "a"}, Machine{Machine: provider.Machine{Name: "b", Flavor: "other", Leaving: true}})
	s.Drains = append(s.Drains, Draining{Node: "a", Since: midnight.Add(-minute), Joined: true}, Draining{Node: "c", Since: midnight.Add(-minute)})
	s.State.Flavors = append(s.State.Flavors, flavor("other", 4, 1))
	check(t, s.round())
	s.pending(job("p", 4, time.Hour))
	check(t, s.round(), "order small 0 to 1")
	if got := s.Dead(midnight); len(got) > 0 {
		t.Errorf("told is %v", got)
	}
}

func TestAFleetThatObservesAbandonsNothingAndOpensWhatItDrained(t *testing.T) {
	s := newScene()
	s.c.Act, s.c.Empty = false, false
	s.machine("a", "small", 10*minute)
	s.drained("b", "small", minute)
	s.pending(job("p", 10, time.Hour))
	check(t, s.round(), "order large 0 to 1", "uncordon b")
	s.c.SkipDrains = true
	check(t, s.round(), "order large 0 to 1")
}

func TestAFlavorIsAvoidedTwiceAsLongEachTime(t *testing.T) {
	for failures, want := range map[int32]time.Duration{0: 5 * minute, 1: 10 * minute, 2: 20 * minute, 3: 40 * minute, 4: 80 * minute, 5: 80 * minute, 1 << 30: 80 * minute} {
		s := newScene()
		s.machine("a", "small", 10*minute)
		s.flavor("small").Failures = failures
		a := s.round()
		if got := a.Abandoned[0].Avoidance; got.Until.Sub(midnight) != want || got.Failures != failures+1 {
			t.Errorf("after %d failures: %+v, want %v", failures, got, want)
		}
		s.flavor("small").AvoidUntil = midnight.Add(1) // those were ordered earlier than the late ones
		if got := s.round().Abandoned[0].Avoidance; got.Failures != failures {
			t.Errorf("while it is avoided %d failures become %d", failures, got.Failures)
		}
	}
}

func TestAMachineThatComesEndsTheAvoidanceOfItsFlavor(t *testing.T) {
	s := newScene()
	f := s.flavor("small")
	f.Failures, f.AvoidUntil = 3, midnight.Add(minute)
	s.pending(job("p", 4, time.Hour))
	s.machine("a", "small", minute)
	s.node("machine a").Kept = true // and serves another
	s.node("machine a").Capacity = size(1, 1)
	check(t, s.round(), "order large 0 to 1")
	m := &s.Machines[0]
	m.Key, m.OnOrder, m.NodeState = "a", false, &NodeState{Name: "a", Created: midnight, Changed: midnight.Add(-time.Second), Ready: true}
	s.State.Nodes[0].Name, s.State.Nodes[0].Phase = "a", cluster.Ready
	a := s.round()
	check(t, a, "order small 1 to 2")
	if diff := cmp.Diff([]Joined{{"small", 59 * time.Second}}, a.Joined); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
	if again := s.round(); len(again.Joined) > 0 {
		t.Errorf("it comes again: %v", again.Joined)
	}
}

// TestARoundChangesNothingOfWhatItSees draws scenes, and decides twice with equal memories.
func TestARoundChangesNothingOfWhatItSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		build := drawScene(t)
		s, twin := build(), build()
		first := s.round()
		if diff := cmp.Diff(twin.Observation, s.Observation); diff != "" {
			t.Fatalf("the observation was modified:\n%s", diff)
		}
		second := twin.round()
		if diff := cmp.Diff(does(&first), does(&second)); diff != "" {
			t.Fatalf("the same scene has other actions:\n%s", diff)
		}
		again := s.round()
		if diff := cmp.Diff(does(&first), does(&again)); diff != "" && len(first.Joined)+len(first.Avoid) == 0 {
			t.Fatalf("what was not done is not decided again:\n%s", diff)
		}
	})
}

// drawScene returns a function that builds the same scene each time.
func drawScene(t *rapid.T) func() *scene {
	type one struct {
		kind, pods int
		flavor     string
		minutes    int
	}
	var all []one
	for range rapid.IntRange(0, 6).Draw(t, "machines") {
		all = append(all, one{
			rapid.IntRange(0, 3).Draw(t, "kind"), rapid.IntRange(0, 2).Draw(t, "pods"), rapid.SampledFrom([]string{"small", "large"}).Draw(t, "flavor"),
			rapid.IntRange(0, 12).Draw(t, "minutes"),
		})
	}
	pending := drawPending(t, 4)
	least, limit, leaving := rapid.IntRange(0, 2).Draw(t, "least"), int64(rapid.IntRange(0, 9).Draw(t, "limit")), rapid.IntRange(0, 2).Draw(t, "leaving")
	return func() *scene {
		s := newScene()
		for i, m := range all {
			name, ago := fmt.Sprintf("m%d", i), time.Duration(m.minutes)*minute
			var pods []cluster.Pod
			for j := range m.pods {
				pods = append(pods, job(fmt.Sprintf("%s-%d", name, j), 1, time.Hour))
			}
			switch m.kind {
			case 0:
				s.machine(name, m.flavor, ago)
			case 1:
				s.ready(name, m.flavor, pods...)
			case 2:
				s.drained(name, m.flavor, ago, pods...)
			case 3:
				s.Machines = append(s.Machines, Machine{Machine: provider.Machine{Name: name, Flavor: m.flavor, Leaving: true}})
			}
		}
		for range leaving {
			s.Machines = append(s.Machines, Machine{Machine: provider.Machine{Name: fmt.Sprintf("l%d", len(s.Machines)), Flavor: "small", Leaving: true}})
		}
		s.pending(pending...)
		s.flavor("small").Min = least
		s.c.Limits.Machines = &limit
		return s
	}
}

// TestLimitsHoldWhateverIsDone counts billed machines: all ordered ones come, and no released one is gone.
func TestLimitsHoldWhateverIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)()
		a := s.round()
		ordered := 0
		for _, o := range a.Orders {
			ordered += o.To - o.From
		}
		if paid, limit := len(s.Machines), int(*s.c.Limits.Machines); ordered > 0 && paid+ordered > limit {
			t.Fatalf("%d machines are paid for and %d ordered, the limit is %d: %v", paid, ordered, limit, does(&a))
		}
	})
}

func TestTheLeastNumberOfMachinesStaysWhateverIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)()
		a := s.round()
		small := func(node string) int {
			if s.node(node).Flavor == "small" {
				return 1
			}
			return 0
		}
		released, drained, closed := 0, 0, 0
		for i := range a.Abandoned {
			if a.Abandoned[i].Flavor == "small" {
				released += len(a.Abandoned[i].Release)
			}
		}
		drained = released
		for _, n := range a.Release {
			released += small(n)
		}
		for _, d := range s.Drains {
			if !slices.ContainsFunc(a.Uncordon, func(r Uncordoning) bool { return r.Node == d.Node }) {
				drained += small(d.Node)
			}
		}
		for _, n := range a.Cordon {
			closed += small(n.Node)
		}
		f := s.flavor("small")
		if released > 0 && f.Ordered-released < f.Min || closed > 0 && f.Ordered-drained-closed < f.Min {
			t.Fatalf("of %d small machines %d are released, %d drained and %d closed, the least number is %d: %v", f.Ordered, released, drained, closed, f.Min, does(&a))
		}
	})
}

// TestAnEmptySpotMarketFallsBackToOnDemandAndComesBack: spot machines that do not come are bought on demand until the back-off
// ends, and then as spot machines again.
func TestAnEmptySpotMarketFallsBackToOnDemandAndComesBack(t *testing.T) {
	fresh := func() *scene {
		s := newScene()
		s.State.Flavors[1].Interruptions = 50_000 // "small", the cheaper one per machine
		s.pending(service("p", 1))
		return s
	}
	orders := func(s *scene) (flavors []string) {
		for _, o := range s.round().Orders {
			flavors = append(flavors, o.Flavor)
		}
		return flavors
	}
	if diff := cmp.Diff([]string{"small"}, orders(fresh())); diff != "" {
		t.Errorf("with spot machines for sale (-want +got):\n%s", diff)
	}
	s := fresh()
	s.machine("m", "small", minute).Failed = "InsufficientCapacity: no spot machines in zone a"
	s.State.Nodes[0].Phase = cluster.Leaving
	a := s.round()
	if len(a.Abandoned) != 1 || len(a.Orders) != 1 || a.Orders[0].Flavor != "large" {
		t.Fatalf("after a spot machine did not come: abandoned %v, ordered %v", a.Abandoned, a.Orders)
	}
	until := a.Abandoned[0].Until
	for _, tc := range []struct {
		left time.Duration
		want string
	}{{time.Second, "large"}, {0, "small"}} {
		s := fresh()
		f := s.flavor("small")
		f.Failures, f.AvoidUntil = 1, midnight.Add(tc.left)
		if diff := cmp.Diff([]string{tc.want}, orders(s)); diff != "" {
			t.Errorf("%v before the end of the back-off of %v (-want +got):\n%s", tc.left, until.Sub(midnight), diff)
		}
	}
}

func TestNothingIsBoughtForAPodThatMustNotBeInterruptedIfAllFlavorsMayBe(t *testing.T) {
	s := newScene()
	for i := range s.State.Flavors {
		s.State.Flavors[i].Interruptions = 50_000
		s.State.Flavors[i].Host = &constraint.Host{Labels: map[string]string{"karpenter.sh/capacity-type": "spot"}}
	}
	p := service("p", 1)
	var err error
	if p.Demands, err = constraint.NewCompiler(nil).Compile(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"supercargo.dev/interruptible": "false"}}}); err != nil {
		t.Fatal(err)
	}
	s.pending(p)
	a := s.round()
	if len(a.Orders) > 0 {
		t.Errorf("it orders %v", a.Orders)
	}
	if u := a.Fleet.Plan.Unplaceable; len(u) != 1 || !strings.Contains(u[0].Reason, "may be interrupted") {
		t.Errorf("it says %+v", u)
	}
}
