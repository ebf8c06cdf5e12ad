// Package audit computes what a cluster costs and what it could cost: on the cheapest machines that
// can be bought for its pods, on machines of one type, by moving pods alone, and a lower bound; and
// which demands of pods cause the difference.
//
// It plans with the code of the autoscaler: [planner.Supercargo] for purchases, and [decide.Fleet]
// for moves, with the default settings of a NodeFleet. It performs no I/O;
// [supercargo.dev/supercargo/cli/auditor] fills in the [Input]. All prices are micro-dollars
// per hour. [supercargo.dev/supercargo/cli/auditreport] prints the [Result].
package audit

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// Input is the state of a cluster, and the machines that can be bought for it.
type Input struct {
	// Nodes are all nodes, in any order. Node names are unique, and so are pod names.
	Nodes []Node
	// Flavors are the machines that can be bought, in any order.
	Flavors []Flavor
	// Obstacles are demands that may prevent a lower bill, in any order.
	Obstacles []Obstacle
	// Pending is the number of pods without a node. No figure includes them.
	Pending int
	// Source describes the prices of machines for sale: a list and its region, the user's prices,
	// or those of the nodes. Pricing are sentences about which prices are used for which nodes, and what would price the
	// others. Notes are sentences about other assumptions and omissions. Both have the most important first.
	Source         string
	Pricing, Notes []string
	// Unsold is why no machine is for sale, as a sentence that is also in Notes; empty if one is.
	Unsold string
	// ByLabel is the key of the pod label by whose values the bill is divided; empty for none.
	ByLabel string
	// MostObstacles is the maximum number of obstacles of each sort whose cost is computed, those
	// with pods on the most expensive nodes first. The others are only counted.
	MostObstacles int
	// Stop is polled and returns true to stop early with the results so far: the remaining
	// obstacles then have no cost. nil never stops. It must be safe for concurrent use.
	Stop func() bool
}

// Node is a node of the cluster.
type Node struct {
	// Node contains the node's room minus that of DaemonSet pods and static pods, the other pods,
	// and its price. A pod that cannot be moved now is Fixed.
	cluster.Node
	// InstanceType is its instance type; empty if unknown. CapacityType is [Spot] or [OnDemand].
	InstanceType, CapacityType string
	// Requests are what groups of its pods request, DaemonSet pods included: see [Allocation].
	Requests []Request
	// Whole and WholePods are its room for all pods, AllPods is the number of all pods and
	// Requested is the sum of their requests, including DaemonSet pods.
	Whole, Requested   packing.Size
	WholePods, AllPods int64
	// Unpriced is why its price is unknown; empty if it is known. Such a node keeps its pods, and
	// is included only in the number of nodes.
	Unpriced string
	// Stays is why the node remains in any purchase; empty if its pods can be placed on new
	// machines. Its pods remain on it, and its free room is used.
	Stays string
	// Unready is whether the node is not ready. It accepts no pods, and its kubelet may not end those that it has.
	Unready bool
	// Goes is whether the node is being deleted.
	Goes bool
	// Use is its measured usage; nil if it is not measured.
	Use *packing.Size
}

// Flavor is a kind of machine that can be bought, with labels and taints.
type Flavor struct {
	cluster.Flavor
	// InstanceType is its instance type. Several flavors may have one instance type, with different
	// zones or labels. CapacityType is [Spot] or [OnDemand].
	InstanceType, CapacityType string
}

// The capacity types: how a machine is sold.
const (
	OnDemand = "on-demand"
	// Spot machines may be taken by the cloud provider at any time.
	Spot = "spot"
)

// Obstacle is a demand that may make the cluster more expensive. Exactly one of Ways and Demands is
// set.
type Obstacle struct {
	// Kind is the sort of demand, Subject is the object that has it, and Advice is what would lift
	// it.
	Kind, Subject, Advice string
	// Pods are the sorted names of the pods that have it.
	Pods []string
	// Ways are, by pod name, how pods could leave their nodes if it were lifted. Pods that are also
	// held by something else are missing.
	Ways map[string]cluster.Ways
	// Demands are, by pod name, the demands on nodes if it were lifted.
	Demands map[string]*constraint.Pod
}

// HoursPerMonth is the mean number of hours in a month, as sellers count: 365 · 24 / 12.
const HoursPerMonth = 730

// Bill is a set of machines and their total price.
type Bill struct {
	PerHour  dollars.Amount `json:"perHour"`
	PerMonth dollars.Amount `json:"perMonth"`
	Nodes    int            `json:"nodes"`
	// Machines are sorted by instance type, architecture, capacity type, then price.
	Machines []Count `json:"machines"`
	// MilliCPU is the CPU of the machines that pods can request, without that of DaemonSet pods and
	// static pods.
	MilliCPU int64 `json:"-"`
}

