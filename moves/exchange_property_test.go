package moves

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/test/fixtures/states"
)

func drawExchangeConfig(t *rapid.T) ExchangeConfig {
	minutes := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Minute
	}
	return ExchangeConfig{
		Method:       rapid.SampledFrom([]cluster.Method{cluster.Migrate, cluster.Evict}).Draw(t, "method"),
		MoveServices: rapid.IntRange(0, 3).Draw(t, "services stay") > 0,
		Cycle:        minutes("cycle", 3),
		Residence:    minutes("residence", 1),
		Horizon:      30*time.Minute + minutes("horizon", 300),
		Margin:       rapid.SampledFrom([]float64{0, -1, 0.05, 0.3}).Draw(t, "margin"),
		Limit:        rapid.IntRange(0, 3).Draw(t, "limit"),
		Risk:         rapid.SampledFrom([]float64{0, -1, 0.5}).Draw(t, "risk"),
		Calls:        1000,
	}
}

// drawMarket draws a cluster of up to most machines, all of which can be bought again.
func drawMarket(t *rapid.T, most int) *cluster.State {
	s := state()
	for i := range rapid.IntRange(2, 4).Draw(t, "flavors") {
		s.Flavors = append(s.Flavors, cluster.Flavor{
			Name: fmt.Sprintf("f%d", i), Size: size(rapid.Int64Range(2, 12).Draw(t, "cpu"), rapid.Int64Range(2, 12).Draw(t, "memory")),
			MaxPods: rapid.SampledFrom([]*int64{nil, nil, nil, new(int64(2))}).Draw(t, "flavorMaxPods"), Arch: rapid.SampledFrom([]string{"amd64", "amd64", "amd64", "arm64"}).Draw(t, "flavorArch"),
			MicroDollarsPerHour: rapid.Int64Range(1, 20).Draw(t, "flavorPrice") * 6_000_000, Most: rapid.SampledFrom([]*int{nil, nil, nil, new(1), new(0)}).Draw(t, "most"),
		})
	}
	for i := range rapid.IntRange(1, most).Draw(t, "nodes") {
		f := rapid.SampledFrom(s.Flavors).Draw(t, "flavor")
		n := machineOf(&f, fmt.Sprintf("n%d", i), rapid.SampledFrom([]class.Class{class.Any, class.Any, class.Any, class.Batch}).Draw(t, "class"))
		n.Age = time.Duration(rapid.IntRange(0, 600).Draw(t, "age")) * time.Second
		n.Phase = rapid.SampledFrom([]cluster.Phase{cluster.Ready, cluster.Ready, cluster.Ready, cluster.Ready, cluster.Ready, cluster.Leaving}).Draw(t, "phase")
		n.Kept = rapid.IntRange(0, 14).Draw(t, "kept") == 0
		for j := range rapid.SampledFrom([]int{1, 2, 3, 1, 2, 0}).Draw(t, "pods") {
			p := drawPod(t, fmt.Sprintf("%s-p%d", n.Name, j))
			p.Fixed = p.Fixed && rapid.Bool().Draw(t, "really fixed")
			p.Runtime *= 30
			if p.Size.Fits(n.Free()) && n.Suits(&p) && (n.MaxPods == nil || int64(len(n.Pods)) < *n.MaxPods) {
				n.Pods = append(n.Pods, p)
			}
		}
		if rapid.IntRange(0, 14).Draw(t, "incoming") == 0 {
			n.Incoming = len(n.Pods)
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.MaxNodes = len(s.Nodes) + rapid.SampledFrom([]int{3, 2, 1, 4, 0, -1}).Draw(t, "spare")
	s.BillingPeriod = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, 10 * time.Minute}).Draw(t, "billing")
	s.Release = time.Duration(rapid.IntRange(0, 20).Draw(t, "release")) * time.Second
	s.Lag = time.Duration(rapid.IntRange(0, 120).Draw(t, "lag")) * time.Second
	if rapid.IntRange(0, 2).Draw(t, "demanding") == 0 {
		most := make([]*int, len(s.Flavors))
		for i := range s.Flavors {
			most[i] = s.Flavors[i].Most
		}
		drawDemands(t, s)
		for i := range s.Flavors {
			s.Flavors[i].Most = most[i]
		}
	}
	return s
}

