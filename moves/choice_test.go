package moves

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/test/fixtures/states"
)

var (
	anyWay  = cluster.WaysOf(cluster.Wait, cluster.Migrate, cluster.Evict)
	noState = cluster.WaysOf(cluster.Wait, cluster.Evict)
)

func leaving(p cluster.Pod, ways cluster.Ways) cluster.Pod { p.Ways = ways; return p }

// left formats how the pods of a drain leave.
func left(d cluster.Drain) string {
	var all []string
	for _, m := range d.Moves {
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s %s>%s", m.Method, m.Pod, m.Target), ">"))
	}
	return strings.Join(all, ", ")
}

// TestEachPodLeavesInTheWayThatIsCheapestForTheNode uses machines at a dollar a minute that are 10 min old and billed
// by the minute. A migration takes 30 s and fails once in 50 times. b is needed for an hour anyway.
func TestEachPodLeavesInTheWayThatIsCheapestForTheNode(t *testing.T) {
	const minute = time.Minute
	p := func(name string, size int64, end, done time.Duration, ways cluster.Ways) cluster.Pod {
		return leaving(ran(lasting(job(name, size, size), end), done), ways)
	}
	long := node("b", fixed(lasting(job("r", 4, 4), time.Hour)))
	tests := []struct {
		name         string
		pods         []cluster.Pod
		config       DrainConfig
		want         string
		until        time.Duration
		saves, costs float64
	}{
		{"what ends within the minute that is paid anyway waits", []cluster.Pod{p("p", 1, 20*minute, 0, anyWay), p("q", 1, 50*time.Second, 10*minute, anyWay)},
			DrainConfig{}, "evict p>b, wait q", 50 * time.Second, 19, 0},
		{"what has hardly begun is restarted", []cluster.Pod{p("p", 1, 20*minute, 10*time.Second, anyWay)}, DrainConfig{}, "evict p>b", 0, 20, 0.1 / 6},
		{"what has worked for long is migrated", []cluster.Pod{p("p", 1, 20*minute, 12*minute, anyWay)}, DrainConfig{}, "migrate p>b", 30 * time.Second, 19, 0.05 + 0.024},
		{"what cannot be migrated is restarted even so", []cluster.Pod{p("p", 1, 20*minute, 10*minute, noState)}, DrainConfig{}, "evict p>b", 0, 20, 1},
		{"but not if more is lost than saved", []cluster.Pod{p("p", 5, 9*minute, 18*minute, noState)}, DrainConfig{}, "", 0, 0, 0},
		{"a short one is worth waiting for if it is dear to restart", []cluster.Pod{p("p", 1, 20*minute, 10*minute, noState), p("q", 4, 2*minute, 10*minute, noState)},
			DrainConfig{}, "evict p>b, wait q", 2 * minute, 18, 1},
		{"and is restarted if it is cheap", []cluster.Pod{p("p", 1, 20*minute, 10*minute, noState), p("q", 4, 2*minute, minute, noState)},
			DrainConfig{}, "evict p>b, evict q>b", 0, 20, 1.4},
		{"a minute that only a migration takes is saved by an eviction", []cluster.Pod{p("p", 1, 20*minute, 2*minute, anyWay)}, DrainConfig{}, "evict p>b", 0, 20, 0.2},
		{"a pod without room is waited for", []cluster.Pod{p("p", 3, 20*minute, 0, anyWay), p("q", 4, 5*minute, 0, anyWay)}, DrainConfig{}, "evict p>b, wait q", 5 * minute, 15, 0},
		{"unless it is the one that ends last", []cluster.Pod{p("p", 7, 20*minute, 0, anyWay), p("q", 2, 5*minute, 0, anyWay)}, DrainConfig{}, "", 0, 0, 0},
		{"a pod that must stay is waited for", []cluster.Pod{p("p", 1, 20*minute, 0, anyWay), fixed(p("q", 1, 5*minute, 0, anyWay))}, DrainConfig{}, "evict p>b, wait q", 5 * minute, 15, 0},
		{"a risk has its price", []cluster.Pod{p("p", 1, 20*minute, 12*minute, anyWay)}, DrainConfig{Risk: 0.1}, "migrate p>b", 30 * time.Second, 19, 0.05 + 0.12},
		{"and may be too high", []cluster.Pod{p("p", 1, 20*minute, 12*minute, anyWay)}, DrainConfig{Risk: 0.5}, "evict p>b", 0, 20, 1.2},
		{"a margin holds back what saves little", []cluster.Pod{p("p", 5, 5*minute, 6*minute, noState)}, DrainConfig{Margin: 0.5}, "", 0, 0, 0},
		{"without it that is done", []cluster.Pod{p("p", 5, 5*minute, 6*minute, noState)}, DrainConfig{}, "evict p>b", 0, 5, 3},
		{"a pod that just came waits if it may", []cluster.Pod{p("p", 1, 20*minute, 0, anyWay), p("q", 1, 5*minute, 0, anyWay)},
			DrainConfig{PodResidence: minute}, "", 0, 0, 0},
		{"one that is overdue is taken to continue for as long again", []cluster.Pod{with2(p("p", 1, 0, 0, anyWay), func(p *cluster.Pod) { p.Overdue = 10 * minute })},
			DrainConfig{}, "evict p>b", 0, 10, 0},
		{"a service is restarted for what the machine costs until the horizon", []cluster.Pod{leaving(service("p", 1, 1), noState)},
			DrainConfig{Horizon: 30 * minute, MoveServices: true}, "evict p>b", 0, 30, 0},
		{"but not unless services may be moved", []cluster.Pod{leaving(service("p", 1, 1), noState)}, DrainConfig{Horizon: 30 * minute}, "", 0, 0, 0},
		{"two pods more may be on their way", []cluster.Pod{p("p", 1, 20*minute, 0, anyWay), p("q", 1, 10*minute, 0, anyWay), p("s", 1, 5*minute, 0, anyWay)},
			DrainConfig{Budget: Budget{Pods: 2}}, "evict p>b, evict q>b, wait s", 5 * minute, 15, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := tc.config
			c.Threshold, c.Worthwhile, c.Explain = 1, true, true
			s := state(node("a", tc.pods...), long)
			plan := NewPlanner(c).Plan(noon, s)
			if tc.want == "" {
				if len(plan.Drains) > 0 || len(plan.Kept) == 0 || plan.Kept[0].Reason == "" {
					t.Fatalf("emptied: %+v, kept %v", plan.Drains, plan.Kept)
				}
				return
			}
			if len(plan.Drains) != 1 {
				t.Fatalf("not emptied: %v", plan.Kept)
			}
			d := plan.Drains[0]
			if got := left(d); got != tc.want || d.Until != tc.until {
				t.Errorf("%s until %v, want %s until %v", got, d.Until, tc.want, tc.until)
			}
			if !near6(float64(d.Saves)/1e6, tc.saves) || !near6(float64(d.Costs)/1e6, tc.costs) {
				t.Errorf("saves %d for %d micro-dollars, want $%v for $%v", d.Saves, d.Costs, tc.saves, tc.costs)
			}
			for _, m := range d.Moves {
				if m.Reason == "" {
					t.Errorf("nothing says why pod %s leaves so", m.Pod)
				}
			}
		})
	}
}

