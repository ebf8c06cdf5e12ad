package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// maxListed is the maximum length of each list in a status, because objects in etcd must be small.
const maxListed = 100

func (r *round) condition(kind string, is bool, reason, message string) {
	conditions.Set(&r.fleet.Status.Conditions, kind, is, reason, message, r.fleet.Generation, r.now)
}

// tell emits an Event, unless it repeats the last one of its reason.
func (r *round) tell(kind, reason, action, message string) {
	if r.memory.said[reason] == message {
		return
	}
	r.memory.said[reason] = message
	if r.DryRun {
		r.info(context.Background(), message, "fleet", r.fleet.Name, "reason", reason)
		return
	}
	r.Events.Eventf(r.fleet, nil, kind, reason, action, "%s", clip.Bytes(message, conditions.MaxMessage))
}

// count records the observation in the status.
func (r *round) count() {
	status := &r.fleet.Status
	status.Machines, status.InFlight, status.PendingPods = 0, 0, int32(len(r.seen.state.Pending)+len(r.seen.held))
	flavors := make([]v1alpha1.FlavorStatus, 0, len(r.self.inventory.Flavors))
	for i := range r.self.inventory.Flavors {
		f := &r.self.inventory.Flavors[i]
		s := *r.status(f.Name)
		s.Machines, s.Min, s.Max = int32(r.seen.ordered[f.Name]), int32(f.Min), int32(f.Max)
		s.MaxPods, s.Arch, s.Message = f.MaxPods, f.Labels[corev1.LabelArchStable], clip.Bytes(cmp.Or(f.Problem, f.Warning), conditions.MaxMessage)
		s.InstanceType = f.Labels[corev1.LabelInstanceTypeStable]
		s.CPU, s.Memory = resource.NewMilliQuantity(f.Size.MilliCPU, resource.DecimalSI), resource.NewQuantity(f.Size.MemoryBytes, resource.BinarySI)
		if f.Seen {
			s.Seen = r.seenMachine(f)
		}
		s.PricePerHour, s.PriceSource = "", ""
		if p := r.self.prices[f.Name]; p.known {
			s.PricePerHour, s.PriceSource = dollars.Format(p.microDollars), p.source
		}
		if s.BackOffUntil != nil && !s.BackOffUntil.After(r.now) {
			s.BackOffUntil = nil
		}
		status.Machines += s.Machines
		status.InFlight += int32(r.seen.inFlight[f.Name])
		flavors = append(flavors, s)
	}
	status.Flavors = flavors
	status.Cost.DollarsPerHour = dollars.Format(r.seen.paid)
	r.least = r.lowerBound()
	status.Cost.LowerBoundDollarsPerHour = dollars.Format(r.least)
	r.measure()
	r.degraded()
	r.warn()
	r.publish()
}

// seenMachine returns what pods can use of an existing machine of a flavor. What static pods use is known only while
// there is a machine.
func (r *round) seenMachine(f *provider.Flavor) *v1alpha1.SeenMachine {
	t := r.self.traits[f.Name]
	return &v1alpha1.SeenMachine{
		Template: f.Template, MaxPods: max(0, f.MaxPods-t.statics),
		CPU:    *resource.NewMilliQuantity(max(0, f.Size.MilliCPU-t.static.MilliCPU), resource.DecimalSI),
		Memory: *resource.NewQuantity(max(0, f.Size.MemoryBytes-t.static.MemoryBytes), resource.BinarySI),
	}
}

// lowerBound returns the least price of machines of the fleet's flavors that hold all its pods.
func (r *round) lowerBound() int64 {
	state := &r.seen.state
	var own []cluster.Pod
	for i := range state.Nodes {
		if _, is := r.seen.own[state.Nodes[i].Name]; is {
			own = append(own, state.Nodes[i].Pods...)
		}
	}
	return fleetdecide.LowerBound(slices.Concat(own, state.Pending), state.Flavors)
}

// warn reports the flavors that endanger the pods on their machines.
func (r *round) warn() {
	var warnings []string
	for i := range r.self.inventory.Flavors {
		if f := &r.self.inventory.Flavors[i]; f.Warning != "" {
			warnings = append(warnings, f.Name+": "+f.Warning)
		}
	}
	if len(warnings) > 0 {
		r.tell(corev1.EventTypeWarning, "PodsAtRisk", "Warn", strings.Join(warnings, "; "))
	}
}

