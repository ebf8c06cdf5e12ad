package fleet

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/disruption"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// maxListed is the maximum length of each list in a status, because objects in etcd must be small.
const maxListed = 100

// recordObservation records the observation in the status, with a row for each flavor of the fleet.
func (r *round) recordObservation(d *decision) {
	status, seen := &r.fleet.Status, d.seen
	status.Machines, status.InFlight, status.PendingPods = 0, 0, int32(len(seen.State.Pending)+len(seen.Held))
	status.Flavors = flavorRows(seen)
	for i := range status.Flavors {
		status.Machines += status.Flavors[i].Machines
		status.InFlight += int32(seen.InFlight[status.Flavors[i].Name])
	}
	status.Cost.DollarsPerHour = dollars.Format(seen.Paid)
	r.measure(d.input)
	r.degraded(d, "", nil)
	r.warn(seen)
	publish(r.fleet, seen.Paid)
}

// boundAge is how old the lower bound in the status may become while nothing is decided: for thousands of nodes, it takes
// more time than the rest of a round.
const boundAge = 10 * time.Minute

// recordBound records the lower bound with each decision that changes machines, and when it has become old.
func (r *round) recordBound(d *decision) {
	a := &d.actions
	changes := len(a.Orders)+len(a.Release)+len(a.Cordon)+len(a.Abandoned) > 0
	if age := r.now.Sub(r.memory.bounded); !changes && age >= 0 && age < boundAge {
		return
	}
	r.memory.bounded = r.now
	least := d.seen.LowerBound()
	r.fleet.Status.Cost.LowerBoundDollarsPerHour = dollars.Format(least)
	metricBoundPerHour.WithLabelValues(r.fleet.Name).Set(float64(least) / 1e6)
}

// flavorRows returns the status of each flavor of the fleet: what was learned before, and what is observed.
func flavorRows(seen *fleetobserve.Observation) []v1alpha1.FlavorStatus {
	known := fleetobserve.RowsOf(seen.Self.Fleet)
	rows := make([]v1alpha1.FlavorStatus, 0, len(seen.Self.Inventory.Flavors))
	for i := range seen.Self.Inventory.Flavors {
		f := &seen.Self.Inventory.Flavors[i]
		s := v1alpha1.FlavorStatus{Name: f.Name}
		if before := known[f.Name]; before != nil {
			s = *before
		}
		s.Machines, s.Min, s.Max = int32(seen.Ordered[f.Name]), int32(f.Min), int32(f.Max)
		s.MaxPods, s.Arch = f.MaxPods, f.Labels[corev1.LabelArchStable]
		s.Message, s.Warning = clip.Bytes(f.Problem, conditions.MaxMessage), clip.Bytes(f.Warning, conditions.MaxMessage)
		s.InstanceType = f.Labels[corev1.LabelInstanceTypeStable]
		s.CPU, s.Memory = resource.NewMilliQuantity(f.Size.MilliCPU, resource.DecimalSI), resource.NewQuantity(f.Size.MemoryBytes, resource.BinarySI)
		s.ExtendedResources = extended.List(f.Extended)
		switch {
		case f.Seen:
			s.Seen = seen.SeenMachine(f)
		case seen.Self.Inventory.Mixed(f.Name):
			s.Seen = nil // it may be of a machine of an older template
		}
		s.PricePerHour, s.PriceSource = "", ""
		if p := seen.Self.Prices[f.Name]; p.Known {
			s.PricePerHour, s.PriceSource = dollars.Format(p.MicroDollars), p.Source
		}
		s.CapacityType, s.InterruptionsPerHour = string(capacity.Of(f.Labels)), ""
		if rate := seen.Self.Prices[f.Name].Interruptions; rate > 0 {
			s.InterruptionsPerHour = dollars.Format(rate)
		}
		if s.BackOffUntil != nil && !s.BackOffUntil.After(seen.Now) {
			s.BackOffUntil = nil
		}
		rows = append(rows, s)
	}
	return rows
}

// row returns the status of a flavor of the fleet: [round.recordObservation] has made one for each.
func (r *round) row(flavor string) *v1alpha1.FlavorStatus {
	all := r.fleet.Status.Flavors
	return &all[slices.IndexFunc(all, func(f v1alpha1.FlavorStatus) bool { return f.Name == flavor })]
}

