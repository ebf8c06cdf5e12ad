package fleet

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
)

// gather returns how much longer to wait for more pods before buying machines, and records when that ends. Pods from
// before the last purchase decision do not delay it: the decision left those that are still pending.
func (r *round) gather() time.Duration {
	scaling := &r.fleet.Spec.Scaling
	p := r.pace
	p.idle, p.most = scaling.BatchIdle.Duration, scaling.BatchMax.Duration
	r.fresh = map[string]bool{}
	var fresh []time.Time
	for name, condition := range r.seen.waited {
		if since := r.arrivals.waits(name, condition, r.now); since.After(p.decided) {
			r.fresh[name] = true
			fresh = append(fresh, since)
		}
	}
	r.gathered = fleetdecide.GatherEnd(fresh, p.idle, p.most)
	owing := false
	for name := range p.owed {
		if _, waits := r.seen.waited[name]; waits {
			owing, r.fresh[name], r.gathered = true, true, p.owedSince
		}
	}
	if wait := r.gathered.Sub(r.now); wait > 0 && !owing {
		p.gathered = r.gathered
		return wait
	}
	p.decided, p.gathered, p.owed = r.now, time.Time{}, nil
	return 0
}

// owes records that machines could not be ordered as decided.
func (r *round) owes() {
	if len(r.fresh) > 0 {
		r.pace.owed, r.pace.owedSince = r.fresh, r.gathered
	}
}

// pressed reports whether the gathering of pods that the round does not know has ended: what can wait is then left to
// the next round.
func (r *round) pressed() bool {
	due := r.due(r.pace)
	if r.pace.hurried || !due.After(r.pace.began) || due.After(r.Clock.Now()) {
		return false
	}
	r.pace.left.Store(true)
	return true
}

// measureOrder observes the time from the end of batching to the order of machines of a flavor, if any of them are for
// pods that arrived since the last decision.
func (r *round) measureOrder(flavor string, at time.Time) {
	machines := r.actions.Fleet.Plan.Machines
	for i := range machines {
		if machines[i].Flavor == flavor && slices.ContainsFunc(machines[i].Pods, func(pod string) bool { return r.fresh[pod] }) {
			metricOrderSeconds.WithLabelValues(r.fleet.Name).Observe(max(0, at.Sub(r.gathered)).Seconds())
			return
		}
	}
}
