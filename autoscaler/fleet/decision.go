package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
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

// recordDecision records the decision, with reasons, in the status, in an Event and in a metric.
func (r *round) recordDecision(d *decision, intent *v1alpha1.FleetIntent) {
	record := d.record(r.fleet, intent, r.mode())
	r.fleet.Status.LastDecision = record
	metricDecisions.WithLabelValues(r.fleet.Name, kindOf(record), string(record.Mode)).Inc()
	r.report.Event(corev1.EventTypeNormal, kindOf(record), v1alpha1.ActionDecide, record.Summary)
}

// record describes the decision.
func (d *decision) record(fleet *v1alpha1.NodeFleet, intent *v1alpha1.FleetIntent, mode v1alpha1.FleetMode) *v1alpha1.FleetDecision {
	to := &v1alpha1.FleetDecision{ID: intent.ID, Time: intent.Time, Mode: mode}
	plan, prices := &d.actions.Fleet.Plan, d.seen.Self.Prices
	for _, o := range intent.Orders {
		to.Buys = append(to.Buys, decidedPurchase(o, &d.actions.Fleet))
	}
	for _, release := range d.actions.Fleet.Release {
		to.Releases = append(to.Releases, v1alpha1.DecidedRelease{Node: release.Node, Reason: clip.Bytes(release.Reason, conditions.MaxMessage)})
	}
	for _, drain := range d.actions.Fleet.Drains {
		to.Releases = append(to.Releases, v1alpha1.DecidedRelease{Node: drain.Node, Reason: clip.Bytes(drain.Reason, conditions.MaxMessage)})
	}
	if e := d.actions.Fleet.Exchange; e != nil {
		for _, node := range e.Nodes {
			to.Releases = append(to.Releases, v1alpha1.DecidedRelease{Node: node, Reason: clip.Bytes(e.Reason, conditions.MaxMessage)})
		}
	}
	to.Rejected = d.rejections()
	for _, stay := range d.actions.Fleet.Kept {
		to.Rejected = append(to.Rejected, v1alpha1.Rejection{Name: stay.Node, Reason: clip.Bytes(stay.Reason, conditions.MaxMessage)})
	}
	for _, f := range fleet.Status.Flavors {
		if f.Message != "" {
			to.Rejected = append(to.Rejected, v1alpha1.Rejection{Name: f.Name, Reason: f.Message})
		} else if why := fleetobserve.BackingOff(&f, d.seen.Now); why != "" {
			to.Rejected = append(to.Rejected, v1alpha1.Rejection{Name: f.Name, Reason: why})
		}
	}
	to.Buys, to.Releases, to.Rejected = to.Buys[:min(len(to.Buys), maxListed)], to.Releases[:min(len(to.Releases), maxListed)], to.Rejected[:min(len(to.Rejected), maxListed)]
	recordTerms(to, &d.actions.Fleet, d.seen.Now)
	var price int64
	for _, o := range intent.Orders {
		price += int64(o.To-o.From) * prices[o.Flavor].MicroDollars
	}
	expected := d.seen.Paid + price
	for _, node := range d.nodesToEmpty() {
		expected -= prices[d.seen.Own[node].Flavor].MicroDollars
	}
	to.Expected = v1alpha1.Outcome{DollarsPerHour: dollars.Format(expected), PendingPods: int32(len(d.rejections()) + d.deferred() + d.withheld())}
	if len(intent.Orders) > 0 {
		to.PricePerHour = dollars.Format(price)
		if len(plan.Machines) > 0 {
			to.LowerBoundPerHour = dollars.Format(plan.LowerBoundMicroDollarsPerHour)
		}
		to.Expected.ReadySeconds = int64(longestLag(fleet, intent.Orders).Seconds())
	}
	to.Summary = clip.Bytes(summarize(to, &d.actions.Fleet, len(d.rejections())), conditions.MaxMessage)
	return to
}