func machineOf(f *cluster.Flavor, name string, c class.Class) cluster.Node {
	return cluster.Node{
		Name: name, Flavor: f.Name, Class: c, Capacity: f.Size, MaxPods: f.MaxPods, Arch: f.Arch, Host: f.Host,
		MicroDollarsPerHour: f.MicroDollarsPerHour, Phase: cluster.Ready,
	}
}

// TestEveryExchangeIsOneThatCanBeCarriedOut applies the proposed exchanges one after the other, with any answers of the
// buyer.
func TestEveryExchangeIsOneThatCanBeCarriedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, c := drawMarket(t, 9), drawExchangeConfig(t)
		if rapid.Bool().Draw(t, "ways") {
			s.Nodes = drawWaysOf(t, s.Nodes)
			c.PodResidence = time.Duration(rapid.IntRange(0, 1).Draw(t, "podResidence")) * time.Minute
			c.Budget = Budget{Machines: rapid.IntRange(0, 3).Draw(t, "machines"), Pods: rapid.IntRange(0, 5).Draw(t, "podsAtOnce")}
		}
		buyers := map[string]Buyer{"thrifty": thrifty, "careless": careless(t)}
		buyer := buyers[rapid.SampledFrom([]string{"thrifty", "careless"}).Draw(t, "buyer")]
		before := states.Clone(s)
		all := Exchange(s, c, buyer)
		if diff := gocmp.Diff(before, s, opaque); diff != "" {
			t.Fatalf("the cluster was modified:\n%s", diff)
		}
		now, emptied, bought := states.Clone(s), 0, map[string]int{}
		for _, e := range all {
			checkExchange(t, c, s, now, e)
			now = exchanged(now, c, e)
			emptied += len(e.Nodes)
			for _, p := range e.Buy {
				bought[p.Flavor]++
			}
		}
		checkBudget(t, c, s, all)
		if c.Limit > 0 && emptied > c.Limit {
			t.Fatalf("%d machines are emptied, %d may be", emptied, c.Limit)
		}
		if len(bought) > 0 && len(now.Nodes) > s.MaxNodes {
			t.Fatalf("there are %d machines while the old ones are still there, %d may be", len(now.Nodes), s.MaxNodes)
		}
		for _, f := range s.Flavors {
			if f.Most != nil && bought[f.Name] > *f.Most {
				t.Fatalf("%d of %s are bought, %d can be", bought[f.Name], f.Name, *f.Most)
			}
		}
	})
}

// drawWaysOf lets the pods of nodes leave by several methods.
func drawWaysOf(t *rapid.T, nodes []cluster.Node) []cluster.Node {
	for i := range nodes {
		for j := range nodes[i].Pods {
			p := &nodes[i].Pods[j]
			p.Ways = cluster.Ways(rapid.IntRange(0, 7).Draw(t, "ways"))
			p.Resided = time.Duration(rapid.IntRange(0, 3).Draw(t, "resided")) * time.Minute
			p.Runtime /= time.Duration(rapid.SampledFrom([]int{1, 1, 30, 120}).Draw(t, "shorter"))
		}
	}
	return nodes
}

// checkBudget checks what all exchanges together have in progress.
func checkBudget(t *rapid.T, c ExchangeConfig, s *cluster.State, all []cluster.Exchange) {
	t.Helper()
	machines, pods := 0, 0
	for i := range s.Nodes {
		pods += s.Nodes[i].Incoming
		if s.Nodes[i].Phase == cluster.Leaving {
			machines++
		}
	}
	moved := 0
	for _, e := range all {
		machines += len(e.Nodes)
		for _, m := range slices.Concat(e.Moves, e.Leave) {
			if m.Method != cluster.Wait {
				moved++
			}
		}
	}
	if len(all) > 0 && c.Budget.Machines > 0 && machines > c.Budget.Machines {
		t.Fatalf("%d machines are emptied at once, %d may be", machines, c.Budget.Machines)
	}
	if moved > 0 && c.Budget.Pods > 0 && pods+moved > c.Budget.Pods {
		t.Fatalf("%d pods are on their way at once, %d may be", pods+moved, c.Budget.Pods)
	}
}

