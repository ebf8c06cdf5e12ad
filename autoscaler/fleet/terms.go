package fleet

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// The most that a decision lists of what makes up its dollars: of machines that are paid for
// equally long, for one flavor and in all, and of names of pods in the same way.
const (
	maxGroups, maxAllGroups = 10, 100
	maxNames, maxAllNames   = 10, 100
)

// seconds are whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return n
}

// recordTerms writes down of what the dollars consist by which machines were chosen.
func (r *round) recordTerms(d *v1alpha1.FleetDecision) {
	fleet := &r.actions.Fleet
	groups, names := maxAllGroups, maxAllNames
	var all []decide.Terms
	for i := range d.Buys {
		b := &d.Buys[i]
		terms := fleet.TermsOf(b.Flavor, int(b.Count))
		if len(terms) == 0 {
			continue
		}
		all = append(all, terms...)
		micros, billed := decide.Total(terms)
		b.PricePerHour, b.StartSeconds = dollars.Format(terms[0].MicroDollarsPerHour), seconds(terms[0].Start)
		b.DollarsUntilEmpty, b.BilledSeconds = dollars.Format(micros), seconds(billed)
		alike := decide.Group(terms)
		for j := range alike[:min(len(alike), maxGroups, groups)] {
			g := decidedMachines(&alike[j], names)
			names -= len(g.PodNames)
			b.Machines = append(b.Machines, g)
		}
		groups -= len(b.Machines)
	}
	if len(all) > 0 {
		micros, _ := decide.Total(all)
		d.DollarsUntilEmpty = dollars.Format(micros)
	}
	d.Deferral = r.deferral()
	r.recordSaving(d)
}

// deferred is how many pods wait for room that comes free rather than for a machine.
func (r *round) deferred() int {
	if r.actions.Fleet.Deferral == nil {
		return 0
	}
	return len(r.actions.Fleet.Deferral.Pods)
}

// deferral says which these are, and what that saves; nil if there are none.
func (r *round) deferral() *v1alpha1.FleetDeferral {
	w := r.actions.Fleet.Deferral
	if w == nil {
		return nil
	}
	return &v1alpha1.FleetDeferral{
		Reason: clip.Bytes(w.Reason(), conditions.MaxMessage), Pods: int32(len(w.Pods)), PodNames: w.Pods[:min(len(w.Pods), maxNames)],
		SavesDollars: dollars.Format(w.Saves()), BuyDollars: dollars.Format(w.BuyNow), WaitDollars: dollars.Format(w.Wait),
		RoomTime: r.in(w.Room), BuyTime: r.in(w.Until),
	}
}

// in is the time so long from now, to the second that the API server keeps.
func (r *round) in(d time.Duration) metav1.Time {
	return metav1.NewTime(r.now.Add(d).Truncate(time.Second))
}

// decidedMachines says what machines come to that are paid for equally long, with so many names
// of pods at most.
func decidedMachines(a *decide.Alike, names int) v1alpha1.DecidedMachines {
	return v1alpha1.DecidedMachines{
		Count: int32(a.Machines), BusySeconds: seconds(a.Busy), BilledSeconds: seconds(a.Billed), DollarsUntilEmpty: dollars.Format(a.MicroDollars),
		Pods: int32(len(a.Pods)), PodNames: a.Pods[:min(len(a.Pods), maxNames, names)],
	}
}

// recordSaving writes down what releasing machines saves and costs. The releases stand in the
// order of the decision: empty machines, then those to empty.
func (r *round) recordSaving(d *v1alpha1.FleetDecision) {
	fleet := &r.actions.Fleet
	released := make(map[string]*v1alpha1.DecidedRelease, len(d.Releases))
	for i := range d.Releases {
		released[d.Releases[i].Node] = &d.Releases[i]
	}
	for i := range fleet.Releases {
		t := &fleet.Releases[i]
		if to := released[t.Node]; to != nil {
			to.KeepDollars, to.StartDollars = dollars.Format(t.Keep), dollars.Format(t.Another)
		}
	}
	var saves, costs int64
	for i := range fleet.Drains {
		drain := &fleet.Drains[i]
		if drain.Saves == 0 && drain.Costs == 0 {
			continue // nobody has worked it out
		}
		saves, costs = saves+drain.Saves, costs+drain.Costs
		if to := released[drain.Node]; to != nil {
			to.SavesDollars, to.CostsDollars = dollars.Format(drain.Saves), dollars.Format(drain.Costs)
		}
	}
	if e := fleet.Exchange; e != nil {
		saves, costs = saves+e.Saves, costs+e.Costs
	}
	if saves != 0 || costs != 0 {
		d.SavesDollars, d.CostsDollars = dollars.Format(saves), dollars.Format(costs)
	}
}
