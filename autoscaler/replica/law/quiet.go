package law

import (
	"fmt"
	"time"
)

// Quiet tells a service that nobody asks from one that does not answer. Servers that count
// requests when these have been answered show no request and nothing inside for both.
type Quiet struct {
	// Looks counts the looks in a row that showed no request and nothing inside.
	Looks int `json:"looks,omitempty"`
	// Served is how many replicas were Ready while requests were answered, the last time that
	// all of them were; 0 if that is not known.
	Served int `json:"served,omitempty"`
}

// See takes in a look, and returns why a look without requests is doubted, as Doubt does.
// Where arrivals are not measured nothing is taken in.
func (q Quiet) See(o Observation) (next Quiet, doubt string) {
	switch {
	case o.ArrivalRate > 0 && o.Settled():
		return Quiet{Served: o.Ready}, ""
	case o.ArrivalRate > 0: // some start, or have become unready one after the other
		return Quiet{Served: max(min(q.Served, o.asked()), o.Ready)}, ""
	case o.ArrivalRate == 0 && !(o.QueueLength > 0):
		return q, q.Doubt(o)
	}
	return q, ""
}

// busyPercent is the utilisation from which on a replica counts as working on something.
// Processes without work use a few percent.
const busyPercent = 10

// Doubt says why a look without requests is not taken for a service that nobody asks: fewer
// replicas are Ready than when requests were answered last, or they are busy. It is empty if
// nothing speaks against it.
func (q Quiet) Doubt(o Observation) string {
	switch before := min(q.Served, o.asked()); {
	case o.Ready < before:
		return fmt.Sprintf("no request was answered, and %d of the %d replicas that answered before are not Ready: they may be unable to", before-o.Ready, before)
	case o.Utilization > busyPercent:
		return fmt.Sprintf("no request was answered, and replicas are busy to %.3g %%: they may be unable to answer", o.Utilization)
	}
	return ""
}

// Doubt leaves the replicas asked for as they are, moved into the limits, since what was
// measured is not used.
func (l Limits) Doubt(o Observation, next time.Duration, why string) Decision {
	d := l.Hold(o, next, why)
	d.Doubt = why
	return d
}
