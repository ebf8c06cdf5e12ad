package decide

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
)

// LookAhead buys for the pods that a forecast leaves waiting, of those that wait
// now and of those expected to come before a machine bought now could be ready. The
// forecast goes on for one round of buying after that moment: who finds room by
// then, as jobs end or on the machines just chosen, needs no machine of its own. It
// buys nothing between rounds.
//
// Services come first, on machines that take both classes: they stay, so that
// their machines are kept, and batch pods fill what they leave. The machines for
// batch pods take those alone, and empty.
//
// Each machine is chosen by packing all pods that still wait at the end of the
// forecast, also those too late to ask for a machine themselves: while work goes on
// coming, a machine that serves it at the best price is better than a small one that fits the
// first few pods. As many machines are chosen at a time as an eighth of what all of
// them would need, then the forecast is made anew with them.
//
// Cost: that of a forecast (see forecast) for about every eighth of the machines bought.
func LookAhead(s *cluster.State) []cluster.Purchase {
	if !s.Scaling {
		return nil
	}
	p := purchase{state: *s}
	p.state.Nodes = slices.Clone(s.Nodes)
	p.choose(class.Service, class.Any, planner.Services)
	p.choose(class.Batch, class.Batch, planner.Batch)
	return p.bought
}

// purchase is a round of buying. Its state has the machines bought so far on order.
type purchase struct {
	state  cluster.State
	bought []cluster.Purchase
}

// choose buys machines of a class for pods of a class until none waits that may ask
// for one.
func (p *purchase) choose(pod, machine class.Class, order planner.Order) {
	for {
		room := left(&p.state)
		if room == 0 {
			return
		}
		waiting := newForecast(&p.state, horizon(&p.state), nil).run()
		waiting = slices.DeleteFunc(waiting, func(w waiter) bool { return w.pod.Class != pod })
		if !slices.ContainsFunc(waiting, func(w waiter) bool { return w.since <= p.state.Lag }) {
			return
		}
		plan := planner.Greedy(plannable(waiting), flavors(&p.state), planner.Options{Order: order, MaxMachines: room})
		if len(plan.Machines) == 0 {
			return
		}
		plan.Machines = plan.Machines[:(len(plan.Machines)+7)/8]
		for _, m := range purchases(plan, machine) {
			p.add(m)
		}
	}
}

// plannable returns the pods as the planner takes them. A pod expected to come may
// stand for several; they get names of their own.
func plannable(waiting []waiter) []planner.Pod {
	all := make([]planner.Pod, len(waiting))
	for i, w := range waiting {
		all[i] = planner.Pod{Item: w.pod.Item, Arch: w.pod.Arch}
		if w.since > 0 {
			all[i].Name = fmt.Sprintf("%s (expected in %v)", w.pod.Name, w.since)
		}
	}
	return all
}

// add puts a machine on order.
func (p *purchase) add(m cluster.Purchase) {
	p.bought = append(p.bought, m)
	f := p.state.Flavors[slices.IndexFunc(p.state.Flavors, func(f cluster.Flavor) bool { return f.Name == m.Flavor })]
	p.state.Nodes = append(p.state.Nodes, cluster.Node{
		Name: fmt.Sprintf("bought-%06d", len(p.bought)), Flavor: f.Name, Class: m.Class, Capacity: f.Size, MaxPods: f.MaxPods, Arch: f.Arch,
		MicroDollarsPerHour: f.MicroDollarsPerHour, Phase: cluster.Ordered, Due: p.state.Lag,
	})
}

// horizon is how far a forecast looks: until machines bought in the next round would be
// ready.
func horizon(s *cluster.State) time.Duration { return s.Lag + s.ScalingInterval }

// Affordable returns as many of the drains, from the first on, as leave no more pods
// waiting at the end of a forecast than none of them would. None does, before
// arrivals have been watched for the length of a forecast.
//
// Cost: O(log n) forecasts for n drains.
func Affordable(s *cluster.State, drains []cluster.Drain) []cluster.Drain {
	if len(drains) == 0 || s.Observed < horizon(s) {
		return nil
	}
	return drains[:mostMissed(len(drains), func(n int) int {
		return len(newForecast(drained(s, drains[:n]), horizon(s), nil).run())
	})]
}

// mostMissed returns the greatest n up to the limit for which no more pods wait than
// for 0, if more going never lets fewer wait. All is tried first, as it is often so.
func mostMissed(limit int, waiting func(n int) int) int {
	with := waiting(0)
	if waiting(limit) <= with {
		return limit
	}
	return sort.Search(limit-1, func(n int) bool { return waiting(n+1) > with })
}

// drained is the cluster after the drains. Targets have the pods moved to them; pods that are
// waited for need no room.
func drained(s *cluster.State, drains []cluster.Drain) *cluster.State {
	if len(drains) == 0 {
		return s
	}
	after := *s
	after.Nodes = slices.Clone(s.Nodes)
	at := make(map[string]int, len(after.Nodes))
	for i := range after.Nodes {
		at[after.Nodes[i].Name] = i
	}
	gone := make(map[string]bool, len(drains))
	for _, d := range drains {
		from := &s.Nodes[at[d.Node]]
		gone[d.Node] = true
		for _, m := range d.Moves {
			if m.Method == cluster.Wait {
				continue // it ends on a node that takes no others
			}
			to := &after.Nodes[at[m.Target]]
			pod := from.Pods[slices.IndexFunc(from.Pods, func(p cluster.Pod) bool { return p.Name == m.Pod })]
			to.Pods = append(slices.Clip(to.Pods), pod)
		}
	}
	after.Nodes = slices.DeleteFunc(after.Nodes, func(n cluster.Node) bool { return gone[n.Name] })
	return &after
}

// Idle returns the empty machines that are expected not to be missed: without them
// and the drained nodes no more pods would wait at the end of a forecast than with
// them. The dearest go first, ties by name. A machine is given back at the last look before
// its next billing period begins, since until then it is paid for anyway, and none
// before arrivals have been watched for the length of a forecast.
//
// Cost: O(log n) forecasts for n empty machines.
func Idle(s *cluster.State, drains []cluster.Drain) []cluster.Release {
	if s.Observed < horizon(s) {
		return nil
	}
	s = drained(s, drains)
	var empty []*cluster.Node
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Phase == cluster.Ready && !n.Kept && len(n.Pods) == 0 && endsPeriod(s, n) {
			empty = append(empty, n)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	slices.SortStableFunc(empty, func(a, b *cluster.Node) int {
		return cmp.Compare(b.MicroDollarsPerHour, a.MicroDollarsPerHour)
	})
	spare := mostMissed(len(empty), func(n int) int {
		without := make(map[string]bool, n)
		for _, e := range empty[:n] {
			without[e.Name] = true
		}
		return len(newForecast(s, horizon(s), without).run())
	})
	gone := make([]cluster.Release, spare)
	for i := range gone {
		gone[i] = cluster.Release{
			Node:   empty[i].Name,
			Reason: fmt.Sprintf("it is empty, and the work expected within %v finds room without it", horizon(s)),
		}
	}
	return gone
}

// endsPeriod reports whether a machine that is given back at the next look, and not
// now, is paid for one billing period more.
func endsPeriod(s *cluster.State, n *cluster.Node) bool {
	if s.BillingPeriod <= 0 {
		return true
	}
	periods := func(age time.Duration) int64 {
		return max(1, int64((age+s.Release+s.BillingPeriod-1)/s.BillingPeriod))
	}
	return periods(n.Age) != periods(n.Age+s.SchedulingInterval)
}
