package audit

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
)

// Cost is an obstacle and its cost.
type Cost struct {
	Kind, Subject, Advice string
	// Pods is the number of pods that have it, Nodes is the number of priced nodes that these are
	// on, and At is the total price of these nodes.
	Pods, Nodes int
	At          int64
	// ByMoving reports whether it prevents pods from being moved: without it, moves alone would
	// save Saves more. Otherwise it restricts where pods may run, and the cheapest machines would
	// cost Saves less.
	ByMoving bool
	Saves    int64
	// Known reports whether Saves was computed; see Input.MostObstacles.
	Known bool
}

// obstacles returns the obstacles sorted by cost. Those without a computed cost come last, by the
// price of their nodes. A cost is at least 0, because the previous plan remains possible.
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
		case len(p.of.Ways) > 0: // otherwise something else holds all of them
			p.Saves = max(0, before.bill.MicroDollarsPerHour-c.move(p.of.Ways).bill.MicroDollarsPerHour)
		}
		p.Known = !c.stopped() // a stopped computation may have missed savings
	})
	costs := make([]Cost, len(all))
	for i := range all {
		costs[i] = all[i].Cost
	}
	slices.SortStableFunc(costs, func(a, b Cost) int { return cmp.Compare(b.Saves, a.Saves) })
	return costs
}

// mostAtOnce is the maximum number of concurrent computations: each needs memory for all pods.
const mostAtOnce = 4

// each calls do for 0 to n-1, several at a time.
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
