package fleetdecide

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

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
	another := cluster.Bill(n.MicroDollarsPerHour, again(s), 0)
	text := fmt.Sprintf("it is empty and costs $%.4f/h", float64(n.MicroDollarsPerHour)/1e6)
	if s.BillingPeriod > 0 {
		text += fmt.Sprintf(", billed for %v at a time", s.BillingPeriod)
	}
	return text + fmt.Sprintf("; pods expected within %v have room without it, and starting another machine would cost $%.6f", again(s), float64(another)/1e6)
}
