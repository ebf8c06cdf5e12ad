package moves

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/test/fixtures/states"
)

// drawConfig draws a configuration. Amounts are small, so that ties and edge cases are common.
func drawConfig(t *rapid.T) DrainConfig {
	minutes := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Minute
	}
	return DrainConfig{
		Threshold:    rapid.SampledFrom([]float64{0, 0.25, 0.5, 1}).Draw(t, "threshold"),
		Measure:      rapid.SampledFrom([]Measure{Mean, Dominant}).Draw(t, "measure"),
		After:        minutes("after", 2),
		QueueEmpty:   minutes("queueEmpty", 2),
		AnyPending:   rapid.IntRange(0, 5).Draw(t, "anyPending") == 0,
		Method:       rapid.SampledFrom([]cluster.Method{cluster.Migrate, cluster.Evict}).Draw(t, "method"),
		MoveServices: rapid.Bool().Draw(t, "moveServices"),
		Cycle:        minutes("cycle", 3),
		Replace:      rapid.Bool().Draw(t, "replace"),
		Limit:        rapid.IntRange(0, 2).Draw(t, "limit"),
		Explain:      rapid.Bool().Draw(t, "explain"),
	}
}

func drawPod(t *rapid.T, name string) cluster.Pod {
	p := job(name, rapid.Int64Range(0, 3).Draw(t, "cpu"), rapid.Int64Range(0, 3).Draw(t, "memory"))
	p.Arch = rapid.SampledFrom([]string{"", "", "amd64", "arm64"}).Draw(t, "podArch")
	p.Fixed = rapid.IntRange(0, 9).Draw(t, "fixed") == 0
	p.Arrival = time.Duration(rapid.IntRange(0, 2).Draw(t, "arrival"))
	p.Runtime = time.Duration(rapid.IntRange(0, 8).Draw(t, "runtime")) * time.Minute
	p.Ran = time.Duration(rapid.IntRange(0, 2).Draw(t, "ran")) * time.Minute
	if rapid.IntRange(0, 5).Draw(t, "service") == 0 {
		p.Class, p.Runtime, p.Ran = class.Service, 0, 0
	}
	return p
}

// drawState draws a cluster of up to six nodes with up to four pods each. Some nodes are overcommitted.
func drawState(t *rapid.T) *cluster.State {
	s := state()
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		n := node(fmt.Sprintf("n%d", i))
		n.Class = rapid.SampledFrom([]class.Class{class.Any, class.Any, class.Batch, class.Service}).Draw(t, "class")
		n.Arch = rapid.SampledFrom([]string{"amd64", "amd64", "arm64"}).Draw(t, "arch")
		n.Capacity = size(rapid.Int64Range(4, 9).Draw(t, "cpuCapacity"), rapid.Int64Range(4, 9).Draw(t, "memoryCapacity"))
		n.MaxPods = rapid.Ptr(rapid.Int64Range(1, 4), true).Draw(t, "maxPods")
		n.MicroDollarsPerHour = rapid.Int64Range(0, 3).Draw(t, "price") * 60_000_000
		n.Age = time.Duration(rapid.IntRange(0, 200).Draw(t, "age")) * time.Second
		n.Phase = rapid.SampledFrom([]cluster.Phase{cluster.Ready, cluster.Ready, cluster.Ready, cluster.Ready, cluster.Leaving, cluster.Ordered}).Draw(t, "phase")
		n.Kept = rapid.IntRange(0, 9).Draw(t, "kept") == 0
		if n.Phase != cluster.Ordered {
			for j := range rapid.IntRange(0, 4).Draw(t, "pods") {
				n.Pods = append(n.Pods, drawPod(t, fmt.Sprintf("%s-p%d", n.Name, j)))
			}
			n.Incoming = min(len(n.Pods), max(0, rapid.IntRange(-6, 2).Draw(t, "incoming")))
		}
		s.Nodes = append(s.Nodes, n)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "flavors") {
		s.Flavors = append(s.Flavors, cluster.Flavor{
			Name: fmt.Sprintf("f%d", i), Size: size(rapid.Int64Range(1, 9).Draw(t, "flavorCPU"), rapid.Int64Range(1, 9).Draw(t, "flavorMemory")),
			MaxPods: rapid.Ptr(rapid.Int64Range(1, 3), true).Draw(t, "flavorMaxPods"), Arch: rapid.SampledFrom([]string{"amd64", "arm64"}).Draw(t, "flavorArch"),
			MicroDollarsPerHour: rapid.Int64Range(0, 3).Draw(t, "flavorPrice") * 60_000_000,
		})
	}
	s.MaxNodes = len(s.Nodes) + rapid.IntRange(-1, 2).Draw(t, "spare")
	s.Release = time.Duration(rapid.IntRange(0, 20).Draw(t, "release")) * time.Second
	s.QueueEmpty = time.Duration(rapid.IntRange(0, 3).Draw(t, "quiet")) * time.Minute
	if s.QueueEmpty == 0 {
		s.Pending = []cluster.Pod{job("waits", 1, 1)}
	}
	if rapid.IntRange(0, 5).Draw(t, "serviceWaits") == 0 {
		s.Pending = append(s.Pending, service("web", 1, 1))
	}
	if rapid.Bool().Draw(t, "demanding") {
		drawDemands(t, s)
	}
	return s
}