// unidentified describes the machines whose nodes should have been identified by now.
func (r *round) unidentified() (all []string) {
	for _, m := range r.self.inventory.Machines {
		f := r.flavor(m.Flavor)
		if m.Unidentified != "" && !m.Leaving && f != nil && r.now.Sub(m.Ordered) >= joinTimeout(r.fleet, f) {
			all = append(all, m.Unidentified)
		}
	}
	return all
}

// degraded sets the condition about flavors in back-off and about what users must repair.
func (r *round) degraded() {
	var alone, unusable, problems []string
	for _, f := range r.fleet.Status.Flavors {
		if f.BackOffUntil != nil {
			alone = append(alone, f.Name)
		}
	}
	for i := range r.self.inventory.Flavors {
		// A flavor has the same problem in all zones.
		if f := &r.self.inventory.Flavors[i]; f.Named && f.Problem != "" && !slices.Contains(problems, f.Problem) {
			problems = append(problems, f.Problem)
			unusable = append(unusable, f.Name+": "+f.Problem)
		}
	}
	learned, wake := r.memory.Lessons().Active(r.now)
	if wake > 0 {
		r.wakeIn(wake)
	}
	if len(alone) > 0 {
		alone = []string{"in back-off: " + strings.Join(alone, ", ")}
	}
	unidentified := r.unidentified()
	if n := len(unidentified); n > 0 {
		unidentified = []string{fmt.Sprintf("the nodes of %d machines are not identified, so these machines and their pods are kept: %s", n, unidentified[0])}
	}
	dead := r.plainly.Dead(r.now)
	if n := len(dead); n > 0 {
		dead = []string{fmt.Sprintf("%d machines are kept and billed although their nodes are not ready: %s", n, dead[0])}
	}
	text := strings.Join(slices.Concat(unusable, unidentified, dead, alone, learned, r.failures), "; ")
	for _, held := range []struct {
		reason string
		text   []string
	}{{"NodesUnidentified", unidentified}, {"NodesNotReady", dead}} {
		if len(held.text) > 0 {
			r.tell(corev1.EventTypeWarning, held.reason, "Hold", held.text[0])
		}
	}
	switch {
	case len(unusable) > 0:
		r.condition(v1alpha1.FleetDegraded, true, "FlavorsUnusable", text)
		r.tell(corev1.EventTypeWarning, "FlavorsUnusable", "Hold", strings.Join(unusable, "; "))
	case len(unidentified) > 0:
		r.condition(v1alpha1.FleetDegraded, true, "NodesUnidentified", text)
	case len(dead) > 0:
		r.condition(v1alpha1.FleetDegraded, true, "NodesNotReady", text)
	case len(alone) > 0:
		r.condition(v1alpha1.FleetDegraded, true, "MachinesNotReady", text)
	case len(r.failures) > 0:
		r.condition(v1alpha1.FleetDegraded, true, r.failure, text)
	case len(learned) > 0:
		r.condition(v1alpha1.FleetDegraded, true, "PodsDoNotFit", text)
	default:
		r.condition(v1alpha1.FleetDegraded, false, "MachinesReady", "no flavor is in back-off")
	}
}

// summary describes the fleet in one line.
func (r *round) summary() string {
	s := &r.fleet.Status
	return fmt.Sprintf("%d machines, %d in flight, %d pods pending, $%s/h", s.Machines, s.InFlight, s.PendingPods, s.Cost.DollarsPerHour)
}

// recordRejected records which pods fit no machine, and whether a limit is the cause.
func (r *round) recordRejected() {
	limited := ""
	for _, u := range r.actions.Fleet.Plan.Unplaceable {
		if u.Limited {
			limited = u.Reason
			break
		}
	}
	planned := r.actions.Fleet.Asked+r.actions.Fleet.Served+r.deferred() > 0 || len(r.seen.state.Pending) == 0
	if planned {
		r.fleet.Status.Deferral = r.deferral()
	}
	switch {
	case !planned: // pods are being gathered: nothing is known yet
	case limited == "":
		r.condition(v1alpha1.FleetLimited, false, "WithinLimits", "no pod waits because of a limit")
	default:
		r.condition(v1alpha1.FleetLimited, true, "LimitReached", limited)
		r.tell(corev1.EventTypeWarning, "LimitReached", "Limit", limited)
	}
	r.rejectedPods()
}

