// Package audit says what a cluster costs and what it could cost: on the cheapest machines that
// can be bought for its pods, by moving pods alone, and at the least; and which demands of pods
// make the difference.
//
// It plans with what ships: purchases are those of [planner.Supercargo], moves those of
// [decide.Fleet] as a NodeFleet with default settings makes them. It reads nothing and changes
// nothing; [supercargo.dev/supercargo/autoscaler/auditor] fills in the [Input]. All prices
// are micro-dollars per hour.
package audit

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// Input is a cluster at a moment, and what can be bought for it.
type Input struct {
	// Nodes are all nodes, in any order. Their names are unique, and those of pods too.
	Nodes []Node
	// Flavors are the machines that can be bought, in any order.
	Flavors []Flavor
	// Obstacles are what may stand in the way of a lower bill, in any order.
	Obstacles []Obstacle
	// Pending is how many pods have no node. They are in no figure.
	Pending int
	// MostObstacles is of how many obstacles of each sort it is worked out what they cost, those
	// first whose pods are on the most expensive nodes. The others are counted.
	MostObstacles int
	// Stop is asked now and then whether to make do with what has been found: obstacles are then
	// left without a cost. nil never stops. It is called by several goroutines.
	Stop func() bool
}

// Node is a machine of the cluster.
type Node struct {
	// Node has the node's room less that of the pods of DaemonSets and static pods, the other
	// pods, and its price; a pod that may not be moved now is Fixed.
	cluster.Node
	// InstanceType is what its seller calls it; empty if that is not known.
	InstanceType string
	// Whole and WholePods are its room for all pods, AllPods how many there are and Requested
	// what all of them request, those of DaemonSets included.
	Whole, Requested   packing.Size
	WholePods, AllPods int64
	// Unpriced says why its price is not known; empty if it is. Such a node, with its pods, is left
	// as it is and in no figure but the number of nodes.
	Unpriced string
	// Stays says why the node remains whatever is bought; empty if its pods can be planned for. Its
	// pods remain on it, and its free room is used.
	Stays string
	// Use is what is used of it as measured; nil where nobody measures.
	Use *packing.Size
}

// Flavor is a kind of machine that can be bought, with labels and taints.
type Flavor struct {
	cluster.Flavor
	// InstanceType is what its seller calls it. Several flavors may be of one instance type, in
	// different zones or with different labels.
	InstanceType string
}

// Obstacle is a demand that may make the cluster dearer. Exactly one of Ways and Demands is
// there.
type Obstacle struct {
	// Kind is the sort of demand, Subject whose it is, Advice what would lift it.
	Kind, Subject, Advice string
	// Pods are the names of those that have it, ordered.
	Pods []string
	// Ways are by which pods could leave their nodes if it were lifted, by name. Pods that
	// something else holds, too, are missing.
	Ways map[string]cluster.Ways
	// Demands are what pods would demand of nodes if it were lifted, by name.
	Demands map[string]*constraint.Pod
}

// Bill is a number of machines and what they cost together.
type Bill struct {
	MicroDollarsPerHour int64
	Machines            []Count
}

// Nodes is how many machines there are.
func (b *Bill) Nodes() (n int) {
	for _, c := range b.Machines {
		n += c.Machines
	}
	return n
}

// Count is a number of machines of an instance type, at one price.
type Count struct {
	InstanceType        string
	Machines            int
	MicroDollarsPerHour int64 // of one
}

// Result is what an audit says. Now, Moved, Cheapest and Bound are of the same pods: those on
// nodes that have a price. Bound ≤ Cheapest ≤ Moved ≤ Now.
type Result struct {
	// Now is the bill as it is, Moved that after moves alone, Cheapest that of the cheapest machines
	// found.
	Now, Moved, Cheapest Bill
	// Bound is what any machines cost that hold the pods, given the nodes that stay.
	Bound int64
	// Moves is how many pods move for Moved, and Emptied which nodes go, ordered.
	Moves   int
	Emptied []string
	// Fullness says how full the priced nodes are.
	Fullness Fullness
	// Unpriced are the nodes whose price is not known, and Staying those that remain whatever is
	// bought, both by name.
	Unpriced, Staying []Stay
	// Pods is how many pods are in the figures, and Pending how many have no node.
	Pods, Pending int
	// Obstacles are those that hold a pod of a priced node: first those that cost most.
	Obstacles []Cost
	// Worst are the nodes that are used least for their price.
	Worst []Worst
	// Stopped says that not all was looked at: Input.Stop said so.
	Stopped bool
}

