package audit

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// clusters is the number of small clusters that are compared with brute force.
const clusters = 200

// smallCluster returns up to 5 nodes of four types with up to 4 pods each. Some pods may not be moved, some nodes accept
// no pods, some have no price, and some run DaemonSet pods.
func smallCluster(seed uint64) Input {
	random := rand.New(rand.NewPCG(seed, 0))
	in := Input{Flavors: flavors(), ByLabel: "team"}
	types := flavors()
	for _, more := range []struct {
		name     string
		cpu, gib int64
		price    int64
	}{{"wide", 4000, 8, 150_000}, {"dear", 4000, 16, 310_000}} {
		f := types[0]
		f.Name, f.InstanceType, f.Size, f.MicroDollarsPerHour = more.name, more.name, size(more.cpu, more.gib), more.price
		types = append(types, f)
	}
	pods := 0
	for i := range 2 + random.IntN(4) {
		n := nodeOf(fmt.Sprintf("n%d", i), types[random.IntN(len(types))])
		for range random.IntN(5) {
			p := cluster.Pod{Item: packing.Item{Name: fmt.Sprintf("p%d", pods), Size: size(100*random.Int64N(20), random.Int64N(6))}, Class: class.Service, Ways: cluster.WaysOf(cluster.Evict)}
			if !p.Size.Fits(n.Free()) {
				continue
			}
			pods++
			if random.IntN(6) == 0 {
				p.Fixed, p.Ways, p.Held = true, 0, "told to"
			}
			n.add(p)
			n.Requests = append(n.Requests, Request{Namespace: fmt.Sprint("ns", random.IntN(3)), Label: []string{"", "a", "b"}[random.IntN(3)], Pods: 1, Size: p.Size})
		}
		if random.IntN(3) == 0 { // of a DaemonSet
			daemon := size(100, 0)
			n.Whole, n.Requested, n.AllPods = n.Whole.Plus(daemon), n.Requested.Plus(daemon), n.AllPods+1
			n.Requests = append(n.Requests, Request{Namespace: "kube-system", Pods: 1, Size: daemon})
		}
		switch random.IntN(8) {
		case 0:
			n.Phase = cluster.Leaving
		case 1:
			n.Unpriced = "nobody knows it"
		}
		in.Nodes = append(in.Nodes, n)
	}
	return in
}

// naive is a small cluster for brute force, which knows sizes and numbers of pods.
type naive []Node

// price returns the price of the nodes that have a price and are not gone.
func (all naive) price(gone map[int]bool) (sum dollars.Amount) {
	for i, n := range all {
		if n.Unpriced == "" && !gone[i] {
			sum += dollars.Amount(n.MicroDollarsPerHour)
		}
	}
	return sum
}

// frees reports whether the nodes may go: none has a pod that may not be moved.
func (all naive) frees(gone map[int]bool) bool {
	for i := range gone {
		if all[i].Unpriced != "" || slices.ContainsFunc(all[i].Pods, func(p cluster.Pod) bool { return p.Fixed }) {
			return false
		}
	}
	return true
}

// without returns the nodes without those that go and without pods that may move, and these pods, the largest first, each
// with the index of its node if that stays, else -1.
func (all naive) without(gone map[int]bool) (nodes naive, pods []cluster.Pod, home []int) {
	type movable struct {
		pod cluster.Pod
		at  int
	}
	var found []movable
	nodes = slices.Clone(all)
	for i := range nodes {
		n := &nodes[i]
		if n.Unpriced != "" {
			continue
		}
		var fixed []cluster.Pod
		for _, p := range n.Pods {
			switch {
			case p.Fixed:
				fixed = append(fixed, p)
			case gone[i]:
				found = append(found, movable{p, -1})
			default:
				found = append(found, movable{p, i})
			}
		}
		n.Pods = fixed
	}
	slices.SortStableFunc(found, func(a, b movable) int { return packing.LargestFirst(a.pod.Item, b.pod.Item) })
	for _, m := range found {
		pods, home = append(pods, m.pod), append(home, m.at)
	}
	return nodes, pods, home
}

