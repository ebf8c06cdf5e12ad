package decide

import "time"

// nominations are the pods for which machines on their way were ordered. Packing is not
// unique: without them the next round could pack the same pods worse into the same machines,
// and order for those left over.
type nominations struct {
	pods  map[string]bool
	until time.Time
	// last is for how long pods are nominated.
	last time.Duration
	// planned are the pods of the last plan by the flavor of their machine.
	planned map[string][]string
	// before are the pods that were pending already then: all of them were ordered for by a
	// process before this one.
	before time.Time
}

// binding is how long the scheduler has to bind pods to machines that have come.
const binding = 10 * time.Second

// clear ends all nominations. The pods of the last plan stay known.
func (n *nominations) clear() { n.pods, n.until, n.before = nil, time.Time{}, time.Time{} }

// add nominates the pods for which machines of a flavor were planned.
func (n *nominations) add(flavor string, now time.Time) {
	if n.pods == nil {
		n.pods = map[string]bool{}
	}
	for _, pod := range n.planned[flavor] {
		n.pods[pod] = true
	}
	if until := now.Add(n.last); until.After(n.until) {
		n.until = until
	}
}

// NominatedFor is for how long pods are nominated whose machines are expected to take so
// long: until those should have come, with time to spare. When they have come, or were
// abandoned, all is planned again.
func NominatedFor(lag time.Duration) time.Duration { return 2*lag + binding }

// nominate marks the pods of the state that wait for a machine that is on its way.
func (r *round) nominate() {
	n := r.nominations
	n.until = earlier(n.until, r.now.Add(r.m.nominations.last)) // it is later if the clock was ahead
	if until := r.now.Add(binding); len(r.m.startup) > 0 && until.After(n.until) && len(n.pods) > 0 {
		n.until = until // its node is there, and takes pods later than expected
	}
	if until := r.now.Add(binding); !r.inFlight() && until.Before(n.until) {
		n.until = until
	}
	if !r.now.Before(n.until) {
		n.clear()
		return
	}
	for i := range r.state.Pending {
		p := &r.state.Pending[i]
		since := r.now.Add(-p.Waited)
		p.Nominated = n.pods[p.Name] || !since.After(n.before)
	}
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