// near6 tolerates the rounding of a few amounts up to a micro-dollar.
func near6(a, b float64) bool { return a-b > -1e-5 && a-b < 1e-5 }

func with2(p cluster.Pod, change func(*cluster.Pod)) cluster.Pod { change(&p); return p }

func TestAMoveSaysWhatItsAlternativesCost(t *testing.T) {
	s := state(
		node("a", leaving(ran(lasting(job("p", 1, 1), 20*time.Minute), 12*time.Minute), anyWay), leaving(lasting(job("q", 1, 1), 50*time.Second), anyWay)),
		node("b", fixed(lasting(job("r", 6, 6), time.Hour))))
	d := NewPlanner(DrainConfig{Threshold: 0.5, Worthwhile: true, Explain: true}).Plan(noon, s).Drains[0]
	want := []string{
		"migrate costs $0.074000 (freezes the pod for 30s, and may lose 12m0s of work); to evict costs $1.200000 (12m0s of repeated work); waiting for 20m0s costs $19.000000 of the node",
		"ends in 50s, and the node is paid until then",
	}
	for i, m := range d.Moves {
		if m.Reason != want[i] {
			t.Errorf("pod %s: %q, want %q", m.Pod, m.Reason, want[i])
		}
	}
	if !strings.Contains(d.Reason, "20% utilised, and 1 of its 2 pods ends within 50s and the other fits on another node; saves $19.000000 for $0.074000") {
		t.Errorf("reason %q", d.Reason)
	}
}