// fits tries every placement of the pods on the nodes that stay. A node that accepts no pods may keep its own.
func (all naive) fits(gone map[int]bool, pods []cluster.Pod, home []int) bool {
	if len(pods) == 0 {
		return true
	}
	var need, free packing.Size
	for _, p := range pods {
		need = need.Plus(p.Size)
	}
	for i := range all {
		if !gone[i] && all[i].Unpriced == "" {
			free = free.Plus(all[i].Free())
		}
	}
	if !need.Fits(free) {
		return false
	}
	for i := range all {
		if gone[i] || all[i].Unpriced != "" || all[i].Phase != cluster.Ready && home[0] != i || !pods[0].Size.Fits(all[i].Free()) || int64(len(all[i].Pods)) >= *all[i].MaxPods {
			continue
		}
		was := all[i].Pods
		all[i].Pods = append(slices.Clip(was), pods[0])
		found := all.fits(gone, pods[1:], home[1:])
		if all[i].Pods = was; found {
			return true
		}
	}
	return false
}

// least returns the price of the cheapest nodes that hold all pods after moves: brute force over all sets of nodes and
// all placements, in whatever order pods would have to move.
func (all naive) least() dollars.Amount {
	best := all.price(nil)
	for set := range 1 << len(all) {
		gone := map[int]bool{}
		for i := range all {
			if set&(1<<i) != 0 {
				gone[i] = true
			}
		}
		if price := all.price(gone); price >= best || !all.frees(gone) {
			continue
		} else if nodes, pods, home := all.without(gone); nodes.fits(gone, pods, home) {
			best = price
		}
	}
	return best
}

// improve returns the price after nodes are emptied one after the other by first fit, in an order. most is the maximum
// number of nodes that are emptied.
func (all naive) improve(order func(a, b *Node) int, most int) dollars.Amount {
	nodes := slices.Clone(all)
	turn := make([]int, len(nodes))
	for i := range turn {
		turn[i] = i
	}
	slices.SortStableFunc(turn, func(a, b int) int { return order(&nodes[a], &nodes[b]) })
	gone := map[int]bool{}
	for _, i := range turn {
		if len(gone) == most {
			break
		}
		gone[i] = true
		if !nodes.frees(map[int]bool{i: true}) {
			delete(gone, i)
			continue
		}
		saved := slices.Clone(nodes)
		for _, p := range nodes[i].Pods {
			at := slices.IndexFunc(nodes, func(n Node) bool {
				return !gone[slices.IndexFunc(nodes, func(o Node) bool { return o.Name == n.Name })] && n.Phase == cluster.Ready && n.Unpriced == "" &&
					p.Size.Fits(n.Free()) && int64(len(n.Pods)) < *n.MaxPods
			})
			if at < 0 {
				nodes = saved
				delete(gone, i)
				break
			}
			nodes[at].Pods = append(slices.Clip(nodes[at].Pods), p)
		}
		if gone[i] {
			nodes[i].Pods = nil
		}
	}
	return nodes.price(gone)
}

// improvements are ten cheap ways to lower a bill by moves.
func (all naive) improvements() map[string]dollars.Amount {
	price := func(n *Node) int64 { return n.MicroDollarsPerHour }
	idle := func(n *Node) float64 { return float64(n.MicroDollarsPerHour) * (1 - utilization(&n.Node)) }
	by := func(less func(a, b *Node) bool) func(a, b *Node) int {
		return func(a, b *Node) int {
			switch {
			case less(a, b):
				return -1
			case less(b, a):
				return 1
			}
			return 0
		}
	}
	dearest, cheapest := by(func(a, b *Node) bool { return price(a) > price(b) }), by(func(a, b *Node) bool { return price(a) < price(b) })
	least, idlest := by(func(a, b *Node) bool { return utilization(&a.Node) < utilization(&b.Node) }), by(func(a, b *Node) bool { return idle(a) > idle(b) })
	fewest := by(func(a, b *Node) bool { return len(a.Pods) < len(b.Pods) })
	small := by(func(a, b *Node) bool { return a.Capacity.MilliCPU < b.Capacity.MilliCPU })
	empty := 0
	for i := range all {
		if len(all[i].Pods) == 0 {
			empty++
		}
	}
	return map[string]dollars.Amount{
		"release empty nodes": all.improve(fewest, empty), "empty the most expensive node": all.improve(dearest, 1), "the least utilized": all.improve(least, 1),
		"the one with most idle dollars": all.improve(idlest, 1), "all, the most expensive first": all.improve(dearest, 99), "the cheapest first": all.improve(cheapest, 99),
		"the least utilized first": all.improve(least, 99), "most idle dollars first": all.improve(idlest, 99), "fewest pods first": all.improve(fewest, 99),
		"smallest first": all.improve(small, 99),
	}
}

