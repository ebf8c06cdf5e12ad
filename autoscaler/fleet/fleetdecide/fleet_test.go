package fleetdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/disruption"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/moves"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// mover immediately proposes all machines that are less than half used.
func mover() *moves.Planner {
	return moves.NewPlanner(moves.DrainConfig{Threshold: 0.5, QueueEmpty: 1, Method: cluster.Evict})
}

// all allows a fleet everything.
func all() FleetOptions {
	return FleetOptions{Config: Config{Empty: true, UnderUsed: true}, Buy: true, Budget: 100, Spare: map[string]int{"small": 100, "large": 100}}
}

// quiet is a state in which no pod was pending in the last hour, apart from the given ones.
func quiet(pending []cluster.Pod, nodes ...cluster.Node) *cluster.State {
	s := state(pending, nodes...)
	s.QueueEmpty, s.BillingPeriod = time.Hour, 0
	for i := range s.Nodes {
		s.Nodes[i].MaxPods = new(int64(110))
	}
	return s
}

// planned formats machines as "FLAVOR: PODS".
func planned(p *purchase.Plan) []string {
	found := []string{}
	for _, m := range p.Machines {
		found = append(found, m.Flavor+": "+strings.Join(m.Pods, ", "))
	}
	return found
}

func TestAFleetBuysForPodsThatAreGoingToAreUnschedulable(t *testing.T) {
	p := job("p", 6, time.Hour)
	tests := []struct {
		name          string
		s             *cluster.State
		want          []string
		asked, served int
	}{
		{"nobody waits", quiet(nil), []string{}, 0, 0},
		{"one pod", quiet(podsOf(p)), []string{"large: p"}, 1, 0},
		{"a small machine where that is enough", quiet(podsOf(job("p", 4, time.Hour))), []string{"small: p"}, 1, 0},
		{"a machine on order has room", quiet(podsOf(p), due(minute, node("a"))), []string{}, 0, 1},
		{"a machine on order that comes later than another would", quiet(podsOf(p), due(time.Hour, node("a"))), []string{}, 0, 1},
		{"a machine on order for others", quiet(podsOf(p), of(class.Service, due(minute, node("a")))), []string{"large: p"}, 1, 0},
		{"a ready machine has room", quiet(podsOf(p), node("a")), []string{}, 0, 1},
		{"a machine that leaves has none", quiet(podsOf(p), changedNode(node("a"), func(n *cluster.Node) { n.Phase = cluster.Leaving })), []string{"large: p"}, 1, 0},
		{"a job ends in time", quiet(podsOf(p), full("a", 2*minute)), []string{}, 0, 1},
		{"a job ends too late", quiet(podsOf(p), full("a", 2*minute+1)), []string{"large: p"}, 1, 0},
		{"a service never ends", quiet(podsOf(p), node("a", service("x", 10))), []string{"large: p"}, 1, 0},
		{"the room is for one of two", quiet(podsOf(p, job("q", 6, time.Hour)), full("a", minute)), []string{"large: q"}, 1, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := cloned(tc.s)
			d := Fleet(tc.s, all(), mover(), midnight)
			if diff := cmp.Diff(tc.want, planned(&d.Plan.Plan)); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
			if d.Asked != tc.asked || d.Served != tc.served {
				t.Errorf("%d pods are asked for and %d served, want %d and %d", d.Asked, d.Served, tc.asked, tc.served)
			}
			if diff := cmp.Diff(before, tc.s); diff != "" {
				t.Errorf("the cluster was modified:\n%s", diff)
			}
		})
	}
}

func TestPodsDoNotWaitForTheEndOfOthersOfWhichNothingIsKnown(t *testing.T) {
	p := podsOf(job("p", 6, time.Hour))
	known, guessed := node("a", job("x", 10, minute)), node("a", job("x", 10, minute))
	guessed.Pods[0].Guessed = true
	if d := Fleet(quiet(p, known), all(), mover(), midnight); len(d.Plan.Machines) != 0 {
		t.Errorf("although a job is known to end, it buys %v", planned(&d.Plan.Plan))
	}
	if d := Fleet(quiet(p, guessed), all(), mover(), midnight); len(d.Plan.Machines) != 1 {
		t.Errorf("while a job ends nobody knows when, it buys %v, want one machine", planned(&d.Plan.Plan))
	}
}

func TestNothingIsBoughtWhileMorePodsAreAwaited(t *testing.T) {
	o := all()
	o.Buy = false
	d := Fleet(quiet(podsOf(job("p", 6, time.Hour)), node("a")), o, mover(), midnight)
	if len(d.Plan.Machines) > 0 || len(d.Release) > 0 || d.Asked != 0 {
		t.Errorf("the decision is %+v", d)
	}
}

