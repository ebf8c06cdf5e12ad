package law

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/internal/text/plural"
)

// Quiet tells a service without requests from one that does not answer. If a server counts requests when it answers
// them, both show no requests and an empty queue.
type Quiet struct {
	// Evaluations counts the consecutive evaluations without requests and with an empty queue.
	Evaluations int `json:"looks,omitempty"`
	// Served is the number of replicas that were Ready when requests were answered and all replicas were Ready; 0 if it
	// is not known.
	Served int `json:"served,omitempty"`
}

// See updates q with an observation, and returns the doubt about an observation without requests, as Doubt does. If the
// arrival rate was not measured, q stays the same.
func (q Quiet) See(o Observation) (next Quiet, doubt string) {
	switch {
	case o.ArrivalRate > 0 && o.Settled():
		return Quiet{Served: o.Ready}, ""
	case o.ArrivalRate > 0: // some start, or became unready one after the other
		return Quiet{Served: max(min(q.Served, o.asked()), o.Ready)}, ""
	case o.ArrivalRate == 0 && !(o.QueueLength > 0):
		return q, q.Doubt(o)
	}
	return q, ""
}

// busyPercent is the utilisation above which a replica counts as busy. Idle processes use a few percent.
const busyPercent = 10

// Doubt returns why an observation without requests may not mean that the service is idle: fewer replicas are Ready
// than when requests were last answered, or replicas are busy. It is empty if there is no doubt.
func (q Quiet) Doubt(o Observation) string {
	switch before := min(q.Served, o.asked()); {
	case o.Ready < before:
		return fmt.Sprintf("no request was answered, and %d of the %d replicas that answered before and are still requested %s not Ready: they may be unable to answer", before-o.Ready, before, plural.Form(before-o.Ready, "is", "are"))
	case o.Utilization > busyPercent:
		return fmt.Sprintf("no request was answered, and replicas are %.3g %% busy: they may be unable to answer", o.Utilization)
	}
	return ""
}

// Doubt keeps the desired number of replicas, clamped to the limits, because the measurements are not used.
func (l Limits) Doubt(o Observation, next time.Duration, why string) Decision {
	d := l.Hold(o, next, why)
	d.Doubt = why
	return d
}