// TestNoOtherWayOfEmptyingANodeIsBetter tries all sets of moving pods and all their methods on a copy of the cluster,
// node after node.
func TestNoOtherWayOfEmptyingANodeIsBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := DrainConfig{
			Threshold: 1, Worthwhile: true, MoveServices: rapid.Bool().Draw(t, "moveServices"),
			Method:       rapid.SampledFrom([]cluster.Method{cluster.Migrate, cluster.Evict}).Draw(t, "method"),
			Cycle:        time.Duration(rapid.IntRange(0, 3).Draw(t, "cycle")) * time.Minute,
			Margin:       rapid.SampledFrom([]float64{0, 0, 0.1, 0.5}).Draw(t, "margin"),
			Risk:         rapid.SampledFrom([]float64{0, -1, 0.5}).Draw(t, "risk"),
			Horizon:      time.Duration(rapid.SampledFrom([]int{0, 0, 5, 20}).Draw(t, "horizon")) * time.Minute,
			Patience:     time.Duration(rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "patience")) * time.Minute,
			PodResidence: time.Duration(rapid.IntRange(0, 1).Draw(t, "residence")) * time.Minute,
			Budget:       Budget{Machines: rapid.IntRange(0, 3).Draw(t, "machines"), Pods: rapid.IntRange(0, 4).Draw(t, "pods")},
		}
		s := drawWays(t)
		before := states.Clone(s)
		plan := NewPlanner(c).Plan(noon, s)
		checkMixed(t, c, s, plan)
		w := &weigher{naive: naive{DrainConfig: c}, world: &world{State: states.Clone(s), original: before, off: map[int]bool{}, moved: map[int]bool{}, targets: map[int]bool{}}}
		w.follow(t, plan)
	})
}

// drawWays draws a cluster in which pods may leave by several methods.
func drawWays(t *rapid.T) *cluster.State {
	s := drawState(t)
	s.BillingPeriod = rapid.SampledFrom([]time.Duration{time.Minute, time.Minute, 20 * time.Second, 0, 10 * time.Minute}).Draw(t, "period")
	for i := range s.Nodes {
		for j := range s.Nodes[i].Pods {
			p := &s.Nodes[i].Pods[j]
			p.Demands = nil
			if p.Arch != "" {
				p.Arch = s.Nodes[i].Arch
			}
			p.Ways = cluster.Ways(rapid.IntRange(0, 7).Draw(t, "ways"))
			p.Resided = time.Duration(rapid.IntRange(0, 3).Draw(t, "resided")) * time.Minute
			p.Size.MemoryBytes = max(1, p.Size.MemoryBytes)
			if p.Runtime == 0 && p.Class == class.Batch {
				p.Overdue = time.Duration(rapid.IntRange(0, 3).Draw(t, "overdue")) * time.Minute
			}
		}
	}
	s.Migration.Fixed = 29 * time.Second
	s.Migration.BitsPerSecond, s.Migration.BytesPerMemory = 8, 1 // a second per byte
	return s
}