// TestPlansAreThoseOfACopyOnWhichTheyAreCarriedOut compares round after round with a naive planner, which moves the
// pods on a copy of the cluster and evaluates it again.
func TestPlansAreThoseOfACopyOnWhichTheyAreCarriedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t)
		p, again, twin := NewPlanner(config), NewPlanner(config), naive{DrainConfig: config, since: map[string]time.Time{}}
		now := noon
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			s := drawState(t)
			before := states.Clone(s)
			plan := p.Plan(now, s)
			if diff := gocmp.Diff(before, s, opaque); diff != "" {
				t.Fatalf("the cluster was modified:\n%s", diff)
			}
			if diff := gocmp.Diff(plan, again.Plan(now, states.Clone(s))); diff != "" {
				t.Fatalf("a second planner says otherwise:\n%s", diff)
			}
			checkMoves(t, config, s, plan)
			if diff := gocmp.Diff(twin.plan(now, s), lines(plan)); diff != "" {
				t.Fatalf("plan (-twin +got):\n%s", diff)
			}
		}
	})
}

// opaque compares compiled constraints by identity.
var opaque = gocmp.Comparer(func(a, b *constraint.Pod) bool { return a == b })

// checkMoves checks invariants of every plan.
func checkMoves(t *rapid.T, c DrainConfig, s *cluster.State, plan cluster.Plan) {
	t.Helper()
	leaving, least, replaced := map[string]bool{}, 0.0, 0
	for _, d := range plan.Drains {
		n := find(s, d.Node)
		if n.Kept {
			t.Fatalf("%s is emptied although it must be kept", d.Node)
		}
		checkDrain(t, c, n, d)
		if u := c.Utilization(n); u < least {
			t.Fatalf("%s is %v utilised and emptied after one of %v", d.Node, u, least)
		} else {
			least = u
		}
		if d.Replacement != nil {
			replaced++
		}
		leaving[d.Node] = true
	}
	for _, r := range plan.Release {
		if n := find(s, r.Node); len(n.Pods) > 0 || n.Kept || n.Phase != cluster.Ready {
			t.Fatalf("%s is released with %d pods in phase %d", r.Node, len(n.Pods), n.Phase)
		}
		leaving[r.Node] = true
	}
	if c.Limit > 0 && len(plan.Drains) > c.Limit {
		t.Fatalf("%d nodes are emptied, %d may be", len(plan.Drains), c.Limit)
	}
	if replaced > 0 && (!c.Replace || len(s.Nodes)+replaced > s.MaxNodes) {
		t.Fatalf("%d nodes are replaced beside %d, %d may be there", replaced, len(s.Nodes), s.MaxNodes)
	}
	checkTargets(t, states.Clone(s), plan, leaving)
}

func find(s *cluster.State, name string) *cluster.Node {
	return &s.Nodes[slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.Name == name })]
}

