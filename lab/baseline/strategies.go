// Package baseline implements the policies that Supercargo is compared with: how they buy and how
// they empty machines. They run only in simulations.
//
// [Homogeneous] buys as cluster-autoscaler does on one node group, [Groups] as HTAS and [Mixed] as
// Stratus. All are pure and count on machines already on order: they buy nothing for pods that fit
// there in scheduling order, which need not be the pods for which a machine was bought. The package
// autoscaler/purchase chooses what they buy.
package baseline

import (
	"cmp"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Homogeneous buys one machine of the flavor if a pending pod fits it but fits no machine on order:
// one per round, as the baselines of HTAS do (section 6.3). It buys nothing between rounds or
// beyond the limit.
func Homogeneous(s *cluster.State, flavor string) []cluster.Purchase {
	at := slices.IndexFunc(s.Flavors, func(f cluster.Flavor) bool { return f.Name == flavor })
	if !s.Scaling || at < 0 || left(s) == 0 {
		return nil
	}
	f := s.Flavors[at]
	for _, p := range unserved(s, s.Pending) {
		if (p.Arch == "" || p.Arch == f.Arch) && p.Size.Fits(f.Size) {
			return []cluster.Purchase{{
				Flavor: flavor, Class: class.Any, Pods: []string{p.Name},
				Reason: fmt.Sprintf("%s unschedulable; one machine is bought in each round", plural.Count(len(s.Pending), "pod")+plural.Form(len(s.Pending), " was", " were")),
			}}
		}
	}
	return nil
}

// Groups buys separately for services and for batch pods (HTAS, algorithms 3 and 4). Services go
// first when the limit does not allow both. It buys nothing between rounds.
func Groups(s *cluster.State) []cluster.Purchase {
	if !s.Scaling {
		return nil
	}
	waiting := unserved(s, s.Pending)
	room := left(s)
	if room == 0 {
		return nil
	}
	services := purchase.Greedy(pods(waiting, class.Service), s.Flavors, purchase.GreedyOptions{Order: purchase.Services, MaxMachines: room})
	bought := purchases(services, class.Service)
	if room -= len(bought); room == 0 {
		return bought
	}
	var nodes []standing
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Phase == cluster.Ready && n.Class.Takes(class.Batch) && !n.Has(class.Service) {
			nodes = append(nodes, standing{name: n.Name, capacity: n.Capacity, maxPods: n.MaxPods, arch: n.Arch, remaining: n.Remaining()})
		}
	}
	batch := greedyBatch(pods(waiting, class.Batch), nodes, s.ScalingInterval, s.Flavors, purchase.GreedyOptions{MaxMachines: room})
	return append(bought, purchases(batch, class.Batch)...)
}

// Mixed buys machines that accept both classes for all pods together, by the score of
// [purchase.Greedy]. It buys nothing between rounds.
func Mixed(s *cluster.State) []cluster.Purchase {
	room := left(s)
	if !s.Scaling || room == 0 {
		return nil
	}
	waiting := unserved(s, s.Pending)
	return purchases(purchase.Greedy(pods(waiting, ""), s.Flavors, purchase.GreedyOptions{MaxMachines: room}), class.Any)
}

// left returns the number of machines that may still be bought.
func left(s *cluster.State) int { return max(0, s.MaxNodes-len(s.Nodes)) }

// unserved returns the pods that fit on no machine on order. Pods choose in scheduling order; each
// takes the tightest fit.
func unserved(s *cluster.State, waiting []cluster.Pod) []cluster.Pod {
	type ordered struct {
		node *cluster.Node
		free packing.Size
		pods int
	}
	var orders []ordered
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Phase == cluster.Ordered {
			orders = append(orders, ordered{node: n, free: n.Free(), pods: len(n.Pods)})
		}
	}
	if len(orders) == 0 {
		return waiting
	}
	waiting = slices.Clone(waiting)
	slices.SortFunc(waiting, cluster.Scheduled)
	var rest []cluster.Pod
	for _, p := range waiting {
		best := -1
		for i, o := range orders {
			fits := o.node.Suits(&p) && p.Size.Fits(o.free) && o.node.Takes(o.pods+1)
			if fits && (best < 0 || tighter(o.free, orders[best].free)) {
				best = i
			}
		}
		if best < 0 {
			rest = append(rest, p)
			continue
		}
		orders[best].free = orders[best].free.Minus(p.Size)
		orders[best].pods++
	}
	return rest
}

func tighter(a, b packing.Size) bool {
	return cmp.Or(cmp.Compare(a.MemoryBytes, b.MemoryBytes), cmp.Compare(a.MilliCPU, b.MilliCPU)) < 0
}

// pods returns the pods of class c, or all pods if c is empty, in the planner's form.
func pods(waiting []cluster.Pod, c class.Class) []purchase.Pod {
	var all []purchase.Pod
	for _, p := range waiting {
		if c == "" || p.Class == c {
			all = append(all, purchase.Pod{Item: p.Item, Arch: p.Arch})
		}
	}
	return all
}

// purchases converts a plan to purchases of machines of class c.
func purchases(p purchase.Plan, c class.Class) []cluster.Purchase {
	all := make([]cluster.Purchase, len(p.Machines))
	for i, m := range p.Machines {
		all[i] = cluster.Purchase{Flavor: m.Flavor, Class: c, Pods: m.Pods, Reason: m.Reason}
	}
	return all
}
