package moves

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/test/fixtures/states"
)

// highNodeUtilization is the rule of the descheduler's strategy of that name: it evicts pods of nodes below the
// threshold in CPU and memory so that they move to other nodes. It does nothing if no node or every node is below.
func highNodeUtilization(s *cluster.State, threshold float64) (evicted []string) {
	var low []*cluster.Node
	for i := range s.Nodes {
		n := &s.Nodes[i]
		used := n.Used()
		if float64(used.MilliCPU) < threshold*float64(n.Capacity.MilliCPU) && float64(used.MemoryBytes) < threshold*float64(n.Capacity.MemoryBytes) {
			low = append(low, n)
		}
	}
	if len(low) == len(s.Nodes) {
		return nil
	}
	for _, n := range low {
		evicted = append(evicted, names(n.Pods)...)
	}
	return evicted
}

func TestItPacksAlsoWhenAllNodesAreUnderUsed(t *testing.T) {
	s := state()
	for i := range 6 {
		s.Nodes = append(s.Nodes, node(fmt.Sprintf("n%d", i), job(fmt.Sprintf("p%d", i), 3, 3)))
	}
	if got := highNodeUtilization(s, 0.5); len(got) > 0 {
		t.Fatalf("the stock rule evicts %v where it has no target", got)
	}
	for name, c := range map[string]DrainConfig{"under a half": underHalf, "where it pays": {Threshold: 1, Worthwhile: true}} {
		want := []string{"drain n0: p0>n1", "drain n2: p2>n1", "drain n3: p3>n4", "drain n5: p5>n4"}
		if diff := cmp.Diff(want, lines(NewPlanner(c).Plan(noon, s))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	s.Nodes[5].Pods = append(s.Nodes[5].Pods, job("q", 4, 4)) // now it has one
	if got := highNodeUtilization(s, 0.5); len(got) != 5 {
		t.Errorf("the stock rule evicts %v, want five pods", got)
	}
}

func TestRoomThatHasBeenPromisedIsNotPlannedOn(t *testing.T) {
	d := newDemands()
	promised := func(p cluster.Pod, node string) cluster.Pod { p.Promised = node; return p }
	tests := []struct {
		name    string
		nodes   []cluster.Node
		pending []cluster.Pod
		want    []string
	}{
		{"to nobody", []cluster.Node{node("a", job("p", 2, 2)), node("b", job("r", 6, 6))}, nil, []string{"drain a: p>b"}},
		{"to a pod that waits", []cluster.Node{node("a", job("p", 2, 2)), node("b", job("r", 6, 6))},
			[]cluster.Pod{promised(job("q", 3, 3), "b")}, []string{}},
		{"there is room for both", []cluster.Node{node("a", job("p", 2, 2)), node("b", job("r", 6, 6))},
			[]cluster.Pod{promised(job("q", 2, 2), "b")}, []string{"drain a: p>b"}},
		{"not for both by number", []cluster.Node{node("a", job("p", 2, 2)), with(node("b", job("r", 6, 6)), func(n *cluster.Node) { n.MaxPods = new(int64(2)) })},
			[]cluster.Pod{promised(job("q", 1, 1), "b")}, []string{}},
		{"the node with the room stays", []cluster.Node{node("a", job("p", 2, 2)), node("b", job("r", 6, 6))},
			[]cluster.Pod{promised(job("q", 1, 1), "a")}, []string{}},
		{"even if it is empty", []cluster.Node{node("a"), node("b", job("r", 6, 6))},
			[]cluster.Pod{promised(job("q", 1, 1), "a")}, []string{}},
		{"and is then a target", []cluster.Node{node("a"), node("b", job("r", 4, 4))},
			[]cluster.Pod{promised(job("q", 1, 1), "a")}, []string{"drain b: r>a"}},
		{"the pod that waits keeps others out", []cluster.Node{node("a", d.on(job("p", 1, 1), "p")), node("b", job("r", 6, 6))},
			[]cluster.Pod{promised(d.on(job("q", 1, 1), "q", apartFrom("p", hostname)), "b")}, []string{}},
		{"pods on their way have theirs", []cluster.Node{node("a", job("p", 2, 2)), with(node("b", job("r", 6, 6), job("s", 3, 3)), func(n *cluster.Node) { n.Incoming = 1 })},
			nil, []string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := state(tc.nodes...)
			s.Pending = tc.pending
			if diff := cmp.Diff(tc.want, lines(NewPlanner(underHalf).Plan(noon, s))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			s.Flavors = []cluster.Flavor{flavor("small", 3, 3, 1)}
			c := day
			for _, e := range Exchange(s, c, thrifty) {
				for i := range tc.pending {
					if slices.Contains(e.Nodes, tc.pending[i].Promised) {
						t.Errorf("%s is exchanged although a pod has been promised room there", tc.pending[i].Promised)
					}
				}
			}
		})
	}
}

func TestOnlyPodsThatHaveBeenPromisedRoomAreTracked(t *testing.T) {
	d := newDemands()
	for promised, want := range map[string]bool{"": false, "b": true} {
		waiting := d.on(job("q", 1, 1), "q", apartFrom("p", hostname))
		waiting.Promised = promised
		s := state(node("a", d.on(job("p", 1, 1), "p")), node("b"))
		s.Pending = []cluster.Pod{waiting}
		if tracked := newRules(s).tracker != nil; tracked != want {
			t.Errorf("promised node %q: tracked %v, want %v", promised, tracked, want)
		}
	}
}

func TestABudgetCountsWhatIsUnderWay(t *testing.T) {
	s := state(node("a", job("p", 1, 1)), node("b", job("q", 1, 1), job("q2", 1, 1)), with(node("l", job("x", 1, 1)), func(n *cluster.Node) { n.Phase = cluster.Leaving }),
		with(node("t", job("r", 4, 4), job("in", 1, 1)), func(n *cluster.Node) { n.Incoming = 1 }))
	for _, tc := range []struct {
		budget Budget
		want   string
	}{
		{Budget{}, "drain a: p>t; drain b: q>t q2>t"},
		{Budget{Machines: 3}, "drain a: p>t; drain b: q>t q2>t"},
		{Budget{Machines: 2}, "drain a: p>t"},
		{Budget{Machines: 1}, ""},
		{Budget{Pods: 4}, "drain a: p>t; drain b: q>t q2>t"},
		{Budget{Pods: 3}, "drain a: p>t"},
		{Budget{Pods: 1}, ""},
	} {
		c := DrainConfig{Threshold: 0.5, Budget: tc.budget, Explain: true}
		plan := NewPlanner(c).Plan(noon, s)
		if got := strings.Join(lines(plan), "; "); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.budget, got, tc.want)
		}
		if goes := len(plan.Drains); goes < 2 && !slices.ContainsFunc(plan.Kept, func(s cluster.Stay) bool {
			return strings.Contains(s.Reason, "the limit of") || strings.Contains(s.Reason, "pods are moving")
		}) {
			t.Errorf("%+v: nothing says why the others stay: %v", tc.budget, plan.Kept)
		}
	}
}