// methodOf returns how a pod leaves in an exchange.
func methodOf(e cluster.Exchange, pod string) cluster.Method {
	for _, m := range slices.Concat(e.Moves, e.Leave) {
		if m.Pod == pod {
			return m.Method
		}
	}
	return e.Method
}

// careless buys and moves at random.
func careless(t *rapid.T) Buyer {
	return func(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) (buy []cluster.Purchase, moves []cluster.Move, ok bool) {
		for _, p := range pods {
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what == 0: // omitted
			case what < 4 && len(nodes) > 0:
				moves = append(moves, cluster.Move{Pod: p.Name, Target: rapid.SampledFrom(nodes).Draw(t, "node").Name})
			case what < 5 && len(buy) > 0:
				i := rapid.IntRange(0, len(buy)-1).Draw(t, "machine")
				buy[i].Pods = append(buy[i].Pods, p.Name)
			case len(flavors) > 0:
				c := rapid.SampledFrom([]class.Class{class.Any, class.Any, class.Batch}).Draw(t, "class")
				buy = append(buy, cluster.Purchase{Flavor: rapid.SampledFrom(flavors).Draw(t, "flavor").Name, Class: c, Pods: []string{p.Name}})
			}
		}
		return buy, moves, rapid.IntRange(0, 9).Draw(t, "refuses") > 0
	}
}

// checkExchange checks invariants of an exchange after those before it have been applied.
func checkExchange(t *rapid.T, c ExchangeConfig, before, now *cluster.State, e cluster.Exchange) {
	t.Helper()
	for _, name := range e.Nodes {
		checkEmptied(t, c, find(now, name), find(before, name))
	}
	for _, m := range e.Moves {
		if m.Method == cluster.Wait {
			continue
		}
		if to := find(now, m.Target); to.Phase != cluster.Ready || len(to.Pods) == 0 && !to.Kept {
			t.Fatalf("pod %s moves to %s, which takes none", m.Pod, m.Target)
		}
	}
	checkPlaces(t, c, now, e)
	saves, costs, paid := recounted(now, c, e)
	if saves != e.Saves || costs != e.Costs {
		t.Fatalf("%v: said to save %d for %d, saves %d for %d", told([]cluster.Exchange{e}), e.Saves, e.Costs, saves, costs)
	}
	if float64(saves-costs) <= marginOf(c)*float64(paid) {
		t.Fatalf("saves %d for %d of %d", saves, costs, paid)
	}
	rate := int64(0)
	for _, name := range e.Nodes {
		rate += find(now, name).MicroDollarsPerHour
	}
	for _, p := range e.Buy {
		rate -= now.Flavors[slices.IndexFunc(now.Flavors, func(f cluster.Flavor) bool { return f.Name == p.Flavor })].MicroDollarsPerHour
	}
	if rate != e.SavesPerHour {
		t.Fatalf("said to save %d an hour, saves %d", e.SavesPerHour, rate)
	}
}

func marginOf(c ExchangeConfig) float64 {
	if c.Margin == 0 {
		return 0.15
	}
	return max(c.Margin, 0)
}

// movable reports whether the machine and all its pods may leave.
func movable(c ExchangeConfig, n *cluster.Node) bool {
	return n.Phase == cluster.Ready && !n.Kept && n.Incoming == 0 && len(n.Pods) > 0 && n.Age >= c.Residence &&
		!slices.ContainsFunc(n.Pods, func(p cluster.Pod) bool {
			stays := p.Fixed || p.Class == class.Service && !c.MoveServices || p.Resided < c.PodResidence || p.Ways == cluster.WaysOf(cluster.Wait)
			return stays && (p.Class == class.Service || !p.Ways.Has(cluster.Wait))
		})
}

