package decide

import "time"

// nominations are the pods for which machines on their way were ordered. Packing is not
// unique: without them the next round could pack the same pods worse into the same machines,
// and order for those left over.
type nominations struct {
	pods map[string]nomination
	// lags are how long machines are expected to take, by flavor.
	lags map[string]time.Duration
	// planned are the pods of the last plan by the flavor of their machine.
	planned map[string][]string
	// before are the pods that were pending already then: all of them were ordered for by a
	// process before this one. That holds until the other time.
	before, until time.Time
}

// nomination says that a machine of a flavor was ordered for a pod, and until when nothing
// else is.
type nomination struct {
	flavor    string
	at, until time.Time
}

// mostBinding is how long the scheduler has to bind pods to machines that have come: it
// retries a pod after 10 s at the latest.
const mostBinding = 10 * time.Second

// binding is how long the scheduler has to bind a pod to a machine that takes so long to
// come: no longer than that. Another pod may have taken the room, and then one waits no
// longer than for another machine.
func binding(lag time.Duration) time.Duration { return min(mostBinding, max(lag, time.Second)) }

// clear ends all nominations. The pods of the last plan stay known.
func (n *nominations) clear() { n.pods, n.until, n.before = nil, time.Time{}, time.Time{} }

// add nominates the pods for which machines of a flavor were planned.
func (n *nominations) add(flavor string, now time.Time) {
	if n.pods == nil {
		n.pods = map[string]nomination{}
	}
	for _, pod := range n.planned[flavor] {
		n.pods[pod] = nomination{flavor, now, now.Add(NominatedFor(n.lags[flavor]))}
	}
}

// NominatedFor is for how long pods are nominated whose machines are expected to take so
// long: until those should have come, with time to spare. When they have come, or were
// abandoned, machines may be ordered for pods that are still pending.
func NominatedFor(lag time.Duration) time.Duration { return 2*lag + binding(lag) }

// nominate marks the pods of the state that wait for a machine that is on its way.
func (r *round) nominate() {
	n := r.nominations
	for pod, of := range n.pods {
		lag := n.lags[of.flavor]
		of.until = earlier(of.until, r.now.Add(NominatedFor(lag))) // it is later if the clock was ahead
		grace := r.now.Add(binding(lag))
		if !r.comes(of) {
			of.until = earlier(of.until, grace)
		}
		if len(r.m.startup) > 0 && grace.After(of.until) {
			of.until = grace // its node is there, and takes pods later than expected
		}
		if n.pods[pod] = of; !r.now.Before(of.until) {
			delete(n.pods, pod)
		}
	}
	longest := r.c.ExpectedLag
	for _, lag := range n.lags {
		longest = max(longest, lag)
	}
	n.until = earlier(n.until, r.now.Add(NominatedFor(longest)))
	if !r.inFlight() {
		n.until = earlier(n.until, r.now.Add(binding(longest)))
	}
	if !r.now.Before(n.until) {
		n.before = time.Time{}
	}
	for i := range r.state.Pending {
		p := &r.state.Pending[i]
		of, nominated := n.pods[p.Name]
		p.Nominated = nominated || !r.now.Add(-p.Waited).After(n.before)
		if nominated {
			r.wake(of.until.Sub(r.now))
		}
	}
}

// comes reports whether a machine may still come that was ordered with a nomination: one of
// its flavor that was made about then has not come, or has yet to be made.
func (r *round) comes(of nomination) bool {
	const about = 2 * time.Second // times of objects are rounded down, and objects made a little later
	for _, m := range r.all {
		if !m.Leaving && m.OnOrder && m.Flavor == of.flavor && m.Ordered.Before(of.at.Add(about)) {
			return true
		}
	}
	f := r.flavors[of.flavor]
	return f != nil && f.Ordered > r.made[of.flavor]
}

// inFlight reports whether a machine of the fleet is on its way, be it late.
func (r *round) inFlight() bool {
	for _, m := range r.all {
		if !m.Leaving && m.OnOrder && (!m.Unidentified || r.now.Sub(m.Ordered) < r.flavors[m.Flavor].JoinTimeout) {
			return true
		}
	}
	for i := range r.o.Flavors {
		if f := &r.o.Flavors[i]; f.Ordered > r.made[f.Name] {
			return true
		}
	}
	return false
}

// remember keeps for which pods machines of each flavor are about to be ordered.
func (r *round) remember() {
	planned := map[string][]string{}
	machines := r.actions.Fleet.Plan.Machines
	for i := range machines {
		planned[machines[i].Flavor] = append(planned[machines[i].Flavor], machines[i].Pods...)
	}
	r.m.nominations.planned = planned
}
