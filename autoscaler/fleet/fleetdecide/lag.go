package fleetdecide

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
)

// lagWindow is the approximate number of machines over which a lag is averaged: few enough to follow a cloud that gets
// slower, enough to ignore one slow machine.
const lagWindow = 16

// LearnLag adds one machine's time from order to ready to what was learned before, which may be nil.
func LearnLag(old *v1alpha1.LearnedTime, took time.Duration) *v1alpha1.LearnedTime {
	return runtimes.LearnTime(old, lagWindow, took)
}

// ExpectedLag returns the expected start-up time of a machine: the learned mean, or fallback if nothing has been
// learned.
func ExpectedLag(learned *v1alpha1.LearnedTime, fallback time.Duration) time.Duration {
	if learned == nil || learned.Samples <= 0 {
		return fallback
	}
	return learned.Mean.Duration
}

// FleetLag returns the longest known start-up time of the machines of a fleet.
func FleetLag(fleet *v1alpha1.NodeFleet) time.Duration {
	longest := fleet.Spec.Scaling.ExpectedLag.Duration
	for i := range fleet.Status.Flavors {
		longest = max(longest, ExpectedLag(fleet.Status.Flavors[i].Lag, 0))
	}
	return longest
}

// outOfDate is how many times the expected start-up time a machine may take before that time counts as out of date.
// Start-up times vary less than that.
const outOfDate = 2

// raiseLags raises the expected start-up times of flavors that are out of date: if a machine is on order for more than
// [outOfDate] times as long, and no machine of the flavor that was ordered at the same time or later has come, then
// another machine will take at least as long. A start-up time is learned only from machines that have come. Without
// this rule, a cloud or API server that becomes slow would therefore make pods use up their patience before it is
// learned, and more machines would be bought for them, which come even later.
func (r *planning) raiseLags() {
	came := map[string]time.Time{} // when the last machine was ordered that has come, by flavor
	for _, m := range r.machines {
		if !m.OnOrder && m.Ordered.After(came[m.Flavor]) {
			came[m.Flavor] = m.Ordered
		}
	}
	raised, expected := map[string]bool{}, map[string]time.Duration{}
	for name, f := range r.flavors {
		expected[name] = f.Lag
	}
	for _, m := range r.machines {
		f := r.flavors[m.Flavor]
		age := r.now.Sub(m.Ordered)
		if !m.OnOrder || !m.Ordered.After(came[m.Flavor]) || age >= f.JoinTimeout || age <= outOfDate*expected[f.Name] || age <= f.Lag {
			continue
		}
		if !raised[f.Name] { // the observation is not changed
			raised[f.Name], f = true, new(*f)
			r.flavors[f.Name] = f
		}
		f.Lag, f.Learned = age, true
	}
	for i := range r.state.Nodes {
		n := &r.state.Nodes[i]
		if raised[n.Flavor] && n.Phase == cluster.Ordered && !foreignOrder(n) {
			n.Due = max(n.Due, r.flavors[n.Flavor].Lag-n.Age)
		}
	}
}

// learnEnds learns how long machines take to be gone after their release has begun. They are billed until then.
func (r *planning) learnEnds() {
	there := make(map[string]bool, len(r.o.Machines))
	for i := range r.o.Machines {
		m := &r.o.Machines[i]
		there[m.Name] = true
		if _, known := r.m.leaving[m.Name]; m.Leaving && !known {
			r.m.leaving[m.Name] = r.now
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.m.leaving)) { // sorted, because later samples weigh more
		if !there[name] {
			r.m.ends = LearnLag(r.m.ends, r.now.Sub(r.m.leaving[name]))
			delete(r.m.leaving, name)
		}
	}
}

// purchaseLag returns the start-up time of a purchase that has a machine for each pending or recent pod, of the flavors
// that can be ordered. Each pod counts with the fastest flavor that holds it, so that pods do not wait as long as the
// slowest flavor of the catalogue takes. Measured lags are preferred to assumed ones. If no flavor holds any pod, or
// there is no pod, the result is the lag of the slowest flavor.
// Cost: O(f·log f + k·f) for f flavors and k kinds of pods.
func (r *planning) purchaseLag(s *cluster.State) time.Duration {
	type kind struct {
		size    packing.Size
		arch    string
		demands *constraint.Pod
	}
	type offer struct {
		cluster.Flavor
		lag     time.Duration
		learned bool
	}
	offers := make([]offer, len(s.Flavors))
	var slowest time.Duration
	for i := range s.Flavors {
		f := r.flavors[s.Flavors[i].Name]
		offers[i] = offer{s.Flavors[i].Unlimited(), f.Lag, f.Learned}
		slowest = max(slowest, f.Lag)
	}
	slices.SortStableFunc(offers, func(a, b offer) int {
		if a.learned != b.learned {
			if a.learned {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.lag, b.lag)
	})
	longest, seen := time.Duration(-1), map[kind]bool{}
	for _, pods := range [][]cluster.Pod{s.Pending, s.Recent} {
		for i := range pods {
			p := &pods[i]
			k := kind{p.Size, p.Arch, p.Demands}
			if seen[k] {
				continue
			}
			seen[k] = true
			pod := purchase.PodOf(p)
			at := slices.IndexFunc(offers, func(o offer) bool { return pod.RefusedBy(&o.Flavor) == "" })
			if at >= 0 {
				longest = max(longest, offers[at].lag)
			}
		}
	}
	if longest < 0 {
		return slowest
	}
	return longest
}