// checkDrain checks one drain: all pods of the node leave, and each of them may.
func checkDrain(t *rapid.T, c DrainConfig, n *cluster.Node, d cluster.Drain) {
	t.Helper()
	var went, there []string
	for _, m := range d.Moves {
		went = append(went, m.Pod)
	}
	for _, p := range n.Pods {
		if p.Fixed || p.Class == class.Service && !c.MoveServices {
			t.Fatalf("%s is emptied although pod %s stays", d.Node, p.Name)
		}
		there = append(there, p.Name)
	}
	if d.Replacement != nil {
		if len(went) > 0 {
			t.Fatalf("%s is replaced, and pods move away before that: %v", d.Node, went)
		}
		went = d.Replacement.Pods
	} else if c.Worthwhile && d.Saves <= d.Costs {
		t.Fatalf("%s saves %d and costs %d", d.Node, d.Saves, d.Costs)
	}
	if !slices.Equal(went, there) {
		t.Fatalf("%s has pods %v, and %v go", d.Node, there, went)
	}
	if n.Phase != cluster.Ready || n.Incoming > 0 || c.Utilization(n) >= c.Threshold {
		t.Fatalf("%s is emptied in phase %d, with %d pods on their way to it, %v utilised", d.Node, n.Phase, n.Incoming, c.Utilization(n))
	}
}

// checkTargets applies all moves and checks that no target is released or has too many pods.
func checkTargets(t *rapid.T, s *cluster.State, plan cluster.Plan, leaving map[string]bool) {
	t.Helper()
	targets := map[string]bool{}
	for _, d := range plan.Drains {
		for _, m := range d.Moves {
			to, from := find(s, m.Target), find(s, d.Node)
			p := from.Pods[slices.IndexFunc(from.Pods, func(p cluster.Pod) bool { return p.Name == m.Pod })]
			if leaving[m.Target] || to.Phase != cluster.Ready || !to.Suits(&p) {
				t.Fatalf("pod %s cannot move from %s to %s", m.Pod, d.Node, m.Target)
			}
			to.Pods, targets[m.Target] = append(to.Pods, p), true
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if free := n.Free(); targets[n.Name] && (free.MilliCPU < 0 || free.MemoryBytes < 0 || n.MaxPods != nil && int64(len(n.Pods)) > *n.MaxPods) {
			t.Fatalf("%s is over-filled: %+v free, %d pods", n.Name, free, len(n.Pods))
		}
		if why := overAttached(n); targets[n.Name] && why != "" {
			t.Fatalf("%s is over-filled: %s", n.Name, why)
		}
	}
}

// overAttached returns why the pods that have come to a node, which are its last ones, cannot all be there with their volumes,
// or "".
func overAttached(n *cluster.Node) string {
	all := n.Attached()
	for i := range n.Pods {
		d := n.Pods[i].Demands
		all.Remove(d)
		if why := all.Refuses(d, n.Host); why != "" && i == len(n.Pods)-1 {
			return why
		}
		all.Add(d)
	}
	return ""
}

// naive plans as described in the doc comments.
type naive struct {
	DrainConfig
	since map[string]time.Time
	may   func(p *cluster.Pod, at int) bool // a further condition for targets; may be nil
}

// delay returns how much later a moved pod ends. A migration takes 30 s here.
func (n *naive) delay(p *cluster.Pod) time.Duration {
	switch {
	case p.Class == class.Service:
		return 0
	case n.Method == cluster.Evict:
		return p.Ran
	case n.Worthwhile:
		return 30*time.Second + time.Duration(riskOf(n.Risk)*float64(p.Ran))
	default:
		return 30 * time.Second
	}
}

// riskOf returns the risk of a configuration.
func riskOf(r float64) float64 {
	if r == 0 {
		return 0.02
	}
	return max(r, 0)
}

func (n *naive) utilization(node *cluster.Node) float64 {
	var cpu, memory int64
	for _, p := range node.Pods {
		cpu, memory = cpu+p.Size.MilliCPU, memory+p.Size.MemoryBytes
	}
	c, m := float64(cpu)/float64(node.Capacity.MilliCPU), float64(memory)/float64(node.Capacity.MemoryBytes)
	if n.Measure == Dominant {
		return max(c, m)
	}
	return (c + m) / 2
}

func (n *naive) qualifies(now time.Time, s *cluster.State, node *cluster.Node) bool {
	if node.Phase != cluster.Ready || node.Kept || node.Incoming > 0 || len(node.Pods) > 0 && n.utilization(node) >= n.Threshold {
		delete(n.since, node.Name)
		return false
	}
	if _, ok := n.since[node.Name]; !ok {
		n.since[node.Name] = now
	}
	services := 0
	for _, p := range s.Pending {
		if p.Class == class.Service {
			services++
		}
	}
	switch {
	case n.AnyPending && len(s.Pending) > 0:
		return false
	case n.QueueEmpty > 0 && node.Class == class.Service && services > 0:
		return false
	case n.QueueEmpty > 0 && node.Class != class.Service && s.QueueEmpty < n.QueueEmpty:
		return false
	}
	return !now.Before(n.since[node.Name].Add(n.After))
}

func (n *naive) plan(now time.Time, s *cluster.State) []string {
	there := map[string]bool{}
	type ranked struct {
		utilization float64
		at          int
	}
	var found []ranked
	for i := range s.Nodes {
		there[s.Nodes[i].Name] = true
		if n.qualifies(now, s, &s.Nodes[i]) {
			found = append(found, ranked{n.utilization(&s.Nodes[i]), i})
		}
	}
	for name := range n.since {
		if !there[name] {
			delete(n.since, name)
		}
	}
	slices.SortFunc(found, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.utilization, b.utilization), cmp.Compare(a.at, b.at))
	})

	drains, releases := []string{}, []string{}
	world := &world{State: states.Clone(s), original: s, off: map[int]bool{}, moved: map[int]bool{}, targets: map[int]bool{}, bought: map[string]int{}}
	for _, f := range found {
		node := &s.Nodes[f.at]
		switch {
		case world.targets[f.at]:
		case len(node.Pods) == 0:
			releases = append(releases, "release "+node.Name)
			world.off[f.at] = true
		case n.Limit > 0 && len(drains) == n.Limit:
		default:
			if line, after := n.empty(world, f.at); line != "" {
				drains, world = append(drains, line), after
				world.off[f.at] = true
			}
		}
	}
	return append(drains, releases...)
}

