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

// Affordable returns those of the drains after which no more pods are expected to wait
// at the end of a forecast than without them, each beside those before it. None is,
// before arrivals have been watched for the length of a forecast.
//
// Cost: a forecast for each drain.
func Affordable(s *cluster.State, drains []cluster.Drain) []cluster.Drain {
	if len(drains) == 0 || s.Observed < horizon(s) {
		return nil
	}
	waiting := len(newForecast(s, horizon(s), nil).run())
	var kept []cluster.Drain
	for _, d := range drains {
		after := drained(s, d)
		if len(newForecast(after, horizon(s), nil).run()) <= waiting {
			kept = append(kept, d)
			s = after
		}
	}
	return kept
}

// drained is the cluster after a drain.
func drained(s *cluster.State, d cluster.Drain) *cluster.State {
	after := *s
	after.Nodes = slices.Clone(s.Nodes)
	at := func(name string) *cluster.Node {
		return &after.Nodes[slices.IndexFunc(after.Nodes, func(n cluster.Node) bool { return n.Name == name })]
	}
	from := at(d.Node)
	for _, m := range d.Moves {
		to := at(m.Target)
		pod := from.Pods[slices.IndexFunc(from.Pods, func(p cluster.Pod) bool { return p.Name == m.Pod })]
		to.Pods = append(slices.Clip(to.Pods), pod)
	}
	after.Nodes = slices.DeleteFunc(after.Nodes, func(n cluster.Node) bool { return n.Name == d.Node })
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
	for _, d := range drains {
		s = drained(s, d)
	}
	var empty []*cluster.Node
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Phase == cluster.Ready && len(n.Pods) == 0 && endsPeriod(s, n) {
			empty = append(empty, n)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	slices.SortStableFunc(empty, func(a, b *cluster.Node) int {
		return cmp.Compare(b.MicroDollarsPerHour, a.MicroDollarsPerHour)
	})
	waiting := func(n int) int {
		gone := make(map[string]bool, n)
		for _, e := range empty[:n] {
			gone[e.Name] = true
		}
		return len(newForecast(s, horizon(s), gone).run())
	}
	with := waiting(0)
	spare := sort.Search(len(empty), func(n int) bool { return waiting(n+1) > with })
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
	if s.BillingPeriod <= s.SchedulingInterval {
		return true
	}
	periods := func(age time.Duration) int64 { return int64((age + s.Release + s.BillingPeriod - 1) / s.BillingPeriod) }
	return periods(n.Age) != periods(n.Age+s.SchedulingInterval)
}
