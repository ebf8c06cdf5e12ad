package fleet

import (
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// nominations are the pods for which machines on their way were bought. Packing is
// not unique: without them the next round could pack the same pods worse into the same
// machines, and buy for those left over.
type nominations struct {
	pods  map[string]bool
	until time.Time
	// planned are the pods of the last plan by the flavor of their machine.
	planned map[string][]string
	// before are the pods that waited already then: all of them were bought for by a
	// process before this one.
	before time.Time
}

// inheritNominations returns those of the last decision, as far as its record tells.
func inheritNominations(fleet *v1alpha1.NodeFleet) nominations {
	n := nominations{pods: map[string]bool{}}
	if d := fleet.Status.LastDecision; d != nil && d.Mode == v1alpha1.FleetAct && d.Measured == nil && len(d.Buys) > 0 {
		n.before, n.until = d.Time.Time, d.Time.Add(nominatedFor(fleet))
	}
	return n
}

// binding is how long the scheduler has to bind pods to machines that have come.
const binding = 10 * time.Second

// nominate marks the pods that wait for a machine that is on its way.
func (r *round) nominate() {
	n := &r.memory.nominations
	if until := r.now.Add(binding); len(r.seen.starting) > 0 && until.After(n.until) && len(n.pods) > 0 {
		n.until = until // its node is there, and lets pods in later than expected
	}
	if len(r.seen.inFlight) == 0 && r.now.Add(binding).Before(n.until) {
		n.until = r.now.Add(binding)
	}
	if !r.now.Before(n.until) {
		*n = nominations{pods: map[string]bool{}}
		return
	}
	for i := range r.seen.state.Pending {
		p := &r.seen.state.Pending[i]
		since := r.now.Add(-p.Waited)
		p.Nominated = n.pods[p.Name] || !since.After(n.before)
	}
}

// planFor remembers for which pods machines of each flavor are about to be bought.
func (r *round) planFor() {
	n := &r.memory.nominations
	n.planned = map[string][]string{}
	for i := range r.decision.Plan.Machines {
		m := &r.decision.Plan.Machines[i]
		n.planned[m.Flavor] = append(n.planned[m.Flavor], m.Pods...)
	}
}

// nominatePods nominates the pods for which machines of a flavor have been bought, until
// those should have come with time to spare. When they have come, or were given up, all
// is planned anew.
func (r *round) nominatePods(flavor string) {
	n := &r.memory.nominations
	for _, pod := range n.planned[flavor] {
		n.pods[pod] = true
	}
	if until := r.now.Add(nominatedFor(r.fleet)); until.After(n.until) {
		n.until = until
	}
}

// nominatedFor is for how long a pod of a fleet is nominated.
func nominatedFor(fleet *v1alpha1.NodeFleet) time.Duration { return 2*fleetLag(fleet) + binding }