// world is a cluster to which plans are applied.
type world struct {
	*cluster.State
	original *cluster.State
	off      map[int]bool // nodes drained or released
	moved    map[int]bool // those whose pods have moved to others
	targets  map[int]bool
	bought   map[string]int
}

func (w *world) copy() *world {
	return &world{
		State: states.Clone(w.State), original: w.original, off: maps.Clone(w.off), moved: maps.Clone(w.moved), targets: maps.Clone(w.targets), bought: maps.Clone(w.bought),
	}
}

// tracker returns a tracker with all pods except those of drained nodes and of the node that is being drained.
func (w *world) tracker(from int) *constraint.Tracker {
	tracker := constraint.NewTracker()
	for i := range w.Nodes {
		h := w.Nodes[i].Host
		if h == nil {
			h = &constraint.Host{}
		}
		tracker.AddHost(h) // host ids are counted from 0
		for _, p := range w.Nodes[i].Pods {
			if i != from && !w.moved[i] && p.Demands != nil {
				tracker.Place(p.Demands, i)
			}
		}
	}
	return tracker
}

// together reports whether the constraints of each pod hold with the others on a host.
func together(tracker *constraint.Tracker, pods []cluster.Pod, host int) bool {
	for _, p := range pods {
		if p.Demands == nil {
			continue
		}
		tracker.Unplace(p.Demands, host)
		if tracker.Check(p.Demands, host) != "" {
			return false
		}
		tracker.Place(p.Demands, host)
	}
	return true
}

func (n *naive) empty(w *world, at int) (string, *world) {
	from := &w.original.Nodes[at]
	pods := slices.Clone(from.Pods)
	slices.SortFunc(pods, inQueue)
	for _, p := range pods {
		if p.Fixed || p.Class == class.Service && !n.MoveServices {
			return "", nil
		}
	}
	after, went := w.copy(), map[string]string{}
	arrived := map[int][]cluster.Pod{}
	for again := true; again; { // a pod may be placeable after another one
		again = false
		for _, p := range pods {
			if n.Method == cluster.Migrate && p.Arch == "" {
				p.Arch = from.Arch
			}
			to := n.target(after, at, &p)
			if went[p.Name] != "" || to < 0 {
				continue
			}
			p.Runtime += n.delay(&p)
			after.Nodes[to].Pods = append(after.Nodes[to].Pods, p)
			arrived[to] = append(arrived[to], p)
			after.targets[to] = true
			went[p.Name] = w.Nodes[to].Name
			again = true
		}
	}
	if len(went) < len(pods) {
		return n.replace(w, from, at)
	}
	for to, pods := range arrived {
		if !together(after.tracker(at), pods, to) {
			return n.replace(w, from, at)
		}
	}
	line := "drain " + from.Name + ":"
	for _, p := range from.Pods {
		line += " " + p.Name + ">" + went[p.Name]
	}
	after.moved[at] = true
	return line, after
}

