package fleetdecide

import (
	"math"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/moves"
)

// exchange chooses the allowed exchange of machines that saves most. It starts one exchange at a time, and none while
// machines are on order.
func (d *FleetDecision) exchange(s *cluster.State, o FleetOptions, budget int) {
	for i := range s.Nodes {
		if s.Nodes[i].Phase == cluster.Ordered {
			return
		}
	}
	proposed := moves.Exchange(s, moves.ExchangeConfig{
		Method: cluster.Evict, MoveServices: o.MoveServices, Residence: o.Residence, PodResidence: o.PodResidence, Horizon: o.Horizon, Limit: budget, Patience: patienceWithLast,
		Planned: cluster.Plan{Release: d.Release, Drains: d.Drains},
	}, buyer(o, purchase.MixOptions{Effort: exchangeEffort, Setup: s.Lag, Period: s.BillingPeriod}))
	flavorOf, nodes := make(map[string]string, len(s.Nodes)), make(map[string]*cluster.Node, len(s.Nodes))
	for i := range s.Nodes {
		flavorOf[s.Nodes[i].Name], nodes[s.Nodes[i].Name] = s.Nodes[i].Flavor, &s.Nodes[i]
	}
	for i := range proposed {
		if early := paidBeyond(s, &proposed[i], nodes); early > longPaid {
			d.wake(early - longPaid)
			continue
		}
		gone, allowed := map[string]int{}, true
		for _, node := range proposed[i].Nodes {
			gone[flavorOf[node]]++
			allowed = allowed && gone[flavorOf[node]] <= o.Spare[flavorOf[node]]
		}
		if allowed {
			d.Exchange = &proposed[i]
			return
		}
	}
}

// longPaid is the maximum time for which machines may remain paid after their exchange. Longer paid time would be
// wasted, and the saving is the same later. With short billing periods it is not worth waiting until several of them
// end together.
const longPaid = time.Minute

// paidBeyond returns the time for which each machine of an exchange is paid after the exchange has ended.
func paidBeyond(s *cluster.State, e *cluster.Exchange, nodes map[string]*cluster.Node) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, node := range e.Nodes {
		least = min(least, paidFor(s, nodes[node])-lastCall(s)-e.Until)
	}
	return least
}

// exchangeEffort bounds the search for one plan, because an exchange needs many small plans.
const exchangeEffort = 400_000

// buyer plans the machines of an exchange like those for pending pods.
func buyer(o FleetOptions, options purchase.MixOptions) moves.Buyer {
	return func(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) ([]cluster.Purchase, []cluster.Move, bool) {
		r := purchase.Request{Limits: o.Limits, Stop: o.Stop, Options: options}
		classes := map[class.Class]bool{}
		for i := range pods {
			r.Pods = append(r.Pods, purchase.PodOf(&pods[i]))
			classes[pods[i].Class] = true
		}
		for i := range nodes {
			if n := &nodes[i]; n.Phase == cluster.Ready && takesAll(n, classes) {
				r.Nodes = append(r.Nodes, purchase.NodeOf(n, n.Free(), len(n.Pods)))
			}
		}
		if most > 0 {
			r.Flavors = onSale(flavors)
			r.Limits = r.Limits.And(cluster.Limits{Machines: new(int64(most))})
		}
		result := purchase.Supercargo(r)
		if len(result.Unplaceable) > 0 {
			return nil, nil, false
		}
		var moved []cluster.Move
		for _, a := range result.Assignments {
			if a.Waits {
				moved = append(moved, cluster.Move{Pod: a.Pod, Target: a.Machine})
			}
		}
		return purchases(result.Plan, o.Class), moved, true
	}
}

// purchases turns a plan into purchases for machines of the class.
func purchases(p purchase.Plan, c class.Class) []cluster.Purchase {
	all := make([]cluster.Purchase, len(p.Machines))
	for i, m := range p.Machines {
		all[i] = cluster.Purchase{Flavor: m.Flavor, Class: c, Pods: m.Pods, Reason: m.Reason}
	}
	return all
}
