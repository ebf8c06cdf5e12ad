package fleetdecide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/moves"
)

// consolidate accepts as many of the mover's proposals as are allowed. The pending pods of s are those that will run here.
//
// A node that has room for such a pod now is kept: the scheduler may be about to bind the pod to it. While any such pod
// is pending, nothing is moved: it may need the room that moved pods take.
func (d *FleetDecision) consolidate(s *cluster.State, o FleetOptions, proposed cluster.Plan) {
	nodes := make(map[string]*cluster.Node, len(s.Nodes))
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	spare := make(map[string]int, len(o.Spare))
	for flavor, n := range o.Spare {
		spare[flavor] = n
	}
	taken := 0
	bound := func(n *cluster.Node, reason v1alpha1.FleetBudgetReason) string {
		left, why := o.left(reason, taken)
		if left > 0 {
			why = ""
		}
		return cmp.Or(why, d.bound(n, spare))
	}
	may := func(n *cluster.Node, reason v1alpha1.FleetBudgetReason) bool {
		if bound(n, reason) != "" {
			return false
		}
		taken++
		spare[n.Flavor]--
		return true
	}
	if o.Empty {
		d.release(s, d.unused(s, nodes, proposed.Release), func(n *cluster.Node) bool {
			if a, is := o.Allowed[v1alpha1.BudgetEmpty]; is && a.Machines <= taken {
				d.stays(n.Name, a.Why)
				return false
			}
			return may(n, v1alpha1.BudgetEmpty)
		})
	} else {
		for _, release := range proposed.Release {
			d.stays(release.Node, "it is empty, and spec.consolidation.policy is Never")
		}
	}
	if len(s.Pending) > 0 || len(d.Plan.Machines) > 0 {
		for _, drain := range proposed.Drains {
			d.stays(drain.Node, "pending pods may need the room that its pods would take")
		}
		return
	}
	d.drain(s, o, proposed.Drains, nodes, may, bound)
	d.replace(s, &o, nodes, spare, taken)
	if budget, _ := o.left(v1alpha1.BudgetExchange, taken); d.Exchange == nil && o.UnderUsed && budget > 0 && o.Exhausted == "" && !d.limited() {
		o.Spare = spare // minus what is released and drained
		d.exchange(s, o, budget)
	}
}

// drain accepts those of the proposed drains that are allowed, and records why the other machines stay. may counts a machine
// that goes, and bound is why it may not.
func (d *FleetDecision) drain(s *cluster.State, o FleetOptions, proposed []cluster.Drain, nodes map[string]*cluster.Node,
	may func(*cluster.Node, v1alpha1.FleetBudgetReason) bool, bound func(*cluster.Node, v1alpha1.FleetBudgetReason) string) {
	for _, drain := range proposed {
		n := nodes[drain.Node]
		switch wait := paidFor(s, n) - lastCall(s) - drain.Until; {
		case !o.UnderUsed:
			d.stays(drain.Node, "spec.consolidation.policy does not allow releasing a machine with pods")
		case wait >= 0:
			d.wake(wait + 1)
			d.stays(drain.Node, fmt.Sprintf("its pods have room elsewhere, but its billing period has not ended: it is emptied in %v at the earliest", wait.Round(time.Second)))
		case may(n, v1alpha1.BudgetUnderUsed):
			d.Drains = append(d.Drains, drain)
		default:
			d.stays(drain.Node, bound(n, v1alpha1.BudgetUnderUsed))
		}
	}
}

// replace begins to replace one machine that must go, the most urgent for which that is possible, and none while machines
// are on order. Where the flavor has no more than its minimum, another machine of it is bought, even if no pod needs it.
func (d *FleetDecision) replace(s *cluster.State, o *FleetOptions, nodes map[string]*cluster.Node, spare map[string]int, taken int) {
	if len(o.Replace) == 0 || slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool { return n.Phase == cluster.Ordered }) {
		return
	}
	planned := cluster.Plan{Release: d.Release, Drains: d.Drains}
	buy := buyer(s, *o, purchase.MixOptions{Effort: exchangeEffort, Setup: s.Lag, Period: s.BillingPeriod})
	for _, m := range o.Replace {
		n := nodes[m.Node]
		if n == nil || d.goes(m.Node) {
			continue
		}
		left, why := o.left(m.Reason, taken)
		if left > 0 {
			var e cluster.Exchange
			if e, why = moves.Replace(s, o.exchange(0, planned), m.Node, buy); why == "" {
				why = d.keepMinimum(s, o, n, &e, spare)
			}
			if why == "" {
				e.Reason = m.Why + ": " + e.Reason
				d.Exchange = &e
				return
			}
		}
		d.stays(m.Node, fmt.Sprintf("it is to be replaced, because %s. But it stays: %s", m.Why, why))
	}
}

