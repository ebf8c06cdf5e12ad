package audit

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
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
	var chosen []*pair
	tried := map[bool]int{}
	for i := range all {
		if p := &all[i]; tried[p.ByMoving] < c.in.MostObstacles {
			tried[p.ByMoving]++
			chosen = append(chosen, p)
		}
	}
	base := min(cheapest.bill.MicroDollarsPerHour, now)
	each(len(chosen), func(i int) {
		p := chosen[i]
		if c.stopped() {
			return
		}
		switch {
		case !p.ByMoving:
			p.Saves = max(0, base-c.buy(p.of.Demands).bill.MicroDollarsPerHour)
		case len(p.of.Ways) > 0: // else something else holds them all the same
			p.Saves = max(0, before.bill.MicroDollarsPerHour-c.move(p.of.Ways).bill.MicroDollarsPerHour)
		}
		p.Known = !c.stopped() // what was stopped may have missed much
	})
	costs := make([]Cost, len(all))
	for i := range all {
		costs[i] = all[i].Cost
	}
	slices.SortStableFunc(costs, func(a, b Cost) int { return cmp.Compare(b.Saves, a.Saves) })
	return costs
}

// mostAtOnce bounds how many figures are worked out at a time: each takes memory for all pods.
const mostAtOnce = 4

// each calls a function for 0 to n-1, some at a time.
func each(n int, do func(i int)) {
	var group sync.WaitGroup
	workers := min(mostAtOnce, runtime.GOMAXPROCS(0), n)
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				do(i)
			}
		})
	}
	group.Wait()
}
