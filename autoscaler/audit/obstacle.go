package audit

import (
	"cmp"
	"slices"
)

// Cost is an obstacle and what it costs.
type Cost struct {
	Kind, Subject, Advice string
	// Pods is how many pods have it, Nodes on how many priced nodes they are, and At what these
	// nodes cost together.
	Pods, Nodes int
	At          int64
	// ByMoving says that it keeps pods from being moved: without it, moves alone would save Saves
	// more. Otherwise it is about where pods may be, and the cheapest machines would cost Saves less.
	ByMoving bool
	Saves    int64
	// Known says that Saves was worked out; see Input.MostObstacles.
	Known bool
}

// obstacles returns what obstacles cost, ordered by that; those that are not worked out come last, by
// the price of the nodes. The plan before is taken at its best: no obstacle costs less than nothing.
func (c *scene) obstacles(before moved, cheapest mix, now int64) []Cost {
	type pair struct {
		Cost
		of *Obstacle
	}
	var all []pair
	for i := range c.in.Obstacles {
		o := &c.in.Obstacles[i]
		p := pair{Cost{Kind: o.Kind, Subject: o.Subject, Advice: o.Advice, ByMoving: o.Demands == nil}, o}
		nodes := map[int]bool{}
		for _, pod := range o.Pods {
			if at, is := c.at[pod]; is {
				p.Pods++
				nodes[at] = true
			}
		}
		if p.Nodes = len(nodes); p.Nodes == 0 {
			continue
		}
		for at := range nodes {
			p.At += c.nodes[at].MicroDollarsPerHour
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(b.At, a.At) })
	tried := map[bool]int{}
	base := min(cheapest.bill.MicroDollarsPerHour, now)
	for i := range all {
		p := &all[i]
		if tried[p.ByMoving] == c.in.MostObstacles || c.stopped() {
			continue
		}
		tried[p.ByMoving]++
		p.Known = true
		switch {
		case !p.ByMoving:
			p.Saves = max(0, base-c.buy(p.of.Demands).bill.MicroDollarsPerHour)
		case len(p.of.Ways) > 0: // else something else holds them all the same
			p.Saves = max(0, before.bill.MicroDollarsPerHour-c.move(p.of.Ways).bill.MicroDollarsPerHour)
		}
	}
	costs := make([]Cost, len(all))
	for i := range all {
		costs[i] = all[i].Cost
	}
	slices.SortStableFunc(costs, func(a, b Cost) int { return cmp.Compare(b.Saves, a.Saves) })
	return costs
}
