package fleetdecide

import (
	"cmp"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Terms are the components of the dollars that a machine is expected to cost until it is empty again:
//
//	MicroDollars = MicroDollarsPerHour · Billed
//	Billed = Start + Busy, rounded up to billing periods
//
// The planner has chosen the machine by these numbers. For a machine that is not expected to become empty,
// [purchase.DefaultUnbounded] replaces Busy.
type Terms struct {
	// Flavor is the name of the flavor, MicroDollarsPerHour the price of one machine.
	Flavor              string
	MicroDollarsPerHour int64
	// Pods are the names of the pods that the machine is bought for.
	Pods []string
	// Start is how long the machine is billed before it accepts pods. Busy is the time from then until the last pod is
	// expected to have ended; 0 if the machine is not expected to become empty.
	Start, Busy time.Duration
	// Billed is how long the machine is billed.
	Billed time.Duration
	// MicroDollars is the resulting cost, rounded up.
	MicroDollars int64
}

// Unending reports whether the machine is not expected to become empty.
func (t *Terms) Unending() bool { return t.Busy <= 0 }

// TermsOf returns the terms of a machine bought for these pods, which start when it is ready. The options determine the
// billed time, as they did for the planner. A pod without a runtime is not expected to end.
func TermsOf(flavor string, microDollarsPerHour int64, pods []purchase.Pod, o purchase.MixOptions) Terms {
	t := Terms{Flavor: flavor, MicroDollarsPerHour: microDollarsPerHour, Start: max(o.Setup, 0)}
	unending := len(pods) == 0
	for i := range pods {
		p := &pods[i]
		t.Pods = append(t.Pods, p.Name)
		t.Busy, t.Billed = max(t.Busy, p.Runtime), max(t.Billed, o.Paid(p.Runtime))
		unending = unending || p.Runtime <= 0
	}
	if unending {
		t.Busy, t.Billed = 0, max(t.Billed, o.Paid(0))
	}
	t.MicroDollars = cluster.Bill(max(microDollarsPerHour, 0), t.Billed, 0)
	return t
}

// sum adds non-negative amounts, and saturates at the maximum.
func sum[N ~int64](a, b N) N {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Total returns the sum of the expected costs of machines, in micro-dollars, and of their billed times.
func Total(all []Terms) (microDollars int64, billed time.Duration) {
	for i := range all {
		microDollars, billed = sum(microDollars, all[i].MicroDollars), sum(billed, all[i].Billed)
	}
	return microDollars, billed
}

// Alike are machines of one flavor with the same billed time.
type Alike struct {
	// Machines is how many there are.
	Machines int
	// Terms are those of one machine, except that Busy is the maximum of all, and Pods and MicroDollars are totals.
	Terms
}

// Group groups machines of one flavor with the same billed time. Longer billed times come first, and among equal ones
// the machines that are not expected to become empty.
func Group(all []Terms) []Alike {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Terms) int {
		unending := func(t *Terms) int {
			if t.Unending() {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Billed, a.Billed), cmp.Compare(unending(&a), unending(&b)))
	})
	var groups []Alike
	for i := range sorted {
		t := &sorted[i]
		if n := len(groups); n > 0 && groups[n-1].Billed == t.Billed && groups[n-1].Unending() == t.Unending() {
			g := &groups[n-1]
			g.Machines++
			g.Busy, g.MicroDollars, g.Pods = max(g.Busy, t.Busy), sum(g.MicroDollars, t.MicroDollars), append(g.Pods, t.Pods...)
			continue
		}
		g := Alike{Machines: 1, Terms: *t}
		g.Pods = slices.Clone(t.Pods)
		groups = append(groups, g)
	}
	return groups
}

// TermsOf returns the terms of the first n bought machines of a flavor.
func (d *FleetDecision) TermsOf(flavor string, n int) []Terms {
	var all []Terms
	for i := range d.Terms {
		if len(all) < n && d.Terms[i].Flavor == flavor {
			all = append(all, d.Terms[i])
		}
	}
	return all
}