func checkEmptied(t *rapid.T, c ExchangeConfig, n, before *cluster.Node) {
	t.Helper()
	if !movable(c, n) {
		t.Fatalf("%s is emptied: %+v", n.Name, n)
	}
	if !reflect.DeepEqual(n.Pods, before.Pods) {
		t.Fatalf("%s is emptied after it has become a target", n.Name)
	}
}

// checkPlaces checks that each pod has exactly one valid place.
func checkPlaces(t *rapid.T, c ExchangeConfig, now *cluster.State, e cluster.Exchange) {
	t.Helper()
	var there, went []string
	for _, name := range e.Nodes {
		there = append(there, names(find(now, name).Pods)...)
	}
	after := exchanged(now, c, e)
	tracker := (&world{State: after}).tracker(-1)
	for at := range after.Nodes {
		n := &after.Nodes[at]
		arrived := slices.DeleteFunc(slices.Clone(n.Pods), func(p cluster.Pod) bool { return !slices.Contains(there, p.Name) })
		if len(arrived) == 0 {
			continue
		}
		went = append(went, names(arrived)...)
		if slices.Contains(e.Nodes, n.Name) { // these are waited for
			continue
		}
		if free := n.Free(); free.MilliCPU < 0 || free.MemoryBytes < 0 || n.MaxPods != nil && int64(len(n.Pods)) > *n.MaxPods {
			t.Fatalf("%s is over-filled: %+v free, %d pods", n.Name, free, len(n.Pods))
		}
		if !together(tracker, arrived, at) {
			t.Fatalf("pods %v may not all be with the others on %s", names(arrived), n.Name)
		}
		for _, p := range arrived {
			method := methodOf(e, p.Name)
			if from := find(now, holder(now, p.Name)); !n.Suits(&p) || method == cluster.Migrate && n.Arch != from.Arch {
				t.Fatalf("pod %s may not run on %s", p.Name, n.Name)
			}
			if ways := p.Ways; ways == 0 && method != c.Method || ways != 0 && !ways.Has(method) || p.Resided < c.PodResidence {
				t.Fatalf("pod %s leaves by %v after %v, and may by %v", p.Name, method, p.Resided, p.Ways)
			}
		}
	}
	slices.Sort(there)
	if slices.Sort(went); !slices.Equal(there, went) {
		t.Fatalf("of pods %v, %v have a place", there, went)
	}
}

func holder(s *cluster.State, pod string) string {
	for _, n := range s.Nodes {
		if slices.ContainsFunc(n.Pods, func(p cluster.Pod) bool { return p.Name == pod }) {
			return n.Name
		}
	}
	return ""
}

// exchanged returns the cluster while the old machines still exist and the new ones have their pods.
func exchanged(s *cluster.State, c ExchangeConfig, e cluster.Exchange) *cluster.State {
	after := states.Clone(s)
	pods := map[string]cluster.Pod{}
	for i := range after.Nodes {
		n := &after.Nodes[i]
		if !slices.Contains(e.Nodes, n.Name) {
			continue
		}
		stay := []cluster.Pod{}
		for _, p := range n.Pods {
			pods[p.Name] = p
			if methodOf(e, p.Name) == cluster.Wait {
				stay = append(stay, p)
			}
		}
		n.Pods, n.Phase = stay, cluster.Leaving
	}
	for _, m := range e.Moves {
		if m.Method == cluster.Wait {
			continue
		}
		to := find(after, m.Target)
		to.Pods = append(to.Pods, delayed(s, c, e, pods[m.Pod]))
	}
	for _, b := range e.Buy {
		f := s.Flavors[slices.IndexFunc(s.Flavors, func(f cluster.Flavor) bool { return f.Name == b.Flavor })]
		n := machineOf(&f, fmt.Sprintf("new%d", len(after.Nodes)), b.Class)
		n.Phase = cluster.Ordered
		for _, name := range b.Pods {
			n.Pods = append(n.Pods, delayed(s, c, e, pods[name]))
		}
		after.Nodes = append(after.Nodes, n)
	}
	return after
}