// longestLag returns the longest expected start-up time of the ordered machines.
func longestLag(fleet *v1alpha1.NodeFleet, orders []v1alpha1.FleetOrder) (longest time.Duration) {
	for _, o := range orders {
		longest = max(longest, fleetobserve.ReadyAfter(fleet, o.Flavor))
	}
	return longest
}

func kindOf(d *v1alpha1.FleetDecision) string {
	switch {
	case len(d.Buys) == 0:
		return v1alpha1.FleetReasonRelease
	case len(d.Releases) == 0:
		return v1alpha1.FleetReasonBuy
	}
	return v1alpha1.FleetReasonExchange
}

// nodesToEmpty returns the nodes that are cordoned because their machines are not worth their price.
func (d *decision) nodesToEmpty() []string {
	var nodes []string
	fleet := &d.actions.Fleet
	for _, release := range fleet.Release {
		nodes = append(nodes, release.Node)
	}
	for _, drain := range fleet.Drains {
		nodes = append(nodes, drain.Node)
	}
	if fleet.Exchange != nil {
		nodes = append(nodes, fleet.Exchange.Nodes...)
	}
	return nodes
}

func decidedPurchase(o v1alpha1.FleetOrder, fleet *fleetdecide.FleetDecision) v1alpha1.DecidedPurchase {
	d := v1alpha1.DecidedPurchase{Flavor: o.Flavor, Count: o.To - o.From}
	toMinimum := fleet.ToMinimum[o.Flavor]
	var bought []purchase.Machine
	for _, m := range fleet.Plan.Machines {
		if m.Flavor == o.Flavor && len(bought) < int(d.Count)-toMinimum { // a limit may allow only the first ones
			d.Pods += int32(len(m.Pods))
			bought = append(bought, m)
		}
	}
	d.Reason = purchase.Together(bought)
	if len(bought) > 1 && d.Reason != bought[0].Reason && fleet.Expected > 0 {
		d.Reason += "; that may include pods that are expected soon"
	}
	if e := fleet.Exchange; e != nil {
		for i := range e.Buy {
			if e.Buy[i].Flavor == o.Flavor {
				d.Pods += int32(len(e.Buy[i].Pods))
				d.Reason = cmp.Or(d.Reason, e.Reason)
			}
		}
	}
	if toMinimum > 0 {
		why := plural.Count(toMinimum, "machine") + " to reach the minimum of the flavor"
		d.Reason = strings.TrimPrefix(d.Reason+"; "+why, "; ")
	}
	d.Reason = clip.Bytes(d.Reason, conditions.MaxMessage)
	return d
}

// summarize describes a decision in one line. rejected is the number of pods for which no machine can be bought, those
// that cannot be planned included, as the Event about them has it.
func summarize(d *v1alpha1.FleetDecision, fleet *fleetdecide.FleetDecision, rejected int) string {
	verb := "buy"
	if d.Mode == v1alpha1.FleetObserve {
		verb = "would buy"
	}
	var parts []string
	if len(d.Buys) > 0 {
		var what []string
		pods := 0
		for _, b := range d.Buys {
			pods += int(b.Pods)
			what = append(what, fmt.Sprintf("%d %s", b.Count, b.Flavor))
		}
		part := fmt.Sprintf("%s %s", verb, strings.Join(what, ", "))
		if fleet.Exchange == nil {
			part += fmt.Sprintf("%s at $%s/h", purpose(pods, fleet.ToMinimum), d.PricePerHour)
			if d.LowerBoundPerHour != "" {
				part += fmt.Sprintf(" (bound $%s/h)", d.LowerBoundPerHour)
			}
		}
		parts = append(parts, part)
		if left := planned(fleet) - pods; fleet.Exchange == nil && left > 0 && len(d.Buys) < maxListed {
			parts = append(parts, "this round orders no machine for "+plural.Count(left, "other pod"))
		}
		if roomy := fleet.Roomy(); roomy > 0 {
			parts = append(parts, fmt.Sprintf("%s %s room without new machines", plural.Count(roomy, "pod"), plural.Form(roomy, "has", "have")))
		}
		if rejected > 0 {
			parts = append(parts, fmt.Sprintf("%s %s no machine", plural.Count(rejected, "pod"), plural.Form(rejected, "finds", "find")))
		}
		if w := fleet.Withheld; w != nil {
			parts = append(parts, w.Reason())
		}
	}
	if w := fleet.Deferral; w != nil {
		parts = append(parts, fmt.Sprintf("%s %s for room that becomes free, which saves $%s", plural.Count(len(w.Pods), "pod"), plural.Form(len(w.Pods), "waits", "wait"), dollars.Format(w.Saves())))
	}
	if len(d.Releases) > 0 {
		parts = append(parts, strings.Replace(verb, "buy", "release", 1)+" "+named(d.Releases))
	}
	return strings.Join(parts, "; ")
}