// checkMixed checks invariants of every plan with several methods.
func checkMixed(t *rapid.T, c DrainConfig, s *cluster.State, plan cluster.Plan) {
	t.Helper()
	machines, pods := 0, 0
	leaving := map[string]bool{}
	for i := range s.Nodes {
		pods += s.Nodes[i].Incoming
		if s.Nodes[i].Phase == cluster.Leaving {
			machines++
		}
	}
	went := cluster.Plan{Release: plan.Release}
	for _, d := range plan.Drains {
		machines++
		leaving[d.Node] = true
		n := find(s, d.Node)
		moved := cluster.Drain{Node: d.Node}
		seen := map[string]bool{}
		for i, m := range d.Moves {
			p := n.Pods[i] // by name, each once
			if p.Name != m.Pod || seen[m.Pod] {
				t.Fatalf("%s: pod %s leaves in the place of %s", d.Node, m.Pod, p.Name)
			}
			seen[m.Pod] = true
			checkWay(t, c, s, d, m, &p)
			if m.Method != cluster.Wait {
				pods++
				moved.Moves = append(moved.Moves, m)
			}
		}
		if len(seen) != len(n.Pods) || n.Phase != cluster.Ready || n.Incoming > 0 || n.Kept {
			t.Fatalf("%s: %d of its %d pods leave, in phase %d, with %d on their way", d.Node, len(seen), len(n.Pods), n.Phase, n.Incoming)
		}
		went.Drains = append(went.Drains, moved)
	}
	if len(plan.Drains) > 0 && (c.Budget.Machines > 0 && machines > c.Budget.Machines) {
		t.Fatalf("%d machines are emptied at once, %d may be", machines, c.Budget.Machines)
	}
	if len(went.Drains) > 0 && c.Budget.Pods > 0 && pods > c.Budget.Pods && slices.ContainsFunc(went.Drains, func(d cluster.Drain) bool { return len(d.Moves) > 0 }) {
		t.Fatalf("%d pods are on their way at once, %d may be", pods, c.Budget.Pods)
	}
	for _, r := range plan.Release {
		leaving[r.Node] = true
	}
	checkTargets(t, states.Clone(s), went, leaving)
}

// checkWay checks how one pod leaves.
func checkWay(t *rapid.T, c DrainConfig, s *cluster.State, d cluster.Drain, m cluster.Move, p *cluster.Pod) {
	t.Helper()
	ways := p.Ways
	if ways == 0 {
		ways = cluster.WaysOf(c.Method)
	}
	switch {
	case !ways.Has(m.Method), m.Method == cluster.Wait && (m.Target != "" || p.Class == class.Service):
		t.Fatalf("pod %s of %s leaves by %v to %q, and may by %v", m.Pod, d.Node, m.Method, m.Target, ways)
	case m.Method == cluster.Wait:
		if end := max(p.Runtime, p.Overdue); end > d.Until {
			t.Fatalf("pod %s ends in %v, and all have left %s in %v", m.Pod, end, d.Node, d.Until)
		}
	case p.Fixed, p.Resided < c.PodResidence, p.Class == class.Service && !c.MoveServices,
		m.Method == cluster.Migrate && find(s, m.Target).Arch != find(s, d.Node).Arch:
		t.Fatalf("pod %s of %s is moved", m.Pod, d.Node)
	}
}

// weigher finds the best way to drain a node by exhaustive search.
type weigher struct {
	naive
	*world
	emptied, going int
}

// follow compares node after node with the plan, and applies it.
func (w *weigher) follow(t *rapid.T, plan cluster.Plan) {
	drains := map[string]cluster.Drain{}
	for _, d := range plan.Drains {
		drains[d.Node] = d
	}
	var order []int
	for i := range w.Nodes {
		n := &w.Nodes[i]
		w.going += n.Incoming
		if n.Phase == cluster.Leaving {
			w.emptied++
		}
		if n.Phase == cluster.Ready && !n.Kept && n.Incoming == 0 && (len(n.Pods) == 0 || w.utilization(n) < 1) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		ua, ub := w.utilization(&w.original.Nodes[a]), w.utilization(&w.original.Nodes[b])
		switch {
		case ua < ub:
			return -1
		case ua > ub:
			return 1
		}
		return 0
	})
	for _, at := range order {
		n := &w.original.Nodes[at]
		if len(n.Pods) == 0 {
			w.off[at] = !w.targets[at]
			continue
		}
		d, done := drains[n.Name]
		best := int64(0)
		if !w.targets[at] && (w.Budget.Machines == 0 || w.emptied < w.Budget.Machines) {
			best = w.bestGain(at)
		}
		if done != (best > 0) || done && d.Saves-d.Costs != best {
			t.Fatalf("%s: emptied %t, gains %d - %d, and the best way of emptying it %d", n.Name, done, d.Saves, d.Costs, best)
		}
		if done {
			w.apply(at, d)
		}
	}
}

