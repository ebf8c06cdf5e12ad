package audit

import (
	"cmp"
	"runtime"
	"slices"
	"sync"

	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/internal/text/dollars"
)

// Cost is an obstacle and its cost.
type Cost struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Advice  string `json:"advice"`
	// Pods is the number of pods that have it, Nodes is the number of priced nodes that these are
	// on, and NodesPerHour is the total price of these nodes.
	Pods         int            `json:"pods"`
	Nodes        int            `json:"nodes"`
	NodesPerHour dollars.Amount `json:"nodesPerHour"`
	// Lowers is the bill that is lower without it: [LowersMoved] if it prevents pods from being moved, and
	// [LowersCheapest] if it restricts where pods may run.
	Lowers string `json:"lowers"`
	// SavesPerHour is the difference; nil if it was not computed, see Input.MostObstacles.
	SavesPerHour *dollars.Amount `json:"savesPerHour,omitempty"`
}

// The bills that an obstacle may prevent from being lower.
const (
	LowersMoved    = "moved"
	LowersCheapest = "cheapest"
)

// obstacles returns the obstacles sorted by cost. Those without a computed cost come last, by the
// price of their nodes. A cost is at least 0, because the previous plan remains possible.
func (c *scene) obstacles(before moved, cheapest mix, now dollars.Amount) []Cost {
	type pair struct {
		Cost
		of *Obstacle
	}
	var all []pair
	for i := range c.in.Obstacles {
		o := &c.in.Obstacles[i]
		p := pair{Cost{Kind: o.Kind, Subject: o.Subject, Advice: o.Advice, Lowers: LowersMoved}, o}
		if o.Demands != nil {
			p.Lowers = LowersCheapest
		}
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
			p.NodesPerHour += dollars.Amount(c.nodes[at].MicroDollarsPerHour)
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(b.NodesPerHour, a.NodesPerHour) })
	var chosen []*pair
	tried := map[string]int{}
	for i := range all {
		if p := &all[i]; tried[p.Lowers] < c.in.MostObstacles {
			tried[p.Lowers]++
			chosen = append(chosen, p)
		}
	}
	base := min(cheapest.bill.PerHour, now)
	each(len(chosen), func(i int) {
		p := chosen[i]
		if c.stopped() {
			return
		}
		var saves dollars.Amount
		switch {
		case p.Lowers == LowersCheapest:
			saves = max(0, base-c.buy(p.of.Demands).bill.PerHour)
		case len(p.of.Ways) > 0: // otherwise something else holds all of them
			saves = max(0, before.bill.PerHour-c.move(p.of.Ways).bill.PerHour)
		}
		if !c.stopped() { // a stopped computation may have missed savings
			p.SavesPerHour = &saves
		}
	})
	costs := make([]Cost, len(all))
	for i := range all {
		costs[i] = all[i].Cost
	}
	slices.SortStableFunc(costs, func(a, b Cost) int { return cmp.Compare(ptr.Deref(b.SavesPerHour, 0), ptr.Deref(a.SavesPerHour, 0)) })
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