// warn reports the flavors that endanger the pods on their machines.
func (r *round) warn(seen *fleetobserve.Observation) {
	var warnings []string
	for i := range seen.Self.Inventory.Flavors {
		if f := &seen.Self.Inventory.Flavors[i]; f.Warning != "" {
			warnings = append(warnings, f.Name+": "+f.Warning)
		}
	}
	if len(warnings) > 0 {
		r.report.Event(corev1.EventTypeWarning, v1alpha1.FleetReasonPodsAtRisk, v1alpha1.ActionWarn, strings.Join(warnings, "; "))
	}
}

// degraded sets the condition about flavors in back-off, about what users must repair, and about operations that failed:
// failure is the reason of the first, failures are the messages of all.
func (r *round) degraded(d *decision, failure string, failures []string) {
	seen := d.seen
	var alone []string
	for _, f := range r.fleet.Status.Flavors {
		if f.BackOffUntil != nil {
			alone = append(alone, f.Name)
		}
	}
	unusable := seen.Unusable()
	learned, wake := r.memory.Lessons().Active(r.now)
	if wake > 0 {
		r.wakeIn(wake)
	}
	if len(alone) > 0 {
		alone = []string{"in back-off: " + strings.Join(alone, ", ")}
	}
	unidentified := seen.Unidentified()
	if n := len(unidentified); n > 0 {
		unidentified = []string{fmt.Sprintf("%s not identified, so %s kept with the pods there: %s", plural.Form(n, "the node of 1 machine is", fmt.Sprintf("the nodes of %d machines are", n)), plural.Form(n, "it is", "they are"), unidentified[0])}
	}
	dead := d.input.Dead(r.now)
	if n := len(dead); n > 0 {
		dead = []string{fmt.Sprintf("%s kept and billed although %s not ready: %s", plural.Form(n, "1 machine is", fmt.Sprintf("%d machines are", n)), plural.Form(n, "its node is", "their nodes are"), dead[0])}
	}
	budgets := disruption.Problems(r.fleet.Spec.Consolidation.Budgets, r.now)
	text := strings.Join(slices.Concat(unusable, unidentified, dead, alone, learned, failures, seen.Contested, budgets), "; ")
	for _, held := range []struct {
		reason string
		text   []string
	}{{v1alpha1.FleetReasonNodesUnidentified, unidentified}, {v1alpha1.FleetReasonNodesNotReady, dead}, {v1alpha1.FleetReasonNodePoolsOverlap, seen.Contested}, {v1alpha1.FleetReasonBudgetInvalid, budgets}} {
		if len(held.text) > 0 {
			r.report.Event(corev1.EventTypeWarning, held.reason, v1alpha1.ActionWait, held.text[0])
		}
	}
	switch {
	case len(unusable) > 0:
		r.report.Condition(v1alpha1.FleetDegraded, true, v1alpha1.FleetReasonFlavorsUnavailable, text)
		r.report.Event(corev1.EventTypeWarning, v1alpha1.FleetReasonFlavorsUnavailable, v1alpha1.ActionWait, strings.Join(unusable, "; "))
	case len(unidentified) > 0:
		r.report.Condition(v1alpha1.FleetDegraded, true, v1alpha1.FleetReasonNodesUnidentified, text)
	case len(dead) > 0:
		r.report.Condition(v1alpha1.FleetDegraded, true, v1alpha1.FleetReasonNodesNotReady, text)
	case len(alone) > 0:
		r.report.Condition(v1alpha1.FleetDegraded, true, v1alpha1.FleetReasonMachinesNotReady, text)
	case len(failures) > 0:
		r.report.Condition(v1alpha1.FleetDegraded, true, failure, text)
	case len(learned) > 0:
		r.report.Condition(v1alpha1.FleetDegraded, true, v1alpha1.FleetReasonPodsDoNotFit, text)
	case len(seen.Contested) > 0:
		r.report.Condition(v1alpha1.FleetDegraded, true, v1alpha1.FleetReasonNodePoolsOverlap, text)
	case len(budgets) > 0:
		r.report.Condition(v1alpha1.FleetDegraded, true, v1alpha1.FleetReasonBudgetInvalid, text)
	default:
		r.report.Condition(v1alpha1.FleetDegraded, false, v1alpha1.FleetReasonMachinesReady, "no flavor is in back-off")
	}
}

// summary describes the fleet in one line.
func (r *round) summary() string {
	s, unpriced := &r.fleet.Status, int32(0)
	for i := range s.Flavors {
		if s.Flavors[i].PricePerHour == "" {
			unpriced += s.Flavors[i].Machines
		}
	}
	text := fmt.Sprintf("%s, %d in flight, %s pending, $%s/h", plural.Count(s.Machines, "machine"), s.InFlight, plural.Count(s.PendingPods, "pod"), s.Cost.DollarsPerHour)
	if unpriced > 0 {
		text += fmt.Sprintf(" without %s of unknown price", plural.Count(unpriced, "machine"))
	}
	return text
}