func TestMovesAloneAreNoWorseThanTenCheapImprovementsAndNoBetterThanBruteForce(t *testing.T) {
	best := 0
	for seed := range uint64(clusters) {
		in := smallCluster(seed)
		r := Audit(in)
		all := naive(in.Nodes)
		for name, price := range all.improvements() {
			if r.Moved.PerHour > price {
				t.Errorf("seed %d: %d by moves alone, but to %s gives %d", seed, r.Moved.PerHour, name, price)
			}
		}
		least := all.least()
		if r.Moved.PerHour < least {
			t.Errorf("seed %d: %d by moves alone, but brute force finds %d at best", seed, r.Moved.PerHour, least)
		}
		if r.Moved.PerHour == least {
			best++
		}
	}
	t.Logf("%d of %d are as cheap as the best by brute force", best, clusters)
	if best < clusters*9/10 {
		t.Errorf("only %d of %d are as cheap as brute force", best, clusters)
	}
}

func TestTheBillAndItsPartsAreThoseOfANaiveSum(t *testing.T) {
	for seed := range uint64(clusters) {
		in := smallCluster(seed)
		r := Audit(in)
		if now := naive(in.Nodes).price(nil); r.Now.PerHour != now {
			t.Fatalf("seed %d: the bill is %d, the sum of prices %d", seed, r.Now.PerHour, now)
		}
		for _, a := range []Allocation{r.ByNamespace, *r.ByLabel} {
			checkParts(t, seed, in, a, r.Now.PerHour)
		}
	}
}

// checkParts adds what each pod pays, in exact fractions.
func checkParts(t *testing.T, seed uint64, in Input, a Allocation, now dollars.Amount) {
	t.Helper()
	want, pods := map[string]*big.Rat{}, map[string]int{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		for _, q := range n.Requests {
			name := q.Namespace
			if a.By != "namespace" {
				name = q.Label
			}
			if want[name] == nil {
				want[name] = new(big.Rat)
			}
			if n.Unpriced != "" {
				continue
			}
			cpu, memory := big.NewRat(q.MilliCPU, n.Whole.MilliCPU), big.NewRat(q.MemoryBytes, n.Whole.MemoryBytes)
			half := big.NewRat(n.MicroDollarsPerHour, 2)
			want[name].Add(want[name], new(big.Rat).Mul(half, new(big.Rat).Add(cpu, memory)))
			pods[name] += q.Pods
		}
	}
	total := a.Idle
	for _, p := range a.Parts {
		total += p.PerHour
		exact, _ := want[p.Name].Float64()
		if off := exact - float64(p.PerHour); off < -1e-6 || off > float64(len(in.Nodes)) {
			t.Errorf("seed %d, by %s: %q costs %d, its pods %v", seed, a.By, p.Name, p.PerHour, exact)
		}
		if p.Pods != pods[p.Name] {
			t.Errorf("seed %d, by %s: %q has %d priced pods, want %d", seed, a.By, p.Name, p.Pods, pods[p.Name])
		}
	}
	if total != now || a.Idle < 0 || len(a.Parts) != len(want) {
		t.Errorf("seed %d, by %s: parts and idle add up to %d of %d, %d of them idle, in %d parts of %d", seed, a.By, total, now, a.Idle, len(a.Parts), len(want))
	}
}

func TestOneNodeThatReceivesIsKeptInsteadOfAMoreExpensiveOne(t *testing.T) {
	small := flavors()[1]
	dear := small
	dear.InstanceType, dear.MicroDollarsPerHour = "dear", 190_000
	r := Audit(Input{Nodes: []Node{nodeOf("a", small), nodeOf("b", small), nodeOf("c", small), nodeOf("d", dear, "p")}, Flavors: flavors()})
	if r.Moved.PerHour != 100_000 || r.Moves != 1 || len(r.Emptied) != 3 || !slices.Contains(r.Emptied, "d") {
		t.Errorf("moved %d with %d moves, emptied %v; want 100000: p moves to an empty node", r.Moved.PerHour, r.Moves, r.Emptied)
	}
	for _, w := range r.Worst {
		if w.Node == "d" && w.Remedy != "moving its pod to a node that has room" {
			t.Errorf("d: %q", w.Remedy)
		}
	}
}

func TestAnEmptyNodeThatAcceptsNoPodsIsReleasedAndNoLongerPaid(t *testing.T) {
	cordoned := nodeOf("cordoned", flavors()[0])
	cordoned.Phase = cluster.Leaving
	r := Audit(Input{Nodes: []Node{cordoned, nodeOf("a", flavors()[1], "p")}, Flavors: flavors()})
	if r.Moved.PerHour != 100_000 || !slices.Equal(r.Emptied, []string{"cordoned"}) {
		t.Errorf("moved %d, emptied %v; want 100000 without the cordoned node", r.Moved.PerHour, r.Emptied)
	}
}