// Stay is a node and why it is in no figure, or in all.
type Stay struct{ Node, InstanceType, Reason string }

// Audit computes all figures. It changes nothing of its input, and gives the same for the same
// nodes in any order, unless it is stopped.
//
// Cost: that of some rounds of [decide.Fleet] without purchases and of one plan of
// [planner.Supercargo], and of as many more as there are obstacles to work out.
func Audit(in Input) Result {
	c := newScene(in)
	r := Result{Pending: in.Pending, Unpriced: c.unpriced, Fullness: fullness(c.nodes), Pods: c.pods()}
	r.Now = c.now()
	after := c.move(nil)
	r.Moved, r.Moves, r.Emptied = after.bill, after.moves, after.emptied
	mix := c.buy(nil)
	r.Staying = mix.staying
	r.Cheapest = cheapest(mix.bill, r.Moved, r.Now)
	r.Bound = min(mix.bound, r.Cheapest.MicroDollarsPerHour)
	r.Obstacles = c.obstacles(after, mix, r.Now.MicroDollarsPerHour)
	r.Worst = c.worst(after)
	r.Stopped = c.stopped()
	return r
}

// cheapest returns the first of the bills that is lowest: a search may miss that the machines there
// are cannot be bettered.
func cheapest(bills ...Bill) Bill {
	return slices.MinFunc(bills, func(a, b Bill) int { return cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour) })
}

// scene is an input in order.
type scene struct {
	in       Input
	nodes    []Node // those with a price, by name
	others   []Node // those without
	unpriced []Stay
	at       map[string]int // of nodes, by the name of a pod
}

func newScene(in Input) *scene {
	c := &scene{in: in, at: map[string]int{}}
	all := slices.Clone(in.Nodes)
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range all {
		n.Pods = slices.Clone(n.Pods)
		slices.SortFunc(n.Pods, func(a, b cluster.Pod) int { return cmp.Compare(a.Name, b.Name) })
		if n.Unpriced != "" {
			c.others = append(c.others, n)
			c.unpriced = append(c.unpriced, Stay{n.Name, n.InstanceType, n.Unpriced})
			continue
		}
		for i := range n.Pods {
			c.at[n.Pods[i].Name] = len(c.nodes)
		}
		c.nodes = append(c.nodes, n)
	}
	c.in.Flavors = slices.Clone(in.Flavors)
	slices.SortFunc(c.in.Flavors, func(a, b Flavor) int { return cmp.Compare(a.Name, b.Name) })
	c.in.Obstacles = slices.Clone(in.Obstacles)
	slices.SortFunc(c.in.Obstacles, func(a, b Obstacle) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
	return c
}

func (c *scene) stopped() bool { return c.in.Stop != nil && c.in.Stop() }

// pods is how many pods there are on priced nodes, those of DaemonSets and static ones left out.
func (c *scene) pods() (n int) {
	for i := range c.nodes {
		n += len(c.nodes[i].Pods)
	}
	return n
}

// now is the bill as it is.
func (c *scene) now() Bill { return billOf(c.nodes) }

// billOf adds up nodes. The counts are ordered by instance type, then price.
func billOf(nodes []Node) Bill {
	var b Bill
	for i := range nodes {
		b.add(nodes[i].InstanceType, nodes[i].MicroDollarsPerHour)
	}
	return b.sorted()
}

func (b *Bill) add(instanceType string, microDollars int64) {
	b.MicroDollarsPerHour += microDollars
	at := slices.IndexFunc(b.Machines, func(c Count) bool { return c.InstanceType == instanceType && c.MicroDollarsPerHour == microDollars })
	if at < 0 {
		at = len(b.Machines)
		b.Machines = append(b.Machines, Count{InstanceType: instanceType, MicroDollarsPerHour: microDollars})
	}
	b.Machines[at].Machines++
}

func (b Bill) sorted() Bill {
	slices.SortFunc(b.Machines, func(x, y Count) int {
		return cmp.Or(cmp.Compare(x.InstanceType, y.InstanceType), cmp.Compare(x.MicroDollarsPerHour, y.MicroDollarsPerHour))
	})
	return b
}