// inQueue compares pods in scheduling order.
func inQueue(a, b cluster.Pod) int {
	rank := map[class.Class]int{class.Service: 0, class.Batch: 1}
	if a.Class != b.Class {
		return cmp.Compare(rank[a.Class], rank[b.Class])
	}
	if a.Class == class.Batch {
		return cmp.Or(cmp.Compare(b.Runtime, a.Runtime), cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Name, b.Name))
	}
	return cmp.Or(cmp.Compare(b.Size.MemoryBytes, a.Size.MemoryBytes), cmp.Compare(b.Size.MilliCPU, a.Size.MilliCPU),
		cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Name, b.Name))
}

func (n *naive) target(w *world, from int, p *cluster.Pod) int {
	bin := func(d time.Duration) int64 {
		if n.Cycle == 0 || p.Class == class.Service {
			return 0
		}
		return int64(d / n.Cycle)
	}
	best, bestKey := -1, []int64(nil)
	tracker := w.tracker(from)
	for i := range w.Nodes {
		node := &w.Nodes[i]
		if i == from || w.off[i] || n.may != nil && !n.may(p, i) || len(w.original.Nodes[i].Pods) == 0 && !node.Kept ||
			!takes(node, p) || p.Demands != nil && tracker.Check(p.Demands, i) != "" {
			continue
		}
		free := node.Free()
		own, its := bin(p.Runtime), bin(node.Remaining())
		key := []int64{0, its, free.MemoryBytes, free.MilliCPU, int64(i)}
		if its < own {
			key[0], key[1] = 1, -its
		}
		if best < 0 || slices.Compare(key, bestKey) < 0 {
			best, bestKey = i, key
		}
	}
	return best
}

// takes reports whether the node has room for the pod and suits it.
func takes(node *cluster.Node, p *cluster.Pod) bool {
	free := node.Free()
	switch {
	case node.Phase != cluster.Ready, node.Class != class.Any && node.Class != p.Class, p.Arch != "" && p.Arch != node.Arch:
		return false
	case p.Size.MilliCPU > free.MilliCPU, p.Size.MemoryBytes > free.MemoryBytes, node.MaxPods != nil && int64(len(node.Pods)) >= *node.MaxPods:
		return false
	default:
		return p.Demands == nil || node.Host == nil || p.Demands.Admits(node.Host) == ""
	}
}

func (n *naive) replace(w *world, from *cluster.Node, at int) (string, *world) {
	sum := 0
	for _, count := range w.bought {
		sum += count
	}
	if !n.Replace || len(w.Nodes)+sum >= w.MaxNodes {
		return "", nil
	}
	flavors := slices.DeleteFunc(slices.Clone(w.Flavors), func(f cluster.Flavor) bool {
		used, h := from.Used(), f.Host
		if h == nil {
			h = &constraint.Host{}
		}
		tracker := w.tracker(at)
		host := tracker.AddHost(h)
		for _, p := range from.Pods {
			if p.Demands != nil {
				tracker.Place(p.Demands, host)
				if f.Host != nil && p.Demands.Admits(f.Host) != "" {
					return true
				}
			}
		}
		return f.Arch != from.Arch || f.MicroDollarsPerHour >= from.MicroDollarsPerHour || f.Size.MilliCPU < used.MilliCPU ||
			f.Size.MemoryBytes < used.MemoryBytes || f.MaxPods != nil && *f.MaxPods < int64(len(from.Pods)) ||
			f.Most != nil && w.bought[f.Name] >= *f.Most || !together(tracker, from.Pods, host)
	})
	if len(flavors) == 0 {
		return "", nil
	}
	slices.SortStableFunc(flavors, func(a, b cluster.Flavor) int { return cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour) })
	line := "drain " + from.Name + ": " + flavors[0].Name + " for"
	for _, p := range from.Pods {
		line += " " + p.Name
	}
	after := w.copy()
	after.bought[flavors[0].Name]++
	return line, after
}