// goes reports whether a node is released or drained in this round.
func (d *FleetDecision) goes(node string) bool {
	return slices.ContainsFunc(d.Release, func(r cluster.Release) bool { return r.Node == node }) ||
		slices.ContainsFunc(d.Drains, func(drain cluster.Drain) bool { return drain.Node == node })
}

// keepMinimum adds a machine to an exchange of a node whose flavor would otherwise have fewer than its minimum. It returns why
// the exchange is not possible, or "".
func (d *FleetDecision) keepMinimum(s *cluster.State, o *FleetOptions, n *cluster.Node, e *cluster.Exchange, spare map[string]int) string {
	same := func(p cluster.Purchase) bool { return p.Flavor == n.Flavor }
	if spare[n.Flavor] <= 0 && !slices.ContainsFunc(e.Buy, same) {
		sold := slices.ContainsFunc(s.Flavors, func(f cluster.Flavor) bool { return f.Name == n.Flavor && f.Sells(1) })
		if !sold {
			return "flavor " + n.Flavor + " has its minimum number of machines, and no other can be bought"
		}
		e.Buy = append(e.Buy, cluster.Purchase{Flavor: n.Flavor, Class: o.Class, Reason: "replaces " + n.Name})
	}
	return ""
}

// left returns how many more machines may be drained or released for a reason if so many are already chosen, and the limit
// that allows no more.
func (o *FleetOptions) left(reason v1alpha1.FleetBudgetReason, taken int) (n int, why string) {
	n, why = o.Budget, "spec.consolidation.maxUnavailable is reached"
	if a, is := o.Allowed[reason]; is && a.Machines < n {
		n, why = a.Machines, a.Why
	}
	return n - taken, why
}

// bound returns why a node may not be released although the budgets allow it, or "", given the spare machines of each
// flavor.
func (d *FleetDecision) bound(n *cluster.Node, spare map[string]int) string {
	switch {
	case spare[n.Flavor] <= 0:
		return "flavor " + n.Flavor + " has its minimum number of machines"
	case d.roomy[n.Name]:
		return "it seems to have room for a pending pod"
	}
	return ""
}

// stays records why a node is kept that could have been released.
func (d *FleetDecision) stays(node, why string) {
	d.Kept = append(d.Kept, cluster.Stay{Node: node, Reason: why})
}

// unused returns the empty nodes that no pod will take now.
func (d *FleetDecision) unused(s *cluster.State, nodes map[string]*cluster.Node, proposed []cluster.Release) []*cluster.Node {
	assigned := map[string]bool{}
	for _, a := range d.Plan.Assignments {
		assigned[a.Machine] = assigned[a.Machine] || a.Waits
	}
	var empty []*cluster.Node
	for _, r := range proposed {
		if n := nodes[r.Node]; !assigned[n.Name] && !wanted(n, s.Pending) {
			empty = append(empty, n)
		}
	}
	return empty
}

// slack is the maximum time before the end of a billing period at which a machine is released, so that it is gone when
// the next period begins.
const slack = 10 * time.Second

// paidFor returns how much longer the release of a machine may wait without a greater bill; 0 if every moment is
// billed.
func paidFor(s *cluster.State, n *cluster.Node) time.Duration {
	if s.BillingPeriod <= 0 {
		return 0
	}
	given := n.Age + s.Release
	periods := max(1, (given+s.BillingPeriod-1)/s.BillingPeriod)
	return periods*s.BillingPeriod - given
}

// endsPeriod reports whether a machine that is not released now may be billed for another period.
func endsPeriod(s *cluster.State, n *cluster.Node) bool {
	return paidFor(s, n) < lastCall(s)
}

// lastCall returns how long before the end of a billing period machines are released: long enough not to miss the end,
// and no longer than until the next round of the fleet.
func lastCall(s *cluster.State) time.Duration { return max(min(slack, s.SchedulingInterval), 1) }

// release decides which of the empty machines that may go are released.
//
// A machine in its paid time stays, because that costs nothing. After that, keeping it costs money, but replacing it
// costs the start-up time and the release time of another machine. So the machines that will be used within that time
// are kept: without them, more pods would be pending at the end of a forecast of Lag and Release, in which pods arrive
// as [steady] returns them, than with them. Of the others, the most expensive go first; ties by name.
//
// Cost: O(log n) forecasts for n empty machines.
func (d *FleetDecision) release(s *cluster.State, empty []*cluster.Node, may func(*cluster.Node) bool) {
	slices.SortStableFunc(empty, func(a, b *cluster.Node) int {
		return cmp.Compare(b.MicroDollarsPerHour, a.MicroDollarsPerHour)
	})
	ending := slices.DeleteFunc(slices.Clone(empty), func(n *cluster.Node) bool { return !endsPeriod(s, n) })
	for _, n := range ending[:unmissed(s, ending)] {
		if may(n) {
			d.Release = append(d.Release, cluster.Release{Node: n.Name, Reason: whyReleased(s, n)})
		}
	}
	for _, n := range empty {
		if wait := paidFor(s, n) - lastCall(s); wait >= 0 {
			d.wake(wait + 1)
		}
	}
}