// bestGain returns the greatest gain of all profitable ways to drain a node, or 0 if there is none.
func (w *weigher) bestGain(at int) int64 {
	n := &w.original.Nodes[at]
	var best int64
	for set := range 1 << len(n.Pods) { // of the moving pods
		moves, ok := w.places(at, set)
		if !ok || w.Budget.Pods > 0 && len(moves) > 0 && w.going+len(moves) > w.Budget.Pods {
			continue
		}
		for methods := range 1 << len(moves) { // the evicted ones of those
			if gain, ok := w.gain(at, set, moves, methods); ok {
				best = max(best, gain)
			}
		}
	}
	paid := cluster.Bill(n.MicroDollarsPerHour, w.need(n), 0)
	if float64(best) <= w.Margin*float64(paid) {
		return 0
	}
	return best
}

// waysOf returns the methods of a pod, least disruptive first.
func (w *weigher) waysOf(p *cluster.Pod) (wait, migrate, evict bool) {
	ways := p.Ways
	if ways == 0 {
		ways = cluster.WaysOf(w.Method)
	}
	stays := p.Fixed || p.Resided < w.PodResidence || p.Class == class.Service && !w.MoveServices
	return ways.Has(cluster.Wait) && p.Class == class.Batch, ways.Has(cluster.Migrate) && !stays, ways.Has(cluster.Evict) && !stays
}

type place struct {
	pod cluster.Pod
	to  int
}

// places finds a target for each pod of the set, first for those that have to move.
func (w *weigher) places(at, set int) ([]place, bool) {
	n := &w.original.Nodes[at]
	var must, may []cluster.Pod
	for i, p := range n.Pods {
		wait, migrate, evict := w.waysOf(&p)
		if set>>i&1 == 0 {
			if !wait {
				return nil, false
			}
			continue
		}
		if !migrate && !evict {
			return nil, false
		}
		if migrate {
			p.Arch = n.Arch
		}
		if wait {
			may = append(may, p)
		} else {
			must = append(must, p)
		}
	}
	slices.SortFunc(must, inQueue)
	slices.SortFunc(may, func(a, b cluster.Pod) int {
		if ends := max(b.Runtime, b.Overdue) - max(a.Runtime, a.Overdue); ends != 0 {
			return int(ends / time.Second)
		}
		return inQueue(a, b)
	})
	after := w.copy()
	var all []place
	for _, p := range append(must, may...) {
		to := w.target(after, at, &p)
		if to < 0 {
			return nil, false
		}
		all = append(all, place{p, to})
		p.Runtime += w.gentlest(&p)
		after.Nodes[to].Pods = append(after.Nodes[to].Pods, p)
	}
	return all, true
}

// later returns how much later a pod ends because it is migrated or evicted.
func (w *weigher) later(p *cluster.Pod, evicted bool) time.Duration {
	switch {
	case p.Class == class.Service:
		return 0
	case evicted:
		return p.Ran
	default:
		return w.shipped(p) + time.Duration(riskOf(w.Risk)*float64(p.Ran))
	}
}

// shipped returns the time of a migration: 29 s plus a second per byte.
func (w *weigher) shipped(p *cluster.Pod) time.Duration {
	return time.Duration(29+p.Size.MemoryBytes) * time.Second
}

func (w *weigher) gentlest(p *cluster.Pod) time.Duration {
	switch _, migrate, evict := w.waysOf(p); {
	case !evict:
		return w.later(p, false)
	case !migrate:
		return w.later(p, true)
	default:
		return min(w.later(p, false), w.later(p, true))
	}
}