// rejectedPods emits one Event on the fleet about the pods that fit no machine. It names the first of them.
func (r *round) rejectedPods() {
	rejected := r.rejections()
	if len(rejected) == 0 {
		delete(r.memory.said, "NoMachineFits")
		return
	}
	text := fmt.Sprintf("%s: %s", rejected[0].Name, rejected[0].Reason)
	if len(rejected) > 1 {
		text = fmt.Sprintf("%d pods, the first is %s", len(rejected), text)
	}
	r.tell(corev1.EventTypeWarning, "NoMachineFits", "Plan", text)
}

func (r *round) rejections() []v1alpha1.Rejection {
	all := slices.Clone(r.seen.held)
	for _, u := range slices.Concat(r.actions.Fleet.Plan.Unplaceable, r.actions.Fleet.Unexplained) {
		all = append(all, v1alpha1.Rejection{Name: u.Pod, Reason: clip.Bytes(u.Reason, conditions.MaxMessage)})
	}
	return all
}

// recordKept records which under-used or empty machines of the fleet are kept.
func (r *round) recordKept() {
	leaves := map[string]bool{}
	for _, node := range r.nodesToEmpty() {
		leaves[node] = true
	}
	var all []v1alpha1.KeptMachine
	for _, stay := range r.actions.Fleet.Kept {
		if _, own := r.seen.own[stay.Node]; own && !leaves[stay.Node] {
			all = append(all, v1alpha1.KeptMachine{Node: stay.Node, Reason: clip.Bytes(stay.Reason, conditions.MaxMessage)})
		}
	}
	all = all[:min(len(all), maxListed)]
	slices.SortFunc(all, func(a, b v1alpha1.KeptMachine) int { return cmp.Compare(a.Node, b.Node) })
	r.fleet.Status.Kept = all
}

// recordDecision records the decision, with reasons.
func (r *round) recordDecision(intent *v1alpha1.FleetIntent) {
	d := &v1alpha1.FleetDecision{ID: intent.ID, Time: intent.Time, Mode: r.mode()}
	plan := &r.actions.Fleet.Plan
	for _, o := range intent.Orders {
		d.Buys = append(d.Buys, r.decidedPurchase(o))
	}
	for _, release := range r.actions.Fleet.Release {
		d.Releases = append(d.Releases, v1alpha1.DecidedRelease{Node: release.Node, Reason: clip.Bytes(release.Reason, conditions.MaxMessage)})
	}
	for _, drain := range r.actions.Fleet.Drains {
		d.Releases = append(d.Releases, v1alpha1.DecidedRelease{Node: drain.Node, Reason: clip.Bytes(drain.Reason, conditions.MaxMessage)})
	}
	if e := r.actions.Fleet.Exchange; e != nil {
		for _, node := range e.Nodes {
			d.Releases = append(d.Releases, v1alpha1.DecidedRelease{Node: node, Reason: clip.Bytes(e.Reason, conditions.MaxMessage)})
		}
	}
	d.Rejected = r.rejections()
	for _, stay := range r.actions.Fleet.Kept {
		d.Rejected = append(d.Rejected, v1alpha1.Rejection{Name: stay.Node, Reason: clip.Bytes(stay.Reason, conditions.MaxMessage)})
	}
	for _, f := range r.fleet.Status.Flavors {
		if f.Message != "" {
			d.Rejected = append(d.Rejected, v1alpha1.Rejection{Name: f.Name, Reason: f.Message})
		} else if f.BackOffUntil != nil {
			d.Rejected = append(d.Rejected, v1alpha1.Rejection{Name: f.Name, Reason: "in back-off until " + f.BackOffUntil.UTC().Format("15:04:05") + ": the nodes of its machines did not become ready"})
		}
	}
	d.Buys, d.Releases, d.Rejected = d.Buys[:min(len(d.Buys), maxListed)], d.Releases[:min(len(d.Releases), maxListed)], d.Rejected[:min(len(d.Rejected), maxListed)]
	r.recordTerms(d)
	var price int64
	for _, o := range intent.Orders {
		price += int64(o.To-o.From) * r.self.prices[o.Flavor].microDollars
	}
	expected := r.seen.paid + price
	for _, node := range r.nodesToEmpty() {
		expected -= r.self.prices[r.seen.own[node].Flavor].microDollars
	}
	d.Expected = v1alpha1.Outcome{DollarsPerHour: dollars.Format(expected), PendingPods: int32(len(r.rejections()) + r.deferred())}
	if len(intent.Orders) > 0 {
		d.PricePerHour = dollars.Format(price)
		if len(plan.Machines) > 0 {
			d.LowerBoundPerHour = dollars.Format(plan.LowerBoundMicroDollarsPerHour)
		}
		d.Expected.ReadySeconds = int64(r.longestOf(intent.Orders).Seconds())
	}
	d.Summary = clip.Bytes(r.summarize(d), conditions.MaxMessage)
	r.fleet.Status.LastDecision = d
	metricDecisions.WithLabelValues(r.fleet.Name, kindOf(d), string(d.Mode)).Inc()
	r.tell(corev1.EventTypeNormal, kindOf(d), "Decide", d.Summary)
}