func TestFlavorsThatAreUsedUpAreNotBought(t *testing.T) {
	s := quiet(podsOf(job("a", 4, time.Hour), job("b", 4, time.Hour), job("c", 4, time.Hour)))
	s.Flavors[1].Most = new(1) // small
	d := Fleet(s, all(), mover(), midnight)
	count := map[string]int{}
	for _, m := range d.Plan.Machines {
		count[m.Flavor]++
	}
	if count["small"] > 1 || len(d.Plan.Unplaceable) > 0 {
		t.Errorf("bought %v, left %v", count, d.Plan.Unplaceable)
	}
	s.Flavors[0].Most, s.Flavors[1].Most = new(0), new(0)
	if d := Fleet(s, all(), mover(), midnight); len(d.Plan.Machines) > 0 || len(d.Plan.Unplaceable) != 3 {
		t.Errorf("bought %v, left %v", planned(&d.Plan.Plan), d.Plan.Unplaceable)
	}
}

// drawPending draws pods that some flavor holds.
func drawPending(t *rapid.T, most int) []cluster.Pod {
	var pods []cluster.Pod
	for i := range rapid.IntRange(1, most).Draw(t, "pods") {
		p := job(fmt.Sprintf("p%02d", i), 0, time.Duration(rapid.IntRange(3, 300).Draw(t, "minutes"))*minute)
		p.Size = size(rapid.Int64Range(1, 9).Draw(t, "cpu"), rapid.Int64Range(1, 9).Draw(t, "memory"))
		if rapid.IntRange(0, 2).Draw(t, "service") == 0 {
			p.Class, p.Runtime = class.Service, 0
		}
		pods = append(pods, p)
	}
	return pods
}

// putOnOrder adds the machines of a plan as ordered.
func putOnOrder(s *cluster.State, p *purchase.Plan) {
	for _, m := range p.Machines {
		for _, f := range s.Flavors {
			if f.Name == m.Flavor {
				n := node(fmt.Sprintf("ordered-%03d", len(s.Nodes)))
				n.Flavor, n.Capacity, n.MaxPods, n.MicroDollarsPerHour = f.Name, f.Size, f.MaxPods, f.MicroDollarsPerHour
				s.Nodes = append(s.Nodes, due(s.Lag, n))
			}
		}
	}
}

func TestLimitsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := quiet(drawPending(t, 12))
		limit := func(name string, most int64) *int64 { return rapid.Ptr(rapid.Int64Range(0, most), true).Draw(t, name) }
		o := all()
		o.Limits = cluster.Limits{Machines: limit("machines", 6), MilliCPU: limit("cpu", 40), MemoryBytes: limit("memory", 40), MicroDollarsPerHour: limit("dollars", 300)}
		for i := range s.Flavors {
			s.Flavors[i].Most = rapid.Ptr(rapid.IntRange(0, 3), true).Draw(t, "most")
		}
		d := Fleet(s, o, mover(), midnight)
		var machines, cpu, memory, price int64
		count := map[string]int{}
		for _, m := range d.Plan.Machines {
			f := small
			if m.Flavor == "large" {
				f = large
			}
			count[m.Flavor]++
			machines, cpu, memory, price = machines+1, cpu+f.Size.MilliCPU, memory+f.Size.MemoryBytes, price+f.MicroDollarsPerHour
		}
		for what, of := range map[string]struct {
			bought int64
			limit  *int64
		}{
			"machines": {machines, o.Limits.Machines}, "CPU": {cpu, o.Limits.MilliCPU},
			"memory": {memory, o.Limits.MemoryBytes}, "dollars": {price, o.Limits.MicroDollarsPerHour},
		} {
			if of.limit != nil && of.bought > *of.limit {
				t.Fatalf("%s: %d are bought, the limit is %d", what, of.bought, *of.limit)
			}
		}
		for _, f := range s.Flavors {
			if n := count[f.Name]; f.Most != nil && n > *f.Most {
				t.Fatalf("%d %s are bought, of which there are %d", n, f.Name, *f.Most)
			}
		}
		if len(d.Plan.Assignments)+len(d.Plan.Unplaceable) != d.Asked {
			t.Fatalf("%d pods were asked for, %d are placed and %d not", d.Asked, len(d.Plan.Assignments), len(d.Plan.Unplaceable))
		}
	})
}

// allowing allows so many machines for a reason.
func allowing(reason v1alpha1.FleetBudgetReason, machines int) func(*FleetOptions) {
	return func(o *FleetOptions) {
		o.Allowed = map[v1alpha1.FleetBudgetReason]disruption.Allowance{reason: {Machines: machines, Why: "spec.consolidation.budgets[7] allows no more"}}
	}
}