func TestAPodStaysForItsResidence(t *testing.T) {
	fresh := with2(job("p", 1, 1), func(p *cluster.Pod) { p.Resided = 4 * time.Minute })
	s := state(node("a", fresh), node("b", job("r", 6, 6)))
	c := DrainConfig{Threshold: 0.5, PodResidence: 5 * time.Minute, Explain: true}
	plan := NewPlanner(c).Plan(noon, s)
	if len(plan.Drains) > 0 || len(plan.Kept) != 1 || plan.Kept[0].Reason != "pod p has been on its node for 4m0s, less than the required 5m0s" {
		t.Errorf("drains %v, kept %v", plan.Drains, plan.Kept)
	}
	s.Nodes[0].Pods[0].Resided = 5 * time.Minute
	if got := len(NewPlanner(c).Plan(noon, s).Drains); got != 1 {
		t.Errorf("%d drains after its residence, want one", got)
	}
}

func TestANodeThatWaitsWithoutSuccessIsOpenedAgain(t *testing.T) {
	closed := func(until time.Duration, waits bool) cluster.Node {
		return with(node("a", lasting(job("p", 1, 1), time.Minute)), func(n *cluster.Node) { n.Phase, n.Until, n.Waits = cluster.Leaving, until, waits })
	}
	full := node("b", fixed(job("r", 9, 9)))
	small, large := job("q", 2, 2), job("q", 10, 10)
	nominated := small
	nominated.Nominated = true
	for _, tc := range []struct {
		name    string
		n       cluster.Node
		pending []cluster.Pod
		want    string
	}{
		{"its pods are expected to end in time", closed(time.Minute, true), nil, ""},
		{"they should have ended", closed(-time.Minute, true), nil, "1 of its pods still run, 1m0s after their expected end"},
		{"a pod waits that it has room for", closed(time.Minute, true), []cluster.Pod{small}, "it has room for pod q, which is pending"},
		{"one that is too large", closed(time.Minute, true), []cluster.Pod{large}, ""},
		{"one for which a machine is on its way", closed(time.Minute, true), []cluster.Pod{nominated}, ""},
		{"pods are still moving off it", closed(-time.Minute, false), []cluster.Pod{small}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := state(tc.n, full)
			s.Pending = tc.pending
			got := ""
			for _, r := range NewPlanner(underHalf).Plan(noon, s).Uncordon {
				got += r.Reason
			}
			if got != tc.want {
				t.Errorf("uncordoned: %q, want %q", got, tc.want)
			}
		})
	}
}