func (r *round) longestOf(orders []v1alpha1.FleetOrder) (longest time.Duration) {
	for _, o := range orders {
		longest = max(longest, r.lag(o.Flavor))
	}
	return longest
}

func kindOf(d *v1alpha1.FleetDecision) string {
	switch {
	case len(d.Buys) == 0:
		return "Release"
	case len(d.Releases) == 0:
		return "Buy"
	}
	return "Exchange"
}

// nodesToEmpty returns the nodes that are cordoned because their machines are not worth their price.
func (r *round) nodesToEmpty() []string {
	var nodes []string
	d := &r.actions.Fleet
	for _, release := range d.Release {
		nodes = append(nodes, release.Node)
	}
	for _, drain := range d.Drains {
		nodes = append(nodes, drain.Node)
	}
	if d.Exchange != nil {
		nodes = append(nodes, d.Exchange.Nodes...)
	}
	return nodes
}

func (r *round) decidedPurchase(o v1alpha1.FleetOrder) v1alpha1.DecidedPurchase {
	d := v1alpha1.DecidedPurchase{Flavor: o.Flavor, Count: o.To - o.From}
	add := func(flavor string, pods int, reason string) {
		if flavor == o.Flavor {
			d.Pods += int32(pods)
			d.Reason = cmp.Or(d.Reason, clip.Bytes(reason, conditions.MaxMessage))
		}
	}
	machines := r.actions.Fleet.Plan.Machines
	for i := range machines {
		add(machines[i].Flavor, len(machines[i].Pods), machines[i].Reason)
	}
	if e := r.actions.Fleet.Exchange; e != nil {
		for i := range e.Buy {
			add(e.Buy[i].Flavor, len(e.Buy[i].Pods), e.Reason)
		}
	}
	return d
}

// summarize describes a decision in one line.
func (r *round) summarize(d *v1alpha1.FleetDecision) string {
	verb := "buy"
	if d.Mode == v1alpha1.FleetObserve {
		verb = "would buy"
	}
	var parts []string
	if len(d.Buys) > 0 {
		var what []string
		for _, b := range d.Buys {
			what = append(what, fmt.Sprintf("%d %s", b.Count, b.Flavor))
		}
		part := fmt.Sprintf("%s %s", verb, strings.Join(what, ", "))
		if r.actions.Fleet.Exchange == nil {
			part += fmt.Sprintf(" for %d pods at $%s/h (bound $%s/h)", r.actions.Fleet.Asked, d.PricePerHour, d.LowerBoundPerHour)
		}
		parts = append(parts, part)
		if r.actions.Fleet.Served > 0 {
			parts = append(parts, fmt.Sprintf("%d pods have room without new machines", r.actions.Fleet.Served))
		}
	}
	if w := r.actions.Fleet.Deferral; w != nil {
		parts = append(parts, fmt.Sprintf("%d pods wait for room that becomes free, which saves $%s", len(w.Pods), dollars.Format(w.Saves())))
	}
	if len(d.Releases) > 0 {
		parts = append(parts, strings.Replace(verb, "buy", "release", 1)+" "+named(d.Releases)+": "+d.Releases[0].Reason)
	}
	return strings.Join(parts, "; ")
}

// named names the released machines, or the first ones and the number of the others.
func named(releases []v1alpha1.DecidedRelease) string {
	const most = 5
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

// measure records the actual result of a decision next to the expected one, once nothing is in flight any more.
func (r *round) measure() {
	d := r.fleet.Status.LastDecision
	if d == nil || d.Measured != nil || d.Mode != v1alpha1.FleetAct || r.fleet.Status.Intent != nil || r.fleet.Status.InFlight > 0 || r.plainly.Leaving() > 0 {
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
