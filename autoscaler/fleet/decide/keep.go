package decide

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

// slack is how long before the end of a billing period a machine is released at most, so
// that it is gone when the next period begins.
const slack = 10 * time.Second

// paidFor returns for how much longer an order to give a machine back may wait without the
// bill becoming greater; 0 if each moment counts.
func paidFor(s *cluster.State, n *cluster.Node) time.Duration {
	if s.BillingPeriod <= 0 {
		return 0
	}
	given := n.Age + s.Release
	periods := max(1, (given+s.BillingPeriod-1)/s.BillingPeriod)
	return periods*s.BillingPeriod - given
}

// endsPeriod reports whether a machine that is not released now may be paid for one
// billing period more.
func endsPeriod(s *cluster.State, n *cluster.Node) bool {
	return paidFor(s, n) < lastCall(s)
}

// lastCall is how long before the end of a billing period machines are released: so long
// that it is not missed, and no longer than until the fleet is looked at again anyway.
func lastCall(s *cluster.State) time.Duration { return max(min(slack, s.SchedulingInterval), 1) }

// release decides which of the empty machines that may go are released.
//
// A machine that is paid for stays, since that costs nothing. Then it costs what it is kept
// for, and a machine bought in its place costs the time until that takes pods, and that in which it
// goes later. So those are kept that are going to be used within that time: without them more
// pods would wait at the end of a forecast of the Lag and the Release, in which pods come as [steady]
// says, than with them. Of the others the dearest go first, ties by name.
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

// wake decides again after that time at most.
func (d *FleetDecision) wake(after time.Duration) {
	if d.Wake == 0 || after < d.Wake {
		d.Wake = after
	}
}

// unmissed returns how many of the machines, from the first on, are not going to be missed
// before others could take their place.
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

// again is for how long a machine is paid for that is bought in the place of one that was released,
// beyond the time in which it is used.
func again(s *cluster.State) time.Duration { return sum(max(s.Lag, 0), max(s.Release, 0)) }

// mostMissed returns the greatest n up to the limit for which no more pods wait than
// for 0, if more going never lets fewer wait. All is tried first, as it is often so.
func mostMissed(limit int, waiting func(n int) int) int {
	with := waiting(0)
	if waiting(limit) <= with {
		return limit
	}
	return sort.Search(limit-1, func(n int) bool { return waiting(n+1) > with })
}

// whyReleased says what a machine would cost and what one in its place costs.
func whyReleased(s *cluster.State, n *cluster.Node) string {
	another := cluster.Bill(n.MicroDollarsPerHour, again(s), 0)
	text := fmt.Sprintf("it is empty, and costs $%.4f/h", float64(n.MicroDollarsPerHour)/1e6)
	if s.BillingPeriod > 0 {
		text += fmt.Sprintf(", paid for another %v at a time", s.BillingPeriod)
	}
	return text + fmt.Sprintf("; pods that are expected within %v find room without it, and to start another would cost $%.6f", again(s), float64(another)/1e6)
}