// Count is a number of machines of an instance type, architecture and capacity type, at one price.
type Count struct {
	InstanceType string         `json:"instanceType"`
	Arch         string         `json:"arch"`
	CapacityType string         `json:"capacityType"`
	Count        int            `json:"count"`
	PricePerHour dollars.Amount `json:"pricePerHour"` // of one machine
}

// Result is the result of an audit. Now, Moved, Cheapest and Bound are for the same pods: those on
// nodes with a price. Bound ≤ Cheapest ≤ Moved ≤ Now, and Cheapest ≤ Homogeneous. No list is nil. Scripts
// read it as JSON, with money in dollars: fields may be added but never renamed.
type Result struct {
	// Source, Pricing, Notes and Unsold are those of the input. The last of Notes is why Homogeneous is nil, if no type of
	// machines holds all pods.
	Source  string   `json:"source"`
	Pricing []string `json:"pricing"`
	Notes   []string `json:"notes"`
	Unsold  string   `json:"-"`
	// Nodes and Pods are the numbers of all nodes, and of all pods on them. Priced are the numbers of nodes with a known
	// price and of all pods on them: no sum has others.
	Nodes       int `json:"nodes"`
	PricedNodes int `json:"pricedNodes"`
	Pods        int `json:"pods"`
	PricedPods  int `json:"pricedPods"`
	// Now is the current bill, and Moved is the bill after moves alone.
	Now   Bill `json:"now"`
	Moved Bill `json:"moved"`
	// Homogeneous is the cheapest bill found if all machines that are bought are of one instance
	// type; nil if none of the types that were planned holds all pods, or the audit was stopped. The
	// nodes in Staying are in it.
	Homogeneous *Bill `json:"homogeneous,omitempty"`
	// Cheapest is the bill of the cheapest machines found.
	Cheapest Bill `json:"cheapest"`
	// Bound is a lower bound of the price of any machines for the pods, given the nodes that stay.
	Bound dollars.Amount `json:"lowerBoundPerHour"`
	// Moves is the number of pods that move for Moved, and Emptied are the sorted names of the
	// nodes that are released.
	Moves   int      `json:"moves"`
	Emptied []string `json:"emptied"`
	// PlannedPods is the number of pods that machines are planned for: those on priced nodes, without those of DaemonSets
	// and static pods. MilliCPU is the CPU that they request, and Pending is the number of pods without a node.
	PlannedPods int   `json:"plannedPods"`
	MilliCPU    int64 `json:"-"`
	Pending     int   `json:"pending"`
	// HeldPods is the number of planned pods that may not be moved now.
	HeldPods int `json:"heldPods"`
	// ByNamespace divides Now by namespace, and ByLabel by the values of Input.ByLabel; nil without one.
	ByNamespace Allocation  `json:"byNamespace"`
	ByLabel     *Allocation `json:"byLabel,omitempty"`
	// Requested is how full the priced nodes are, and Used is how much of the measured ones is in use; nil if none
	// is measured.
	Requested Shares  `json:"requested"`
	Used      *Shares `json:"used,omitempty"`
	// Unpriced are the nodes without a known price, and Staying are the nodes that remain in any
	// purchase, both sorted by name.
	Unpriced []Stay `json:"unpriced"`
	Staying  []Stay `json:"staying"`
	// Obstacles are the obstacles of pods on priced nodes, the most expensive first.
	Obstacles []Cost `json:"obstacles"`
	// Worst are the nodes with the highest price of idle room.
	Worst []Worst `json:"worst"`
	// Stopped reports whether Input.Stop ended the audit early.
	Stopped bool `json:"incomplete,omitempty"`
}

// Stay is a node, and why it is in no figure or in every purchase.
type Stay struct {
	Node         string `json:"node"`
	InstanceType string `json:"instanceType,omitempty"`
	Reason       string `json:"reason"`
}

// Audit computes all figures. It does not modify its input. The result does not depend on the order
// of nodes, unless it is stopped.
//
// Cost: some rounds of [decide.Fleet] without purchases, one plan of [planner.Supercargo] and up to
// 4 with one instance type each, and one more of the first two for each obstacle whose cost is
// computed.
func Audit(in Input) Result {
	c := newScene(in)
	r := Result{
		Source: in.Source, Unsold: in.Unsold, Pricing: jsondoc.List(in.Pricing), Notes: jsondoc.List(in.Notes), Pending: in.Pending, Unpriced: jsondoc.List(c.unpriced),
		Nodes: len(in.Nodes), PricedNodes: len(c.nodes), PricedPods: allPods(c.nodes), Pods: allPods(in.Nodes),
	}
	r.Requested, r.Used = fullness(c.nodes)
	r.PlannedPods, r.MilliCPU = c.pods()
	r.HeldPods = c.held()
	r.Now = c.now()
	r.ByNamespace = c.allocation("namespace", func(q *Request) string { return q.Namespace })
	if in.ByLabel != "" {
		r.ByLabel = new(c.allocation("label "+in.ByLabel, func(q *Request) string { return q.Label }))
	}
	var after moved
	var mix mix
	each(2, func(i int) {
		if i == 0 {
			after = c.move(nil)
		} else {
			mix = c.buy(nil)
		}
	})
	r.Moved, r.Moves, r.Emptied = after.bill, after.moves, jsondoc.List(after.emptied)
	r.Staying = jsondoc.List(mix.staying)
	switch one, found, missing := c.homogeneous(&mix); {
	case found:
		r.Homogeneous = &one
		mix.bill = cheapest(mix.bill, one)
	case missing != "":
		r.Notes = append(slices.Clip(r.Notes), missing)
	}
	r.Cheapest = cheapest(mix.bill, r.Moved, r.Now)
	r.Bound = min(mix.bound, r.Cheapest.PerHour)
	r.Obstacles = c.obstacles(after, mix, r.Now.PerHour)
	r.Worst = c.worst(after)
	r.Stopped = c.stopped()
	return r
}