// ReleaseTerms are the compared costs of releasing an empty machine, in micro-dollars.
type ReleaseTerms struct {
	Node string
	// Keep is the cost of keeping the machine for another billing period; without billing periods, until the next round
	// of the fleet.
	Keep int64
	// Another is the cost of a replacement until it accepts pods, and while it is released.
	Another int64
}

// releaseOf returns the compared costs for a machine of the state.
func releaseOf(s *cluster.State, n *cluster.Node) ReleaseTerms {
	return ReleaseTerms{
		Node:    n.Name,
		Keep:    cluster.Bill(max(n.MicroDollarsPerHour, 0), cmp.Or(max(s.BillingPeriod, 0), max(s.SchedulingInterval, 0)), 0),
		Another: cluster.Bill(max(n.MicroDollarsPerHour, 0), again(s), 0),
	}
}

// account sets the terms of the decision.
func (d *FleetDecision) account(s *cluster.State) {
	for _, release := range d.Release {
		if at := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.Name == release.Node }); at >= 0 {
			d.Releases = append(d.Releases, releaseOf(s, &s.Nodes[at]))
		}
	}
	if len(d.Plan.Machines) > 0 {
		d.Terms = termsOfPlan(s, &d.Plan.Plan)
	}
	if d.Exchange != nil {
		d.Terms = append(d.Terms, termsOfExchange(s, d.Exchange)...)
	}
}

// mixOptions returns the options with which purchases are planned.
func mixOptions(s *cluster.State) purchase.MixOptions {
	return purchase.MixOptions{Setup: s.Lag, Period: s.BillingPeriod}
}

// termsOfPlan returns the terms of the machines of a plan, in its order.
func termsOfPlan(s *cluster.State, p *purchase.Plan) []Terms {
	known := map[string]purchase.Pod{}
	for _, pods := range [][]cluster.Pod{s.Recent, s.Pending} {
		for i := range pods {
			known[pods[i].Name] = purchase.PodOf(&pods[i])
		}
	}
	all := make([]Terms, len(p.Machines))
	for i := range p.Machines {
		m := &p.Machines[i]
		var pods []purchase.Pod
		for _, name := range m.Pods {
			if pod, is := known[name]; is {
				pods = append(pods, pod)
			}
		}
		all[i] = TermsOf(m.Flavor, m.MicroDollarsPerHour, pods, mixOptions(s))
	}
	return all
}

// termsOfExchange returns the terms of the machines of an exchange, in its order. Pods of other machines continue
// there, or restart, while the new machine starts.
func termsOfExchange(s *cluster.State, e *cluster.Exchange) []Terms {
	going, later := map[string]bool{}, map[string]time.Duration{}
	for _, node := range e.Nodes {
		going[node] = true
	}
	for i := range e.Leave {
		later[e.Leave[i].Pod] = e.Leave[i].Takes
	}
	known := map[string]purchase.Pod{}
	for i := range s.Nodes {
		if !going[s.Nodes[i].Name] {
			continue
		}
		for j := range s.Nodes[i].Pods {
			p := &s.Nodes[i].Pods[j]
			pod := purchase.PodOf(p)
			if p.Class == class.Service {
				pod.Runtime = 0
			}
			if pod.Runtime > 0 {
				pod.Runtime = max(1, sum(pod.Runtime, max(later[p.Name], 0))-max(s.Lag, 0))
			}
			known[p.Name] = pod
		}
	}
	prices := map[string]int64{}
	for i := range s.Flavors {
		prices[s.Flavors[i].Name] = s.Flavors[i].MicroDollarsPerHour
	}
	all := make([]Terms, len(e.Buy))
	for i := range e.Buy {
		var pods []purchase.Pod
		for _, name := range e.Buy[i].Pods {
			if pod, is := known[name]; is {
				pods = append(pods, pod)
			}
		}
		all[i] = TermsOf(e.Buy[i].Flavor, prices[e.Buy[i].Flavor], pods, mixOptions(s))
	}
	return all
}