// purpose says what a purchase is for: pods, or the minimum of flavors, or both.
func purpose(pods int, toMinimum map[string]int) string {
	forPods := " for " + plural.Count(pods, "pod")
	switch {
	case len(toMinimum) == 0:
		return forPods
	case pods == 0:
		return " to reach the minimum"
	}
	return forPods + " and to reach the minimum"
}

// planned returns the number of pods for which the plan has machines.
func planned(fleet *fleetdecide.FleetDecision) (pods int) {
	for i := range fleet.Plan.Machines {
		pods += len(fleet.Plan.Machines[i].Pods)
	}
	return pods
}

// named names the released machines, or the first ones and the number of the others, with their reason. If the reasons
// differ, it gives that of the first machine.
func named(releases []v1alpha1.DecidedRelease) string {
	const most = 5
	first := releases[0]
	if slices.ContainsFunc(releases, func(r v1alpha1.DecidedRelease) bool { return r.Reason != first.Reason }) {
		return fmt.Sprintf("%s: %s; and for other reasons %s", first.Node, first.Reason, someNodes(releases[1:], most-1))
	}
	return someNodes(releases, most) + ": " + first.Reason
}

// someNodes names the first machines, and the number of the others.
func someNodes(releases []v1alpha1.DecidedRelease, most int) string {
	var names []string
	for _, release := range releases[:min(most, len(releases))] {
		names = append(names, release.Node)
	}
	text := strings.Join(names, ", ")
	if more := len(releases) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// recordTerms records the components of the dollars by which machines were chosen.
func recordTerms(d *v1alpha1.FleetDecision, fleet *fleetdecide.FleetDecision, now time.Time) {
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
	d.Deferral = deferralOf(fleet.Deferral, now)
	recordSaving(d, fleet)
}

// deferred returns the number of pods that wait for room that becomes free instead of a machine.
func (d *decision) deferred() int {
	if d.actions.Fleet.Deferral == nil {
		return 0
	}
	return len(d.actions.Fleet.Deferral.Pods)
}

// withheld returns the number of pods for which no machine is bought because enough are on order.
func (d *decision) withheld() int {
	if d.actions.Fleet.Withheld == nil {
		return 0
	}
	return len(d.actions.Fleet.Withheld.Pods)
}

// deferralOf describes the deferred pods and what deferring saves; nil if there are none.
func deferralOf(w *fleetdecide.Deferral, now time.Time) *v1alpha1.FleetDeferral {
	if w == nil {
		return nil
	}
	return &v1alpha1.FleetDeferral{
		Reason: clip.Bytes(w.Reason(), conditions.MaxMessage), Pods: int32(len(w.Pods)), PodNames: w.Pods[:min(len(w.Pods), maxNames)],
		SavesDollars: dollars.Format(w.Saves()), BuyDollars: dollars.Format(w.BuyNow), WaitDollars: dollars.Format(w.Wait),
		RoomTime: in(now, w.Room), BuyTime: in(now, w.Until),
	}
}

// in returns the time at d from now, truncated to the seconds that the API server stores.
func in(now time.Time, d time.Duration) metav1.Time {
	return metav1.NewTime(now.Add(d).Truncate(time.Second))
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
func recordSaving(d *v1alpha1.FleetDecision, fleet *fleetdecide.FleetDecision) {
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