// cheapest returns the first of the cheapest bills: the planner is a heuristic and may miss that
// the current machines are cheapest.
func cheapest(bills ...Bill) Bill {
	return slices.MinFunc(bills, func(a, b Bill) int { return cmp.Compare(a.PerHour, b.PerHour) })
}

// scene is a sorted input.
type scene struct {
	in       Input
	nodes    []Node // with a price, by name
	others   []Node // without a price
	unpriced []Stay
	at       map[string]int // index in nodes, by the name of a pod
	// largest are the pods of nodes by descending size, then name: in the order of the planner, which
	// then need not sort them for each plan.
	largest []placed
}

// placed is a pod, and the index of its node in scene.nodes.
type placed struct {
	*cluster.Pod
	at int
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
	for i := range c.nodes {
		for j := range c.nodes[i].Pods {
			c.largest = append(c.largest, placed{&c.nodes[i].Pods[j], i})
		}
	}
	slices.SortFunc(c.largest, func(a, b placed) int {
		return packing.LargestFirst(packing.Item{Name: a.Name, Size: a.Size}, packing.Item{Name: b.Name, Size: b.Size})
	})
	c.in.Flavors = slices.Clone(in.Flavors)
	slices.SortFunc(c.in.Flavors, func(a, b Flavor) int { return cmp.Compare(a.Name, b.Name) })
	c.in.Obstacles = slices.Clone(in.Obstacles)
	slices.SortFunc(c.in.Obstacles, func(a, b Obstacle) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
	return c
}

func (c *scene) stopped() bool { return c.in.Stop != nil && c.in.Stop() }

// allPods returns the number of all pods on nodes.
func allPods(nodes []Node) (n int) {
	for i := range nodes {
		n += int(nodes[i].AllPods)
	}
	return n
}

// pods returns the number of pods on priced nodes and the CPU that they request, without DaemonSet
// pods and static pods.
func (c *scene) pods() (n int, milliCPU int64) {
	for i := range c.nodes {
		n += len(c.nodes[i].Pods)
		milliCPU += c.nodes[i].Used().MilliCPU
	}
	return n, milliCPU
}

// held returns the number of pods on priced nodes that may not be moved now.
func (c *scene) held() (n int) {
	for i := range c.nodes {
		for _, p := range c.nodes[i].Pods {
			if leave(&p, nil); p.Fixed {
				n++
			}
		}
	}
	return n
}

// now returns the current bill.
func (c *scene) now() Bill { return billOf(c.nodes) }

// billOf returns the bill of nodes. The counts are sorted by instance type, architecture, capacity type, then price.
func billOf(nodes []Node) Bill {
	var b Bill
	for i := range nodes {
		b.addNode(&nodes[i])
	}
	return b.sorted()
}

func (b *Bill) addNode(n *Node) {
	b.add(Count{InstanceType: n.InstanceType, Arch: n.Arch, CapacityType: n.CapacityType}, n.MicroDollarsPerHour, n.Capacity.MilliCPU)
}

// add adds one machine.
func (b *Bill) add(of Count, microDollars, milliCPU int64) {
	of.PricePerHour = dollars.Amount(microDollars)
	b.PerHour, b.PerMonth, b.MilliCPU = b.PerHour+of.PricePerHour, b.PerMonth+HoursPerMonth*of.PricePerHour, b.MilliCPU+milliCPU
	b.Nodes++
	at := slices.IndexFunc(b.Machines, func(c Count) bool { c.Count = 0; return c == of })
	if at < 0 {
		at = len(b.Machines)
		b.Machines = append(b.Machines, of)
	}
	b.Machines[at].Count++
}

func (b Bill) sorted() Bill {
	b.Machines = jsondoc.List(b.Machines)
	slices.SortFunc(b.Machines, func(x, y Count) int {
		return cmp.Or(cmp.Compare(x.InstanceType, y.InstanceType), cmp.Compare(x.Arch, y.Arch), cmp.Compare(x.CapacityType, y.CapacityType),
			cmp.Compare(x.PricePerHour, y.PricePerHour))
	})
	return b
}
