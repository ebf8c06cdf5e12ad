package fleet

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// Limits of the terms that a decision lists: groups of machines with the same billed time, per flavor and in total, and
// pod names, per group and in total.
const (
	maxGroups, maxAllGroups = 10, 100
	maxNames, maxAllNames   = 10, 100
)

// seconds returns whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return n
}

// recordTerms records the components of the dollars by which machines were chosen.
func (r *round) recordTerms(d *v1alpha1.FleetDecision) {
	fleet := &r.actions.Fleet
	groups, names := maxAllGroups, maxAllNames
	var all []fleetdecide.Terms
	for i := range d.Buys {
		b := &d.Buys[i]
		terms := fleet.TermsOf(b.Flavor, int(b.Count))
		if len(terms) == 0 {
			continue
		}
		all = append(all, terms...)
		micros, billed := fleetdecide.Total(terms)
		b.PricePerHour, b.StartSeconds = dollars.Format(terms[0].MicroDollarsPerHour), seconds(terms[0].Start)
		b.DollarsUntilEmpty, b.BilledSeconds = dollars.Format(micros), seconds(billed)
		alike := fleetdecide.Group(terms)
		for j := range alike[:min(len(alike), maxGroups, groups)] {
			g := decidedMachines(&alike[j], names)
			names -= len(g.PodNames)
			b.Machines = append(b.Machines, g)
		}
		groups -= len(b.Machines)
	}
	if len(all) > 0 {
		micros, _ := fleetdecide.Total(all)
		d.DollarsUntilEmpty = dollars.Format(micros)
	}
	d.Deferral = r.deferral()
	r.recordSaving(d)
}

// deferred returns the number of pods that wait for room that becomes free instead of a machine.
func (r *round) deferred() int {
	if r.actions.Fleet.Deferral == nil {
		return 0
	}
	return len(r.actions.Fleet.Deferral.Pods)
}

// deferral describes the deferred pods and what deferring saves; nil if there are none.
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

// in returns the time at d from now, truncated to the seconds that the API server stores.
func (r *round) in(d time.Duration) metav1.Time {
	return metav1.NewTime(r.now.Add(d).Truncate(time.Second))
}

// decidedMachines describes machines with the same billed time, with at most names pod names.
func decidedMachines(a *fleetdecide.Alike, names int) v1alpha1.DecidedMachines {
	return v1alpha1.DecidedMachines{
		Count: int32(a.Machines), BusySeconds: seconds(a.Busy), BilledSeconds: seconds(a.Billed), DollarsUntilEmpty: dollars.Format(a.MicroDollars),
		Pods: int32(len(a.Pods)), PodNames: a.Pods[:min(len(a.Pods), maxNames, names)],
	}
}

// recordSaving records what releasing machines saves and costs. The releases are in the order of the decision: empty
// machines, then those to drain.
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
			continue // not computed
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
