package fleet

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/fleet/decide"
)

// gather returns for how long more pods are awaited before machines are bought, and notes when
// that ends. Pods that were there when machines were last decided about are not waited with:
// those that are still pending are what the decision left so.
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
	r.gathered = decide.GatherEnd(fresh, p.idle, p.most)
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

// owes notes that machines could not be ordered as was decided.
func (r *round) owes() {
	if len(r.fresh) > 0 {
		r.pace.owed, r.pace.owedSince = r.fresh, r.gathered
	}
}

// pressed reports whether pods have been gathered that the round does not know: what can wait
// is left to the next.
func (r *round) pressed() bool {
	due := r.due(r.pace)
	if r.pace.hurried || !due.After(r.pace.began) || due.After(r.Clock.Now()) {
		return false
	}
	r.pace.left.Store(true)
	return true
}

// measureOrder notes how long after the end of batching machines of a flavor were ordered, if
// any of them are for pods that have come since the last decision.
func (r *round) measureOrder(flavor string, at time.Time) {
	machines := r.actions.Fleet.Plan.Machines
	for i := range machines {
		if machines[i].Flavor == flavor && slices.ContainsFunc(machines[i].Pods, func(pod string) bool { return r.fresh[pod] }) {
			metricOrderSeconds.WithLabelValues(r.fleet.Name).Observe(max(0, at.Sub(r.gathered)).Seconds())
			return
		}
	}
}