// cutAt returns the end of a pod, bounded by the horizon.
func (w *weigher) cutAt(p *cluster.Pod, later time.Duration) time.Duration {
	end := max(p.Runtime, p.Overdue) + later
	switch {
	case p.Class == class.Service:
		return w.Horizon
	case w.Horizon > 0:
		return min(w.Horizon, end)
	default:
		return end
	}
}

func (w *weigher) need(n *cluster.Node) (last time.Duration) {
	for _, p := range n.Pods {
		last = max(last, w.cutAt(&p, 0))
	}
	return last
}

// gain returns the savings minus the costs if the pods of the set move by these methods.
func (w *weigher) gain(at, set int, moves []place, methods int) (int64, bool) {
	n := &w.original.Nodes[at]
	var gone time.Duration
	for i, p := range n.Pods {
		if set>>i&1 == 0 {
			gone = max(gone, p.Runtime, p.Overdue)
			if w.Patience > 0 && gone > w.Patience {
				return 0, false
			}
		}
	}
	type bill struct {
		prompt, late time.Duration
		shares       int64
	}
	bills := map[int]*bill{}
	for i := range moves {
		p, evicted := &moves[i].pod, methods>>i&1 == 1
		if _, migrate, evict := w.waysOf(p); evicted && !evict || !evicted && !migrate {
			return 0, false
		}
		if !evicted {
			gone = max(gone, w.shipped(p))
		}
		b := bills[moves[i].to]
		if b == nil {
			b = &bill{prompt: w.stayOf(moves[i].to), late: w.stayOf(moves[i].to)}
			bills[moves[i].to] = b
		}
		to := &w.Nodes[moves[i].to]
		b.prompt, b.late = max(b.prompt, w.cutAt(p, 0)), max(b.late, w.cutAt(p, w.later(p, evicted)))
		part := max(float64(p.Size.MilliCPU)/float64(to.Capacity.MilliCPU), float64(p.Size.MemoryBytes)/float64(to.Capacity.MemoryBytes))
		exact := part * float64(cluster.Bill(to.MicroDollarsPerHour, w.later(p, evicted), 0))
		b.shares += int64(exact)
		if exact > float64(int64(exact)) {
			b.shares++
		}
	}
	gain := w.billOf(n, w.need(n)) - w.billOf(n, gone)
	for to, b := range bills {
		node := &w.Nodes[to]
		was, prompt, late := w.billOf(node, w.stayOf(to)), w.billOf(node, b.prompt), w.billOf(node, b.late)
		gain -= prompt - was + max(max(late, prompt)-prompt, b.shares)
	}
	return gain, true
}

// stayOf returns how long a node is needed after others have been drained: forever if a service or Kept keeps it and
// there is no horizon.
func (w *weigher) stayOf(at int) time.Duration {
	n := &w.Nodes[at]
	switch {
	case n.Kept && w.Horizon > 0:
		return w.Horizon
	case w.Horizon == 0 && (n.Kept || w.original.Nodes[at].Has(class.Service)):
		return 20 * 365 * 24 * time.Hour
	default:
		return w.need(n)
	}
}

func (w *weigher) billOf(n *cluster.Node, until time.Duration) int64 {
	return cluster.Bill(n.MicroDollarsPerHour, n.Age+until+w.Release, w.BillingPeriod)
}

// apply applies a drain.
func (w *weigher) apply(at int, d cluster.Drain) {
	n := &w.original.Nodes[at]
	for i, m := range d.Moves {
		if m.Method == cluster.Wait {
			continue
		}
		to := slices.IndexFunc(w.Nodes, func(other cluster.Node) bool { return other.Name == m.Target })
		p := n.Pods[i]
		if p.Runtime == 0 {
			p.Runtime = p.Overdue
		}
		p.Runtime += w.later(&p, m.Method == cluster.Evict)
		w.Nodes[to].Pods = append(w.Nodes[to].Pods, p)
		w.targets[to] = true
		w.going++
	}
	w.emptied++
	w.off[at], w.moved[at] = true, true
}