// wake decides again after at most that time.
func (d *FleetDecision) wake(after time.Duration) {
	if d.Wake == 0 || after < d.Wake {
		d.Wake = after
	}
}

// unmissed returns how many of the machines, counted from the first, will not be needed before others could replace
// them.
func unmissed(s *cluster.State, empty []*cluster.Node) int {
	if len(empty) == 0 {
		return 0
	}
	known := *s
	known.Recent = steady(s, nil)
	return mostMissed(len(empty), func(n int) int {
		without := make(map[string]bool, n)
		for _, e := range empty[:n] {
			without[e.Name] = true
		}
		return len(newForecast(&known, again(s), without).run())
	})
}

// again returns how long a replacement of a released machine is billed beyond the time in which it is used.
func again(s *cluster.State) time.Duration { return sum(max(s.Lag, 0), max(s.Release, 0)) }

// mostMissed returns the greatest n up to limit for which no more pods are pending than for 0. waiting must not
// decrease with n. The limit is tried first, because it usually holds.
func mostMissed(limit int, waiting func(n int) int) int {
	with := waiting(0)
	if waiting(limit) <= with {
		return limit
	}
	return sort.Search(limit-1, func(n int) bool { return waiting(n+1) > with })
}

// whyReleased describes what a machine costs and what a replacement would cost.
func whyReleased(s *cluster.State, n *cluster.Node) string {
	text, another := "it is empty", ""
	if n.MicroDollarsPerHour > 0 {
		text += fmt.Sprintf(" and costs $%.4f/h", float64(n.MicroDollarsPerHour)/1e6)
		another = fmt.Sprintf(", and starting another machine would cost $%.6f", float64(cluster.Bill(n.MicroDollarsPerHour, again(s), 0))/1e6)
	}
	if s.BillingPeriod > 0 {
		text += fmt.Sprintf(", billed for %v at a time", s.BillingPeriod)
	}
	return text + fmt.Sprintf("; without it, no more pods are expected to wait within %v", again(s)) + another
}

// exchange chooses the allowed exchange of machines that saves most. It starts one exchange at a time, and none while
// machines are on order.
func (d *FleetDecision) exchange(s *cluster.State, o FleetOptions, budget int) {
	for i := range s.Nodes {
		if s.Nodes[i].Phase == cluster.Ordered {
			return
		}
	}
	config := o.exchange(budget, cluster.Plan{Release: d.Release, Drains: d.Drains})
	priced := *s
	priced.Flavors = expectedCosts(s)
	proposed := moves.Exchanges(&priced, config, buyer(s, o, purchase.MixOptions{Effort: exchangeEffort, Setup: s.Lag, Period: s.BillingPeriod}))
	flavorOf, nodes := make(map[string]string, len(s.Nodes)), make(map[string]*cluster.Node, len(s.Nodes))
	for i := range s.Nodes {
		flavorOf[s.Nodes[i].Name], nodes[s.Nodes[i].Name] = s.Nodes[i].Flavor, &s.Nodes[i]
	}
	for e := range proposed {
		if early := paidBeyond(s, &e, nodes); early > longPaid {
			d.wake(early - longPaid)
			continue
		}
		gone, allowed := map[string]int{}, true
		for _, node := range e.Nodes {
			gone[flavorOf[node]]++
			allowed = allowed && gone[flavorOf[node]] <= o.Spare[flavorOf[node]]
		}
		if allowed {
			d.Exchange = &e
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

// expectedCosts returns the flavors at what their machines are expected to cost while the pods on the nodes run on them: an
// exchange does not save what interruptions are expected to cost.
func expectedCosts(s *cluster.State) []cluster.Flavor {
	if !slices.ContainsFunc(s.Flavors, func(f cluster.Flavor) bool { return f.Interruptions > 0 }) {
		return s.Flavors
	}
	var pods []purchase.Pod
	for i := range s.Nodes {
		for j := range s.Nodes[i].Pods {
			pods = append(pods, purchase.PodOf(&s.Nodes[i].Pods[j]))
		}
	}
	flavors := purchase.AtExpectedCost(s.Flavors, pods, mixOptions(s))
	for i := range flavors {
		flavors[i].Interruptions = 0 // else it would be counted twice
	}
	return flavors
}

// exchangeEffort bounds the search for one plan, because an exchange needs many small plans.
const exchangeEffort = 400_000

// buyer plans the machines of an exchange like those for pending pods.
func buyer(s *cluster.State, o FleetOptions, options purchase.MixOptions) moves.Buyer {
	common := o.request(s, nil, nil, nil, options)
	return func(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) ([]cluster.Purchase, []cluster.Move, bool) {
		r := common
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