// delayed returns the pod with its runtime extended by an exchange.
func delayed(s *cluster.State, c ExchangeConfig, e cluster.Exchange, p cluster.Pod) cluster.Pod {
	p.Runtime += delay(s, c, e, p)
	if methodOf(e, p.Name) == cluster.Evict {
		p.Ran = 0
	}
	return p
}

// delay returns how much later a pod ends. A migration takes 30 s here.
func delay(s *cluster.State, c ExchangeConfig, e cluster.Exchange, p cluster.Pod) time.Duration {
	switch method := methodOf(e, p.Name); {
	case p.Class == class.Service || method == cluster.Wait:
		return 0
	case method == cluster.Migrate: // it may fail
		return 30*time.Second + time.Duration(riskOf(c.Risk)*float64(delay(s, c, evicting(e), p)))
	case len(e.Buy) == 0:
		return p.Ran
	case p.Runtime < s.Lag: // it would end before it is evicted
		return p.Ran + p.Runtime
	default:
		return p.Ran + s.Lag
	}
}

// evicting returns the exchange with all pods evicted.
func evicting(e cluster.Exchange) cluster.Exchange {
	return cluster.Exchange{Method: cluster.Evict, Buy: e.Buy}
}

// recounted calculates the savings and costs of an exchange machine by machine.
func recounted(s *cluster.State, c ExchangeConfig, e cluster.Exchange) (saves, costs, paid int64) {
	end := func(p cluster.Pod, delay time.Duration) time.Duration {
		if p.Class == class.Service || p.Runtime+delay > c.Horizon {
			return c.Horizon
		}
		return p.Runtime + delay
	}
	gone := time.Duration(0)
	if len(e.Buy) > 0 {
		gone = s.Lag
	}
	wait := gone
	for _, name := range e.Nodes {
		for _, p := range find(s, name).Pods {
			switch methodOf(e, p.Name) {
			case cluster.Migrate:
				gone = max(gone, wait+30*time.Second)
			case cluster.Wait:
				gone = max(gone, p.Runtime)
			case cluster.Evict:
			}
		}
	}
	pods := map[string]cluster.Pod{}
	bill := func(n *cluster.Node, until time.Duration) int64 {
		return cluster.Bill(n.MicroDollarsPerHour, n.Age+until+s.Release, s.BillingPeriod)
	}
	needed := func(n *cluster.Node) (until time.Duration) {
		for _, p := range n.Pods {
			until = max(until, end(p, 0))
		}
		if n.Kept {
			until = c.Horizon
		}
		return until
	}
	balance := int64(0)
	for _, name := range e.Nodes {
		n := find(s, name)
		for _, p := range n.Pods {
			pods[p.Name] = p
		}
		balance += bill(n, needed(n)) - bill(n, gone)
		costs += bill(n, gone) - cluster.Bill(n.MicroDollarsPerHour, n.Age+gone+s.Release, 0)
		paid += cluster.Bill(n.MicroDollarsPerHour, needed(n), 0)
	}
	receive := func(n *cluster.Node, until time.Duration, names []string, already int64) {
		prompt, late, shares := until, until, int64(0)
		for _, name := range names {
			p := pods[name]
			d := delay(s, c, e, p)
			prompt, late = max(prompt, end(p, 0)), max(late, end(p, d))
			whole := float64(cluster.Bill(n.MicroDollarsPerHour, d, 0))
			part := max(float64(p.Size.MilliCPU)/float64(n.Capacity.MilliCPU), float64(p.Size.MemoryBytes)/float64(n.Capacity.MemoryBytes))
			if price := whole * part; price > float64(int64(price)) {
				shares++
			}
			shares += int64(whole * part)
		}
		repeated := max(shares, bill(n, late)-bill(n, prompt))
		balance -= bill(n, prompt) + repeated - already
		costs += repeated
	}
	for _, b := range e.Buy {
		f := s.Flavors[slices.IndexFunc(s.Flavors, func(f cluster.Flavor) bool { return f.Name == b.Flavor })]
		n := machineOf(&f, "", b.Class)
		receive(&n, gone, b.Pods, 0)
		costs += cluster.Bill(f.MicroDollarsPerHour, wait, 0)
	}
	targets := map[string][]string{}
	for _, m := range e.Moves {
		if m.Method != cluster.Wait {
			targets[m.Target] = append(targets[m.Target], m.Pod)
		}
	}
	for name, arrived := range targets {
		n := find(s, name)
		receive(n, needed(n), arrived, bill(n, needed(n)))
	}
	return balance + costs, costs, paid
}

