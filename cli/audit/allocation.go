package audit

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// Request is what pods of one namespace and label value request together on a node.
type Request struct {
	Namespace, Label string
	Pods             int
	packing.Size
}

// Allocation divides the bill over groups of pods. Half of a node's price is divided by requested CPU, and half by
// requested memory: a pod that requests a tenth of a node's CPU and three tenths of its memory pays a fifth of the
// node. What no pod requests is idle. If pods request more of a node than it has, they share its whole price. Parts and
// Idle add up to the bill.
type Allocation struct {
	// By is what groups pods: namespace, or label and its key.
	By string `json:"by"`
	// Parts are the groups with pods on any node, the most expensive first, ties by name.
	Parts []Part `json:"parts"`
	// Idle is the price of what no pod requests. A fraction of a micro-dollar of a part counts as idle.
	Idle dollars.Amount `json:"idleDollarsPerHour"`
}

// Part is the cost of a group of pods.
type Part struct {
	// Name is the namespace or the value of the label; empty for pods without the label.
	Name string `json:"name"`
	// Pods is the number of its pods on priced nodes, which the cost is for, and UnpricedPods of those on other nodes.
	Pods         int            `json:"pods"`
	UnpricedPods int            `json:"unpricedPods,omitempty"`
	PerHour      dollars.Amount `json:"dollarsPerHour"`
	PerMonth     dollars.Amount `json:"dollarsPerMonth"`
}

// allocation divides the bill over groups of pods.
func (c *scene) allocation(by string, group func(*Request) string) Allocation {
	a := Allocation{By: by}
	parts := map[string]*Part{}
	of := func(name string) *Part {
		if parts[name] == nil {
			parts[name] = &Part{Name: name}
		}
		return parts[name]
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		left := dollars.Amount(n.MicroDollarsPerHour)
		groups := grouped(n.Requests, group)
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			r := groups[name]
			pays := min(left, n.share(r.Size))
			left -= pays
			p := of(name)
			p.Pods, p.PerHour = p.Pods+r.Pods, p.PerHour+pays
		}
		a.Idle += left
	}
	for i := range c.others {
		for name, r := range grouped(c.others[i].Requests, group) {
			of(name).UnpricedPods += r.Pods
		}
	}
	for _, p := range parts {
		p.PerMonth = HoursPerMonth * p.PerHour
		a.Parts = append(a.Parts, *p)
	}
	slices.SortFunc(a.Parts, func(x, y Part) int { return cmp.Or(cmp.Compare(y.PerHour, x.PerHour), cmp.Compare(x.Name, y.Name)) })
	a.Parts = jsondoc.List(a.Parts)
	return a
}

// grouped sums requests by group.
func grouped(all []Request, group func(*Request) string) map[string]Request {
	sums := map[string]Request{}
	for i := range all {
		name := group(&all[i])
		sum := sums[name]
		sum.Pods, sum.Size = sum.Pods+all[i].Pods, plus(sum.Size, all[i].Size)
		sums[name] = sum
	}
	return sums
}

// share returns the part of a node's price that requests of this size pay, rounded down.
func (n *Node) share(s packing.Size) dollars.Amount {
	cpu := Share(s.MilliCPU, max(n.Whole.MilliCPU, n.Requested.MilliCPU))
	memory := Share(s.MemoryBytes, max(n.Whole.MemoryBytes, n.Requested.MemoryBytes))
	return dollars.Amount(math.Floor(float64(n.MicroDollarsPerHour) * (cpu + memory) / 2))
}