// TestNothingMovesBack applies plans and plans again, with pods that end as expected. Without arrivals, no pod moves
// twice within its residence, and the budget is never exceeded.
func TestNothingMovesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DrainConfig{
			Threshold: rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "threshold"), Worthwhile: rapid.Bool().Draw(t, "worthwhile"),
			Method: rapid.SampledFrom([]cluster.Method{cluster.Migrate, cluster.Evict}).Draw(t, "method"), MoveServices: true, Horizon: 20 * time.Minute,
			PodResidence: 3 * time.Minute, Budget: Budget{Machines: rapid.IntRange(0, 2).Draw(t, "machines")},
		}
		s := drawWays(t)
		for i := range s.Nodes {
			s.Nodes[i].Incoming = 0
			for j := range s.Nodes[i].Pods {
				s.Nodes[i].Pods[j].Resided = time.Hour
			}
		}
		p, now, movedAt := NewPlanner(c), noon, map[string]time.Time{}
		for range 12 {
			plan := p.Plan(now, s)
			for _, d := range plan.Drains {
				for _, m := range d.Moves {
					if m.Method == cluster.Wait {
						continue
					}
					if was, ok := movedAt[m.Pod]; ok && now.Sub(was) < c.PodResidence {
						t.Fatalf("pod %s moves to %s only %v after it moved before", m.Pod, m.Target, now.Sub(was))
					}
					movedAt[m.Pod] = now
				}
			}
			if again := NewPlanner(c).Plan(now, carried(s, plan, 0)); movesAny(again, plan) {
				t.Fatalf("carried out and planned again at once: %v after %v", lines(again), lines(plan))
			}
			s = carried(s, plan, time.Minute)
			now = now.Add(time.Minute)
			leaving := 0
			for i := range s.Nodes {
				if s.Nodes[i].Phase == cluster.Leaving {
					leaving++
				}
			}
			if len(plan.Drains) > 0 && c.Budget.Machines > 0 && leaving > c.Budget.Machines {
				t.Fatalf("%d nodes are being emptied, %d may be", leaving, c.Budget.Machines)
			}
		}
	})
}

// movesAny reports whether a plan moves a pod that the previous one has moved.
func movesAny(plan, before cluster.Plan) bool {
	moved := map[string]bool{}
	for _, d := range before.Drains {
		for _, m := range d.Moves {
			moved[m.Pod] = m.Method != cluster.Wait
		}
	}
	return slices.ContainsFunc(plan.Drains, func(d cluster.Drain) bool {
		return slices.ContainsFunc(d.Moves, func(m cluster.Move) bool { return m.Method != cluster.Wait && moved[m.Pod] })
	})
}

// carried returns the cluster after the plan has been applied and some time has passed.
func carried(s *cluster.State, plan cluster.Plan, elapsed time.Duration) *cluster.State {
	after := states.Clone(Uncordoned(s, plan.Uncordon))
	gone := map[string]bool{}
	for _, r := range plan.Release {
		gone[r.Node] = true
	}
	for _, d := range plan.Drains {
		from := find(after, d.Node)
		from.Phase, from.Waits, from.Until = cluster.Leaving, true, d.Until
		for _, m := range d.Moves {
			at := slices.IndexFunc(from.Pods, func(p cluster.Pod) bool { return p.Name == m.Pod })
			if m.Method == cluster.Wait {
				continue
			}
			p := from.Pods[at]
			from.Pods = slices.Delete(from.Pods, at, at+1)
			p.Runtime, p.Resided = p.Runtime+m.Takes, 0
			to := find(after, m.Target)
			to.Pods = append(to.Pods, p)
		}
	}
	for i := range after.Nodes {
		n := &after.Nodes[i]
		n.Age, n.Until = n.Age+elapsed, n.Until-elapsed
		n.Pods = slices.DeleteFunc(n.Pods, func(p cluster.Pod) bool {
			return p.Class == class.Batch && elapsed > 0 && p.Runtime+p.Overdue <= elapsed
		})
		for j := range n.Pods {
			p := &n.Pods[j]
			p.Resided += elapsed
			if p.Class == class.Batch {
				p.Runtime, p.Ran = max(0, p.Runtime-elapsed), p.Ran+elapsed
			}
		}
		gone[n.Name] = gone[n.Name] || n.Phase == cluster.Leaving && len(n.Pods) == 0
	}
	after.Nodes = slices.DeleteFunc(after.Nodes, func(n cluster.Node) bool { return gone[n.Name] })
	return after
}