// TestNoOtherSetOfMachinesIsABetterExchange tries all sets on a copy of the cluster, and fills rooms with the naive
// planner.
func TestNoOtherSetOfMachinesIsABetterExchange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, c := drawMarket(t, exhaustive), drawExchangeConfig(t)
		got := Exchange(s, c, thrifty)
		best := int64(0)
		for set := 1; set < 1<<len(s.Nodes); set++ {
			for _, idle := range []bool{false, true} {
				if e, ok := replaced(s, c, set, idle); ok {
					saves, costs, paid := recounted(s, c, e)
					if gain := saves - costs; float64(gain) > marginOf(c)*float64(paid) {
						best = max(best, gain)
					}
				}
			}
		}
		if len(got) == 0 && best > 0 {
			t.Fatalf("nothing is exchanged, although $%.6f could be gained", float64(best)/1e6)
		}
		if len(got) > 0 && got[0].Saves-got[0].Costs != best {
			t.Fatalf("%v gains %d, the best set %d", told(got), got[0].Saves-got[0].Costs, best)
		}
	})
}

// replaced returns the exchange of a set of machines, given as bits.
func replaced(s *cluster.State, c ExchangeConfig, set int, idle bool) (cluster.Exchange, bool) {
	e := cluster.Exchange{Method: c.Method}
	w := &world{State: states.Clone(s), original: s, off: map[int]bool{}, moved: map[int]bool{}, targets: map[int]bool{}}
	var pods []cluster.Pod
	for i := range s.Nodes {
		n := s.Nodes[i]
		if set>>i&1 == 0 {
			continue
		}
		if !movable(c, &n) {
			return e, false
		}
		for _, p := range n.Pods {
			if c.Method == cluster.Migrate {
				p.Arch = n.Arch
			}
			pods = append(pods, p)
		}
		e.Nodes = append(e.Nodes, n.Name)
		w.off[i], w.moved[i] = true, true
		w.Nodes[i].Pods = nil
	}
	if c.Limit > 0 && len(e.Nodes) > c.Limit {
		return e, false
	}
	slices.SortFunc(pods, inQueue)
	twin := naive{DrainConfig: DrainConfig{Method: c.Method, Cycle: c.Cycle, Risk: c.Risk, Worthwhile: true}}
	if idle {
		twin.may = func(p *cluster.Pod, at int) bool {
			n := &s.Nodes[at]
			need, needed := min(p.Runtime, c.Horizon), min(n.Remaining(), c.Horizon)
			if p.Class == class.Service {
				need = c.Horizon
			}
			return need <= needed || n.Kept || n.Has(class.Service)
		}
	}
	left := twin.fill(w, pods, &e)
	if len(left) == 0 {
		return e, settledIn(w, e)
	}
	if s.MaxNodes <= len(s.Nodes) {
		return e, false
	}
	flavors := slices.DeleteFunc(slices.Clone(s.Flavors), func(f cluster.Flavor) bool { return f.Most != nil && *f.Most == 0 })
	var ok bool
	e.Buy, _, ok = thrifty(left, w.Nodes, flavors, s.MaxNodes-len(s.Nodes))
	return e, ok && settledIn(exchangedWorld(w, e, left), e)
}