func TestMachinesAreReleasedWithinBudgetSpareAndPolicy(t *testing.T) {
	empties := func() *cluster.State { return quiet(nil, node("a"), node("b"), node("c")) }
	under := func() *cluster.State {
		return quiet(nil, node("a", job("x", 2, time.Hour)), node("b", job("y", 2, time.Hour)), node("c", job("z", 8, time.Hour)), node("d"))
	}
	with := func(change func(*FleetOptions)) FleetOptions {
		o := all()
		change(&o)
		return o
	}
	tests := []struct {
		name             string
		s                *cluster.State
		o                FleetOptions
		released, drains []string
	}{
		{"all that are empty", empties(), all(), []string{"a", "b", "c"}, []string{}},
		{"as many as the budget allows", empties(), with(func(o *FleetOptions) { o.Budget = 2 }), []string{"a", "b"}, []string{}},
		{"a budget that is spent", empties(), with(func(o *FleetOptions) { o.Budget = 0 }), []string{}, []string{}},
		{"a budget that is more than spent", empties(), with(func(o *FleetOptions) { o.Budget = -3 }), []string{}, []string{}},
		{"as many as a budget for empty ones allows", empties(), with(allowing(v1alpha1.BudgetEmpty, 2)), []string{"a", "b"}, []string{}},
		{"a budget for other reasons", empties(), with(allowing(v1alpha1.BudgetUnderUsed, 0)), []string{"a", "b", "c"}, []string{}},
		{"down to the least number", empties(), with(func(o *FleetOptions) { o.Spare = map[string]int{"large": 1} }), []string{"a"}, []string{}},
		{"none of a flavor that nobody mentions", empties(), with(func(o *FleetOptions) { o.Spare = nil }), []string{}, []string{}},
		{"fewer than the least", empties(), with(func(o *FleetOptions) { o.Spare = map[string]int{"large": -1} }), []string{}, []string{}},
		{"none by policy", empties(), with(func(o *FleetOptions) { o.Empty = false }), []string{}, []string{}},
		{"under-used ones, too", under(), all(), []string{"d"}, []string{"a"}},
		{"empty ones alone by policy", under(), with(func(o *FleetOptions) { o.UnderUsed = false }), []string{"d"}, []string{}},
		{"the empty ones come first", under(), with(func(o *FleetOptions) { o.Budget = 1 }), []string{"d"}, []string{}},
		{"while pods are too large for any machine", quiet(podsOf(service("p", 11)), node("a")), all(), []string{"a"}, []string{}},
		{"while machines are bought only empty ones", quiet(podsOf(service("p", 9)), node("a", job("x", 2, time.Hour)), of(class.Batch, node("b"))), all(), []string{"b"}, []string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := cloned(tc.s)
			spare := fmt.Sprint(tc.o.Spare)
			d := Fleet(tc.s, tc.o, mover(), midnight)
			if diff := cmp.Diff(tc.released, released(d.Release)); diff != "" {
				t.Errorf("released (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.drains, drainsOf(d.Drains)); diff != "" {
				t.Errorf("emptied (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.s); diff != "" || spare != fmt.Sprint(tc.o.Spare) {
				t.Errorf("the arguments were modified:\n%s", diff)
			}
		})
	}
}

func TestWhatMightGoAndStaysIsToldWithTheReason(t *testing.T) {
	under := func(pending ...cluster.Pod) *cluster.State {
		return quiet(pending, node("a", job("x", 2, time.Hour)), node("b", job("z", 8, time.Hour)))
	}
	paid := under()
	paid.BillingPeriod, paid.Nodes[0].Age = time.Hour, 30*minute
	for _, tc := range []struct {
		name   string
		s      *cluster.State
		change func(*FleetOptions)
		want   string
	}{
		{"nothing keeps it", under(), func(*FleetOptions) {}, ""},
		{"no machine goes", quiet(nil, node("a")), func(o *FleetOptions) { o.Empty, o.UnderUsed = false, false }, "it is empty, and spec.consolidation.policy is Never"},
		{"only empty machines go", under(), func(o *FleetOptions) { o.UnderUsed = false }, "spec.consolidation.policy does not allow releasing a machine with pods"},
		{"enough are on their way out", under(), func(o *FleetOptions) { o.Budget = 0 }, "spec.consolidation.maxUnavailable is reached"},
		{"a budget for under-used machines", under(), allowing(v1alpha1.BudgetUnderUsed, 0), "spec.consolidation.budgets[7] allows no more"},
		{"a budget for empty machines", under(), allowing(v1alpha1.BudgetEmpty, 0), ""},
		{"there must be as many", under(), func(o *FleetOptions) { o.Spare = nil }, "flavor large has its minimum number of machines"},
		{"it is paid for", paid, func(*FleetOptions) {}, "its pods have room elsewhere, but its billing period has not ended: it is emptied in 29m50s at the earliest"},
		{"a machine is bought", under(service("p", 9)), func(*FleetOptions) {}, "pending pods may need the room that its pods would take"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := all()
			tc.change(&o)
			got := ""
			for _, stay := range Fleet(tc.s, o, mover(), midnight).Kept {
				if stay.Node == "a" {
					got = stay.Reason
				}
			}
			if got != tc.want {
				t.Errorf("it stays because %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheMachineOfAServiceIsExchangedWhereServicesMayLeave(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pod    cluster.Pod
		change func(*FleetOptions)
		goes   bool
	}{
		{"services may leave", service("x", 2), func(*FleetOptions) {}, true},
		{"services stay", service("x", 2), func(o *FleetOptions) { o.MoveServices = false }, false},
		{"a budget for exchanges", service("x", 2), allowing(v1alpha1.BudgetExchange, 0), false},
		{"a budget for other reasons", service("x", 2), allowing(v1alpha1.BudgetEmpty, 0), true},
		{"a batch pod, where services stay", job("x", 2, 10*time.Hour), func(o *FleetOptions) { o.MoveServices = false }, true},
		{"it has not been there for long", service("x", 2), func(o *FleetOptions) { o.PodResidence = 1 }, false},
		{"its machine has not been there for long", service("x", 2), func(o *FleetOptions) { o.Residence = 1 }, false},
		{"this one stays", func() cluster.Pod { p := service("x", 2); p.Fixed = true; return p }(), func(*FleetOptions) {}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := all()
			o.Class, o.Horizon, o.MoveServices = class.Any, 8*time.Hour, true
			tc.change(&o)
			d := Fleet(quiet(nil, node("a", tc.pod)), o, mover(), midnight)
			if goes := d.Exchange != nil && len(d.Exchange.Buy) == 1 && d.Exchange.Buy[0].Flavor == "small"; goes != tc.goes {
				t.Errorf("exchanged: %+v, want that it goes: %t", d.Exchange, tc.goes)
			}
		})
	}
}

func TestWhatIsPaidForIsKeptToTheEndOfThePeriod(t *testing.T) {
	for age, goes := range map[time.Duration]bool{
		0: false, 30 * minute: false, 59 * minute: false, 59*minute + 50*time.Second: false, 59*minute + 51*time.Second: true, time.Hour: true, time.Hour + 1: false,
		119*minute + 59*time.Second: true,
	} {
		s := quiet(nil, node("a"))
		s.BillingPeriod, s.Nodes[0].Age = time.Hour, age
		if got := len(Fleet(s, all(), mover(), midnight).Release) == 1; got != goes {
			t.Errorf("at the age of %v it goes: %t", age, got)
		}
	}
}

func TestAMoverThatIsAskedEveryRoundRemembers(t *testing.T) {
	m := moves.NewPlanner(moves.DrainConfig{Threshold: 0.5, After: 5 * minute, QueueEmpty: 1, Method: cluster.Evict})
	for round, want := range []int{0, 0, 1} { // also while machines are bought
		s := quiet(nil, node("a"))
		if round == 1 {
			s.Pending = podsOf(service("p", 9))
			s.Nodes[0].Class = class.Batch
		}
		d := Fleet(s, all(), m, midnight.Add(time.Duration(round)*150*time.Second))
		if len(d.Release) != want {
			t.Errorf("in round %d %v go", round, d.Release)
		}
		if round == 0 && d.Wake != 5*minute {
			t.Errorf("it asks to be woken in %v", d.Wake)
		}
	}
}

// TestMachinesOnOrderForOnePodEachAreNotBoughtAgain immediately decides again for the same pods, as on any event. Each
// pod takes more than half of a machine.
func TestMachinesOnOrderForOnePodEachAreNotBoughtAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := quiet(drawPending(t, 12))
		for i := range s.Pending {
			s.Pending[i].Size = size(rapid.Int64Range(6, 10).Draw(t, "cpu"), rapid.Int64Range(6, 10).Draw(t, "memory"))
		}
		first := Fleet(s, all(), mover(), midnight)
		if len(first.Plan.Machines) != len(s.Pending) {
			t.Fatalf("%d machines for %d pods", len(first.Plan.Machines), len(s.Pending))
		}
		putOnOrder(s, &first.Plan.Plan)
		if again := Fleet(s, all(), mover(), midnight); len(again.Plan.Machines) > 0 {
			t.Fatalf("%v are on order, and bought are %v", planned(&first.Plan.Plan), planned(&again.Plan.Plan))
		}
	})
}