// recordRejected records which pods fit no machine, and whether a limit is the cause or enough machines are on order.
func (r *round) recordRejected(d *decision) {
	limited := d.actions.Fleet.Limit
	for _, u := range d.actions.Fleet.Plan.Unplaceable {
		if u.Limited {
			limited = u.Reason
			break
		}
	}
	planned := d.actions.Fleet.Asked+d.actions.Fleet.Served+d.deferred()+d.withheld() > 0 || len(d.seen.State.Pending) == 0
	if planned {
		r.fleet.Status.Deferral = deferralOf(d.actions.Fleet.Deferral, r.now)
	}
	switch {
	case !planned: // pods are being gathered: nothing is known yet
	case limited == "" && d.withheld() > 0:
		r.report.Condition(v1alpha1.FleetLimited, false, v1alpha1.FleetReasonEnoughOnOrder, d.actions.Fleet.Withheld.Reason())
	case limited == "":
		r.report.Condition(v1alpha1.FleetLimited, false, v1alpha1.FleetReasonWithinLimits, "no pod waits because of a limit")
	default:
		r.report.Condition(v1alpha1.FleetLimited, true, v1alpha1.FleetReasonLimitReached, limited)
		r.report.Event(corev1.EventTypeWarning, v1alpha1.FleetReasonLimitReached, v1alpha1.ActionPlan, limited)
	}
	r.rejectedPods(d)
}

// rejectedPods emits one Event on the fleet about the pods that fit no machine. It names the first of them.
func (r *round) rejectedPods(d *decision) {
	rejected := d.rejections()
	if len(rejected) == 0 {
		delete(r.report.Last, v1alpha1.FleetReasonNoMachineFits)
		return
	}
	text := fmt.Sprintf("%s: %s", rejected[0].Name, rejected[0].Reason)
	if len(rejected) > 1 {
		text = fmt.Sprintf("%d pods, the first is %s", len(rejected), text)
	}
	r.report.Event(corev1.EventTypeWarning, v1alpha1.FleetReasonNoMachineFits, v1alpha1.ActionPlan, text)
}

func (d *decision) rejections() []v1alpha1.Rejection {
	all := slices.Clone(d.seen.Held)
	for _, u := range slices.Concat(d.actions.Fleet.Plan.Unplaceable, d.actions.Fleet.Unexplained) {
		all = append(all, v1alpha1.Rejection{Name: u.Pod, Reason: clip.Bytes(u.Reason, conditions.MaxMessage)})
	}
	return all
}

// recordKept records which under-used or empty machines of the fleet are kept.
func (r *round) recordKept(d *decision) {
	leaves := map[string]bool{}
	for _, node := range d.nodesToEmpty() {
		leaves[node] = true
	}
	var all []v1alpha1.KeptMachine
	for _, stay := range d.actions.Fleet.Kept {
		if _, own := d.seen.Own[stay.Node]; own && !leaves[stay.Node] {
			all = append(all, v1alpha1.KeptMachine{Node: stay.Node, Reason: clip.Bytes(stay.Reason, conditions.MaxMessage)})
		}
	}
	all = all[:min(len(all), maxListed)]
	slices.SortFunc(all, func(a, b v1alpha1.KeptMachine) int { return cmp.Compare(a.Node, b.Node) })
	r.fleet.Status.Kept = all
}

// measure records the actual result of a decision next to the expected one, once nothing is in flight any more.
func (r *round) measure(input *fleetdecide.Observation) {
	d := r.fleet.Status.LastDecision
	if d == nil || d.Measured != nil || d.Mode != v1alpha1.FleetAct || r.fleet.Status.Intent != nil || r.fleet.Status.InFlight > 0 || input.Leaving() > 0 {
		return
	}
	const binding = time.Minute
	expected := time.Duration(d.Expected.ReadySeconds) * time.Second
	if r.fleet.Status.PendingPods > d.Expected.PendingPods && r.now.Sub(d.Time.Time) < expected+binding {
		return // pods are being bound
	}
	d.Measured = &v1alpha1.Outcome{
		DollarsPerHour: r.fleet.Status.Cost.DollarsPerHour, PendingPods: r.fleet.Status.PendingPods,
	}
	if len(d.Buys) > 0 {
		d.Measured.ReadySeconds = int64(r.now.Sub(d.Time.Time).Seconds())
	}
}