// fill moves pods to other nodes on the copy, and returns those that are unschedulable.
func (n *naive) fill(w *world, pods []cluster.Pod, e *cluster.Exchange) (left []cluster.Pod) {
	for again := true; again; {
		again, left = false, nil
		for _, p := range pods {
			to := n.target(w, -1, &p)
			if to < 0 {
				left = append(left, p)
				continue
			}
			e.Moves = append(e.Moves, cluster.Move{Pod: p.Name, Target: w.Nodes[to].Name, Method: n.Method})
			p.Runtime += n.delay(&p)
			w.Nodes[to].Pods = append(w.Nodes[to].Pods, p)
			again = true
		}
		pods = left
	}
	return left
}

// exchangedWorld adds the machines that are bought.
func exchangedWorld(w *world, e cluster.Exchange, left []cluster.Pod) *world {
	after := w.copy()
	for _, b := range e.Buy {
		f := w.Flavors[slices.IndexFunc(w.Flavors, func(f cluster.Flavor) bool { return f.Name == b.Flavor })]
		n := machineOf(&f, "", b.Class)
		for _, p := range left {
			if slices.Contains(b.Pods, p.Name) {
				n.Pods = append(n.Pods, p)
			}
		}
		after.Nodes = append(after.Nodes, n)
	}
	return after
}

// settledIn reports whether the constraints of all moved pods hold with the other pods.
func settledIn(w *world, e cluster.Exchange) bool {
	moved := map[string]bool{}
	for _, m := range e.Moves {
		moved[m.Pod] = true
	}
	for _, b := range e.Buy {
		for _, p := range b.Pods {
			moved[p] = true
		}
	}
	tracker := w.tracker(-1)
	for i := range w.Nodes {
		pods := slices.DeleteFunc(slices.Clone(w.Nodes[i].Pods), func(p cluster.Pod) bool { return !moved[p.Name] || w.moved[i] })
		if !together(tracker, pods, i) {
			return false
		}
	}
	return true
}

// TestNoExchangeLeadsBack applies proposed exchanges repeatedly and checks that no earlier cluster recurs. Every
// machine can be bought again and may leave at once.
func TestNoExchangeLeadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, c := drawMarket(t, 7), drawExchangeConfig(t)
		c.Residence = 0
		for i := range s.Flavors {
			s.Flavors[i].Most = nil
		}
		seen := map[string]bool{shape(s): true}
		for round := range 12 {
			all := Exchange(s, c, thrifty)
			if len(all) == 0 {
				return
			}
			for _, e := range all {
				s = exchanged(s, c, e)
			}
			s = later(s, round, time.Duration(rapid.IntRange(0, 300).Draw(t, "elapsed"))*time.Second)
			if seen[shape(s)] {
				t.Fatalf("after round %d the cluster is as it was before: %s", round, shape(s))
			}
			seen[shape(s)] = true
		}
		t.Fatal("it continues and on")
	})
}

// later returns the cluster after the old machines have gone, the new ones are ready, and some work has been done.
func later(s *cluster.State, round int, elapsed time.Duration) *cluster.State {
	after := states.Clone(s)
	after.Nodes = slices.DeleteFunc(after.Nodes, func(n cluster.Node) bool { return n.Phase == cluster.Leaving && len(n.Pods) == 0 })
	for i := range after.Nodes {
		n := &after.Nodes[i]
		if n.Phase == cluster.Ordered {
			n.Phase, n.Name = cluster.Ready, fmt.Sprintf("%s-of-round-%d", n.Name, round)
		}
		n.Age += elapsed
		for j := range n.Pods {
			if p := &n.Pods[j]; p.Class == class.Batch {
				p.Runtime, p.Ran = max(0, p.Runtime-elapsed), p.Ran+min(elapsed, p.Runtime)
			}
		}
	}
	after.MaxNodes = len(after.Nodes) + 5
	return after
}

// shape identifies clusters by which pods share which kind of machine.
func shape(s *cluster.State) string {
	count := map[string]int{}
	for _, n := range s.Nodes {
		all := names(n.Pods)
		slices.Sort(all)
		count[fmt.Sprintf("%s%v", n.Flavor, all)]++
	}
	text := ""
	for _, key := range slices.Sorted(maps.Keys(count)) {
		text += fmt.Sprintf("%s x%d; ", key, count[key])
	}
	return text
}
