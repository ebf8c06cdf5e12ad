package moves

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
)

// TestADrainMustSaveMoreThanItCosts uses machines at a dollar a minute that are 10 min old unless a case says
// otherwise, billed by the minute, and migrations of 30 s. Where a target is not needed longer, p costs a tenth of it
// for that time. Amounts are in dollars.
func TestADrainMustSaveMoreThanItCosts(t *testing.T) {
	const minute = time.Minute
	costing := func(n cluster.Node, cents int64) cluster.Node { n.MicroDollarsPerHour = cents * 600_000; return n }
	aged := func(n cluster.Node, age time.Duration) cluster.Node { n.Age = age; return n }
	released := func(s *cluster.State, lag time.Duration) *cluster.State { s.Release = lag; return s }
	hourly := func(s *cluster.State) *cluster.State { s.BillingPeriod = time.Hour; return s }
	p, q := lasting(job("p", 1, 1), 5*minute), lasting(job("q", 2, 2), 3*minute)
	until := func(name string, end time.Duration) cluster.Node {
		return node(name, lasting(job("r-"+name, 6, 6), end))
	}
	tests := []struct {
		name         string
		s            *cluster.State
		saves, costs float64
		done         bool
	}{
		// If kept, a is paid for 15 min; if drained, for 10.5 min, which are billed as 11.
		{"the target is needed longer anyway", state(node("a", p), until("b", 10*minute)), 4, 0.05, true},
		// p ends 5.5 min from now; until then b is paid for 16 min, without p for 14.
		{"the target is needed longer than without", state(node("a", p), until("b", 4*minute)), 4, 2, true},
		{"a target twice as dear eats up what is saved", state(node("a", p), costing(until("b", 4*minute), 200)), 4, 4, false},
		{"one that is a little less dear does not", state(node("a", p), costing(until("b", 4*minute), 199)), 4, 3.98, true},
		{"a cheap node is not worth it", state(costing(node("a", p), 50), until("b", 4*minute)), 2, 2, false},
		{"the longest pod decides what is saved", state(node("a", p, q), until("b", 10*minute)), 4, 0.15, true},
		// b is paid for 15.5 min, so 16 instead of 11, and c for 13.5, so 14 instead of 12.
		{"the costs of several targets add up", state(costing(node("a", lasting(job("p", 4, 4), 5*minute), lasting(job("q", 3, 3), 3*minute)), 1000),
			until("b", minute), node("c", lasting(job("r", 7, 7), 2*minute))), 40, 7, true},
		{"a pod that ends before its move is over", state(node("a", lasting(job("p", 1, 1), 20*time.Second)), until("b", 10*minute)), 0, 0.05, false},
		{"a pod that is overdue would be there longer for its move", state(node("a", lasting(job("p", 1, 1), 0)), until("b", 10*minute)), -1, 0.05, false},
		// 10 min 40 s and 15 min 10 s with the release: 11 and 16.
		{"the release is paid as well", released(state(node("a", p), until("b", 10*minute)), 10*time.Second), 5, 0.05, true},
		// 11 min 10 s and 15 min 40 s: 12 and 16.
		{"also where it begins another minute", released(state(node("a", p), until("b", 10*minute)), 40*time.Second), 4, 0.05, true},
		{"on the target, too: 15 min 40 s for 14 min 10 s", released(state(node("a", p), until("b", 4*minute)), 10*time.Second), 5, 1.05, true},
		{"within the hour that is paid nothing is saved", hourly(state(node("a", p), until("b", 10*minute))), 0, 0.05, false},
		{"an hour is saved if the next would begin", hourly(state(aged(node("a", p), 57*minute), until("b", 4*minute))), 60, 0.05, true},
		{"an hour of the target costs as much", hourly(state(aged(node("a", p), 57*minute), aged(until("b", 4*minute), 55*minute))), 60, 60, false},
		{"a target that is kept stays anyway", state(node("a", p), with(until("b", minute), keep)), 4, 0.05, true},
		{"a target with a service stays anyway", state(node("a", p), with(until("b", minute), func(n *cluster.Node) {
			n.Pods = append(n.Pods, service("web", 1, 1))
		})), 4, 0.05, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.s.Nodes[0].MaxPods = new(int64(len(tc.s.Nodes[0].Pods))) // a is no target
			for i := range tc.s.Nodes[1:] {
				tc.s.Nodes[i+1].Pods[0].Fixed = true // no other node is drained
			}
			plan := NewPlanner(DrainConfig{Threshold: 1, Worthwhile: true}).Plan(noon, tc.s)
			if !tc.done {
				if len(plan.Drains) > 0 {
					t.Errorf("%s: %s", lines(plan), plan.Drains[0].Reason)
				}
				// The result without Worthwhile's decision.
				r := newPlanning(DrainConfig{Worthwhile: true}, tc.s)
				e := &drainPlan{planning: r, n: &tc.s.Nodes[0], stay: r.needed(&tc.s.Nodes[0]), must: tc.s.Nodes[0].Pods}
				e.weigh()
				plan.Drains = []cluster.Drain{{Saves: e.choices[0].saves, Costs: e.choices[0].costs}}
			}
			if len(plan.Drains) != 1 {
				t.Fatalf("plan: %s", lines(plan))
			}
			got := []float64{float64(plan.Drains[0].Saves) / 1e6, float64(plan.Drains[0].Costs) / 1e6}
			if diff := cmp.Diff([]float64{tc.saves, tc.costs}, got); diff != "" {
				t.Errorf("dollars saved and spent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutTheBillADrainIsNotPriced(t *testing.T) {
	d := NewPlanner(underHalf).Plan(noon, state(node("a", job("p", 1, 1)), node("b", job("r", 6, 6)))).Drains[0]
	if d.Saves != 0 || d.Costs != 0 || strings.Contains(d.Reason, "$") {
		t.Errorf("saves %d, costs %d: %s", d.Saves, d.Costs, d.Reason)
	}
}

// TestAnotherDrainPaysOnlyForWhatTheFirstHasNotPaid has two nodes whose pods go to one target: after the first drain
// the target is needed as long as the second one requires.
func TestAnotherDrainPaysOnlyForWhatTheFirstHasNotPaid(t *testing.T) {
	s := state(node("a", lasting(job("p", 1, 1), 5*time.Minute)), node("b", lasting(job("q", 2, 2), 5*time.Minute)),
		with(node("c", fixed(lasting(job("r", 7, 7), time.Minute))), func(n *cluster.Node) { n.MicroDollarsPerHour /= 2 }))
	var costs []int64
	for _, d := range NewPlanner(DrainConfig{Threshold: 1, Worthwhile: true}).Plan(noon, s).Drains {
		costs = append(costs, d.Costs)
	}
	// 15.5 min of c are billed as 16; without p and q they would be 11 min.
	if diff := cmp.Diff([]int64{2_500_000, 50_000}, costs); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
}

func TestAnEvictionSavesAtOnceAndRepeatsWork(t *testing.T) {
	// Without p, a is paid for 10 min instead of 15. p takes 5 min plus the 2 min that it repeats, so b is paid for 17
	// min instead of 16.
	s := state(node("a", ran(lasting(job("p", 1, 1), 5*time.Minute), 2*time.Minute)), node("b", fixed(lasting(job("r", 6, 6), 6*time.Minute))))
	d := NewPlanner(DrainConfig{Threshold: 0.5, Worthwhile: true, Method: cluster.Evict}).Plan(noon, s).Drains
	if len(d) != 1 || d[0].Saves != 5_000_000 || d[0].Costs != 1_000_000 {
		t.Errorf("drains %+v, want one that saves 5 dollars for 1", d)
	}
}