// writeStatus writes the status if it has changed. The API server refuses the write if another client has written the
// fleet since it was read. Flavors that do not fit are kept only in memory.
func (r *round) writeStatus(ctx context.Context) error {
	if r.DryRun {
		return nil
	}
	status := &r.fleet.Status
	list, rest := listed(status.Flavors)
	r.memory.unlisted, status.UnlistedFlavors = rest, int32(len(rest))
	if status.Flavors = list; equality.Semantic.DeepEqual(r.before, status) {
		status.Flavors = slices.Concat(list, rest)
		return nil
	}
	if err := r.Client.Status().Update(ctx, r.fleet); err != nil {
		status.Flavors = slices.Concat(list, rest)
		return fmt.Errorf("write the status of NodeFleet %s: %w", r.fleet.Name, err)
	}
	r.before = status.DeepCopy()
	status.Flavors = append(status.Flavors, rest...)
	return nil
}

// checkPrices sets the condition about prices, and suspends a fleet none of whose flavors has a price. without names the
// flavors without one.
func (r *round) checkPrices(self *fleetobserve.Stock, without string) error {
	if without == "" {
		r.report.Condition(v1alpha1.FleetPriced, true, v1alpha1.FleetReasonPricesKnown, "every flavor that can be bought has a price")
		return nil
	}
	r.report.Condition(v1alpha1.FleetPriced, false, v1alpha1.FleetReasonPriceUnknown, without)
	for _, p := range self.Prices {
		if p.Known {
			r.report.Event(corev1.EventTypeWarning, v1alpha1.FleetReasonPriceUnknown, v1alpha1.ActionBuy, without)
			return nil
		}
	}
	return &waiting{v1alpha1.FleetReasonPriceUnknown, without}
}

// Limits of the lists in a status. maxFlavors is the maximum number of flavors, orders and releases that the API
// allows. maxFlavorBytes is the approximate share that they may take of an object in etcd, which is limited to 1.5 MiB.
// maxUnused is the maximum number of listed flavors without machines and learned values: a status is written in most
// rounds, and larger ones take the API server longer. rowBytes is the approximate size of a row without its texts: its
// fields, and their names in metadata.managedFields, which repeat the name of the flavor.
const (
	maxFlavors     = fleetdecide.MaxFlavors
	maxFlavorBytes = 1 << 20
	maxUnused      = 100
	rowBytes       = 600
)

// listed splits the flavors of a fleet into those that fit into its status, ordered by name, and the others. Flavors
// with machines come first, then those with learned values that must not be forgotten, then those that can be bought,
// cheapest first, then the rest; ties by name. It may reorder all.
func listed(all []v1alpha1.FlavorStatus) (list, rest []v1alpha1.FlavorStatus) {
	size := func(f *v1alpha1.FlavorStatus) int {
		return rowBytes + 2*len(f.Name) + len(f.InstanceType) + len(f.Message) + len(f.Warning)
	}
	total, unused := 0, 0
	for i := range all {
		total += size(&all[i])
		if listRank(&all[i]) >= rankUnused {
			unused++
		}
	}
	if len(all) <= maxFlavors && total <= maxFlavorBytes && unused <= maxUnused {
		return all, nil
	}
	slices.SortFunc(all, func(a, b v1alpha1.FlavorStatus) int {
		return cmp.Or(cmp.Compare(listRank(&a), listRank(&b)), cmp.Compare(listPrice(&a), listPrice(&b)), cmp.Compare(a.Name, b.Name))
	})
	n, bytes := 0, 0
	for most := min(maxFlavors, len(all)-unused+maxUnused); n < min(len(all), most); n++ {
		if bytes += size(&all[n]); bytes > maxFlavorBytes {
			break
		}
	}
	list, rest = slices.Clone(all[:n]), slices.Clone(all[n:])
	slices.SortFunc(list, func(a, b v1alpha1.FlavorStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list, rest
}

// rankUnused is the rank of flavors without anything to remember.
const rankUnused = 3

// listRank ranks flavors by how much is lost if they are not listed.
func listRank(f *v1alpha1.FlavorStatus) int {
	switch {
	case f.Machines > 0:
		return 0
	case f.BackOffUntil != nil || f.Failures > 0:
		return 1
	case f.Lag != nil || f.Seen != nil:
		return 2
	case f.Message == "" && f.PricePerHour != "":
		return rankUnused
	}
	return rankUnused + 1
}

// listPrice returns the price of a flavor in micro-dollars per hour. Flavors without a price come last.
func listPrice(f *v1alpha1.FlavorStatus) int64 {
	price, err := dollars.Parse(f.PricePerHour)
	if err != nil {
		return math.MaxInt64
	}
	return price
}
