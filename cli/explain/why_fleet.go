package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/cli/explain/shortage"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// The actions of a fleet for a pending pod.
const (
	// Ordered means that a machine was ordered for it and is starting, WouldOrder that one would be ordered in mode Act,
	// and Joined that no machine that was ordered for it is starting any more: machines have joined, or have failed.
	Ordered    = "Ordered"
	WouldOrder = "WouldOrder"
	Joined     = "Joined"
	// Waits means that waiting for room to become free is cheaper.
	Waits = "Waits"
	// Gathers means that the fleet waits for more pods before it buys machines.
	Gathers = "Gathers"
	// Unlisted means that the fleet's last decision lists only a part of its pods, and this one is not in that part.
	Unlisted = "Unlisted"
	// Unrecorded means that machines of the fleet have no ready node yet, and that its last decision does not say that one is
	// for this pod: an earlier decision may have.
	Unrecorded = "Unrecorded"
	// Leaves means that another buyer of machines, such as a NodePool of Karpenter, fits the pod, too, and may buy for it.
	Leaves = "Leaves"
	// Nothing means that the fleet does nothing.
	Nothing = "Nothing"
)

// FleetWhy is what a NodeFleet can do and does for a pending pod.
type FleetWhy struct {
	Fleet string `json:"fleet"`
	Class string `json:"class"`
	Mode  string `json:"mode"`
	// Flavors are the fleet's flavors by why their machines cannot run the pod. The empty reason is
	// for flavors whose machines can.
	Flavors []Tally `json:"flavors,omitempty"`
	// Short are the resources of which machines of flavors have too little, if no flavor is without a reason.
	Short []shortage.Flavors `json:"short,omitempty"`
	// Note describes data that could not be read.
	Note string `json:"note,omitempty"`
	// Doing is one of the constants above, and Because explains it in a sentence.
	Doing   string `json:"doing"`
	Because string `json:"because"`
	// Flavor is the ordered flavor, and ExpectedTime is when the machine is expected to accept
	// pods.
	Flavor       string     `json:"flavor,omitempty"`
	OrderedTime  *time.Time `json:"orderedTime,omitempty"`
	ExpectedTime *time.Time `json:"expectedTime,omitempty"`
	// Problems are the fleet's conditions that report a problem, and Events are its latest Events.
	Problems []string `json:"problems,omitempty"`
	Events   []string `json:"events,omitempty"`
}

// mostEvents is the maximum number of Events of a fleet to show.
const mostEvents = 3

// lastEvents returns the latest Event of each reason, the oldest of these first. Its argument is
// sorted by time.
func lastEvents(all []corev1.Event) (lines []string) {
	listed := map[string]bool{}
	for i := len(all) - 1; i >= 0 && len(lines) < mostEvents; i-- {
		if e := &all[i]; !listed[e.Reason] {
			listed[e.Reason] = true
			lines = append(lines, fmt.Sprintf("%s %s: %s", clockOf(EventTime(e)), e.Reason, e.Message))
		}
	}
	slices.Reverse(lines)
	return lines
}

func fleetClass(f *v1alpha1.NodeFleet) class.Class { return fleetdecide.ClassOf(f.Spec.Class) }

func newFleetWhy(in *WhyInput, f *FleetInput) FleetWhy {
	w := FleetWhy{Fleet: f.Fleet.Name, Class: string(f.Fleet.Spec.Class), Mode: string(f.Fleet.Spec.Mode), Note: f.Unread, Problems: problems(f.Fleet)}
	w.Events = lastEvents(f.Events)
	pod, is := waiting(in, f)
	if why := passedOver(in, f, is); why != "" {
		w.Doing, w.Because = Nothing, why
		return w
	}
	if pod.Held != "" {
		w.Doing, w.Because = Nothing, "no machine is planned for it: "+pod.Held
		if strings.HasSuffix(pod.Held, world.NotRead) {
			w.Because = "whether a machine is planned for it is unknown: " + pod.Held
		}
		return w
	}
	reasons := refusals(in, f, &pod.Pod)
	w.Flavors = tally(reasons)
	if len(w.Flavors) > 0 && w.Flavors[0].Reason != "" {
		w.Short = shortage.OfFlavors(pod.Size, tooSmall(f, reasons))
	}
	w.act(in, f, &pod)
	return w
}

// passedOver returns why a fleet does not consider the pod, or "". waits is set if it does.
func passedOver(in *WhyInput, f *FleetInput, waits bool) string {
	pod := in.Pod
	_, unschedulable := world.Unschedulable(pod)
	why := fleetobserve.PassedOver(pod, f.Fleet)
	switch {
	case class.EveryNode(pod):
		return "no machine is bought for a pod of a DaemonSet or a static pod"
	case why != "":
		return why
	case waits:
		return ""
	case pod.DeletionTimestamp != nil:
		return "no machine is bought for a pod that is being deleted"
	case len(pod.Spec.SchedulingGates) > 0:
		return "no machine is planned for it: scheduling gate " + pod.Spec.SchedulingGates[0].Name
	case world.Restoring(pod):
		return "a Migration created the pod, and no machines are bought for migrations"
	case unschedulable:
		return "no machine is bought for a pod that has a node in view: it is nominated to one, or a Migration reserves room for it"
	}
	return "no scheduler has reported it as unschedulable, and before that no machine is planned for it"
}

// refusals returns, for each flavor of a fleet, why no machine of it is bought for the pod, or "".
func refusals(in *WhyInput, f *FleetInput, pod *cluster.Pod) map[string]string {
	all := map[string]string{}
	if f.Unread == "" {
		keptOff, err := in.View.KeptOff(in.Pod)
		for i := range f.Offers {
			o := &f.Offers[i]
			why := o.Refuses(pod)
			if why == "" && err == nil {
				why = keptOff(o.Host())
				if why != "" {
					why = "not with the pods that are on nodes now: " + why
				}
			}
			all[o.Name] = why
		}
		return all
	}
	for i := range f.Fleet.Status.Flavors {
		s := &f.Fleet.Status.Flavors[i]
		all[s.Name] = refusedByStatus(s, pod, in.View.Extended(), in.Now)
	}
	return all
}

// tooSmall returns the room of the flavors that are too small for a pod, by their reasons.
func tooSmall(f *FleetInput, reasons map[string]string) map[string]packing.Size {
	rooms := map[string]packing.Size{}
	for i := range f.Offers {
		rooms[f.Offers[i].Name] = f.Offers[i].Room()
	}
	if f.Unread != "" {
		for i := range f.Fleet.Status.Flavors {
			rooms[f.Fleet.Status.Flavors[i].Name] = sizeOf(&f.Fleet.Status.Flavors[i])
		}
	}
	maps.DeleteFunc(rooms, func(flavor string, _ packing.Size) bool {
		return !strings.HasPrefix(reasons[flavor], purchase.TooSmall)
	})
	return rooms
}

func sizeOf(s *v1alpha1.FlavorStatus) packing.Size {
	return packing.Size{MilliCPU: s.CPU.MilliValue(), MemoryBytes: s.Memory.Value()}
}

// refusedByStatus returns why no machine of a flavor is bought for a pod, judged by the status of
// the fleet, which has neither labels nor taints. names are those of the pod's extended resources.
func refusedByStatus(s *v1alpha1.FlavorStatus, pod *cluster.Pod, names *extended.Names, now time.Time) string {
	alone := fleetobserve.BackingOff(s, now)
	switch {
	case s.Message != "":
		return s.Message
	case s.PricePerHour == "":
		return "its price is unknown"
	case alone != "":
		return alone
	case s.Machines >= s.Max:
		return "quota: it has its maximum of " + plural.Count(s.Max, "machine")
	}
	asks, has := purchase.Pod{Item: pod.Item, Arch: pod.Arch}, extended.Amounts(s.ExtendedResources)
	f := purchase.Flavor{Name: s.Name, Arch: s.Arch, MaxPods: new(s.MaxPods), Size: sizeOf(s), GPUs: names.GPUs(has), Resources: names}
	f.Size.Extended = names.Capacity(has)
	return asks.RefusedBy(&f)
}

// act sets what the fleet does for an unschedulable pod.
func (w *FleetWhy) act(in *WhyInput, f *FleetInput, pod *world.Waiting) {
	rejected := rejection(f, pod)
	w.decided(in, f, pod, rejected)
	s := &f.Fleet.Status
	if s.InFlight == 0 || w.Doing != Nothing && w.Doing != Unlisted || w.Because == rejected {
		return
	}
	if w.Doing == Nothing {
		w.Doing = Unrecorded
	}
	w.Because += fmt.Sprintf("; machines of the fleet without a ready node: %d", s.InFlight)
	w.expect(f)
}

// decided sets what the fleet has decided about an unschedulable pod, which may have been rejected.
func (w *FleetWhy) decided(in *WhyInput, f *FleetInput, pod *world.Waiting, rejected string) {
	s := &f.Fleet.Status
	ready := meta.FindStatusCondition(s.Conditions, v1alpha1.FleetReady)
	buy := boughtFor(s.LastDecision, pod.Name)
	takes := slices.ContainsFunc(w.Flavors, func(t Tally) bool { return t.Reason == "" })
	switch {
	case s.Deferral != nil && slices.Contains(s.Deferral.PodNames, pod.Name):
		w.defers(f)
	case buy != nil && !s.LastDecision.Time.Time.Before(pod.Since.Add(-time.Second)):
		w.ordered(in, f, buy)
	case ready == nil:
		w.Doing, w.Because = Nothing, "the autoscaler has not processed the fleet yet: check that it is running"
	case ready.Status != metav1.ConditionTrue:
		w.Doing, w.Because = Nothing, fmt.Sprintf("the fleet is on hold (%s): %s", ready.Reason, ready.Message)
	case f.Left[pod.Name] != "":
		w.Doing, w.Because = Leaves, f.Left[pod.Name]
	case !takes:
		w.Doing, w.Because = Nothing, cmp.Or(rejected, "no machine of its flavors can be bought for the pod now")
	case meta.IsStatusConditionTrue(s.Conditions, v1alpha1.FleetLimited):
		w.Doing, w.Because = Nothing, "a limit is reached: "+meta.FindStatusCondition(s.Conditions, v1alpha1.FleetLimited).Message
	case enoughOnOrder(s) != "":
		w.Doing, w.Because = Nothing, "the fleet waits for machines on order: "+enoughOnOrder(s)
	case in.Now.Sub(pod.Since) < f.Fleet.Spec.Scaling.BatchMax.Duration:
		w.Doing, w.Because = Gathers, fmt.Sprintf("the fleet waits for up to %v for more pods, to plan machines for all of them together (spec.scaling.batchMax)", f.Fleet.Spec.Scaling.BatchMax.Duration)
	default:
		w.unnamed(f, pod, rejected)
	}
}

// enoughOnOrder returns why the fleet buys no more machines although none of its limits is reached, or "".
func enoughOnOrder(s *v1alpha1.NodeFleetStatus) string {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.FleetLimited)
	if c == nil || c.Reason != v1alpha1.FleetReasonEnoughOnOrder {
		return ""
	}
	return c.Message
}

// defers sets until when the fleet waits for room, or would wait if it were neither in mode Observe nor paused.
func (w *FleetWhy) defers(f *FleetInput) {
	d := f.Fleet.Status.Deferral
	if f.Fleet.Spec.Mode == v1alpha1.FleetObserve || meta.IsStatusConditionTrue(f.Fleet.Status.Conditions, v1alpha1.ConditionPaused) {
		w.Doing, w.Because = Nothing, fmt.Sprintf("it changes nothing now, and would wait for room: %s; room is expected at %s; waiting would save $%s", d.Reason, clockOf(d.RoomTime.Time), d.SavesDollars)
		return
	}
	w.Doing, w.Because = Waits, fmt.Sprintf("%s; room is expected at %s, and a machine is bought at %s at the latest; waiting saves $%s",
		d.Reason, clockOf(d.RoomTime.Time), clockOf(d.BuyTime.Time), d.SavesDollars)
	w.ExpectedTime = &d.RoomTime.Time
}

// unnamed sets what is known about a pod that no decision names.
func (w *FleetWhy) unnamed(f *FleetInput, pod *world.Waiting, rejected string) {
	s := &f.Fleet.Status
	w.Doing, w.Because = Nothing, rejected
	if w.Because != "" {
		return
	}
	d := s.LastDecision
	older := d != nil && d.Time.Time.Before(pod.Since.Add(-time.Second))
	listed, pods := listedPods(d, s.Deferral)
	if older {
		listed, pods = listedPods(nil, s.Deferral)
	}
	switch {
	case d == nil && s.Deferral == nil:
		w.Because = "the fleet has recorded no decision yet"
	case listed < pods:
		w.Doing, w.Because = Unlisted, fmt.Sprintf("the fleet's last decision lists %d of %s, and this one is not among them", listed, plural.Count(pods, "pod"))
	case older:
		w.Because = fmt.Sprintf("the fleet's last decision, at %s, is older than the time since which the pod is unschedulable", clockOf(d.Time.Time))
	default:
		w.Because = "the fleet's last decision does not name it"
	}
}

// listedPods returns how many pods the lists of a decision name, and how many pods it is about.
func listedPods(d *v1alpha1.FleetDecision, deferral *v1alpha1.FleetDeferral) (listed, pods int) {
	if deferral != nil {
		listed, pods = len(deferral.PodNames), int(deferral.Pods)
	}
	if d == nil {
		return listed, pods
	}
	for i := range d.Buys {
		pods += int(d.Buys[i].Pods)
		for j := range d.Buys[i].Machines {
			listed += len(d.Buys[i].Machines[j].PodNames)
		}
	}
	return listed, pods
}

// ordered sets which machine was ordered for the pod, and when it is expected.
func (w *FleetWhy) ordered(in *WhyInput, f *FleetInput, buy *v1alpha1.DecidedPurchase) {
	d := f.Fleet.Status.LastDecision
	w.Flavor = buy.Flavor
	of := fmt.Sprintf("%d of flavor %s for this pod", buy.Count, buy.Flavor)
	if buy.Pods > 1 {
		of = fmt.Sprintf("%d of flavor %s for %s, including this one", buy.Count, buy.Flavor, plural.Count(buy.Pods, "pod"))
	}
	if d.Mode == v1alpha1.FleetObserve {
		w.Doing, w.Because = WouldOrder, fmt.Sprintf("in mode Act it would have bought %s at %s: %s", of, clockOf(d.Time.Time), buy.Reason)
		return
	}
	expected := d.Time.Add(fleetobserve.ReadyAfter(f.Fleet, buy.Flavor))
	w.Doing, w.OrderedTime, w.ExpectedTime = Ordered, &d.Time.Time, &expected
	w.Because = fmt.Sprintf("machines were ordered at %s, %s: %s", clockOf(d.Time.Time), of, buy.Reason)
	joined, starting := progress(in, f, buy)
	if len(joined) > 0 {
		w.Because += fmt.Sprintf("; joined since: %s", someNames(joined))
	}
	switch {
	case !starting:
		w.Doing, w.ExpectedTime = Joined, nil
		w.Because += "; no machine of this order is starting any more"
	case in.Now.After(expected):
		w.Because += fmt.Sprintf("; expected to accept pods at %s, %v ago", clockOf(expected), in.Now.Sub(expected).Round(time.Second))
	default:
		w.Because += fmt.Sprintf("; expected to accept pods at %s", clockOf(expected))
	}
	for i := range f.Machines {
		if m := &f.Machines[i]; ofOrder(m, d, buy) && m.Node == "" && m.Failed+m.Waits != "" {
			w.Because += fmt.Sprintf("; machine %s: %s", m.Name, cmp.Or(m.Failed, m.Waits))
		}
	}
}

// ofOrder reports whether a machine is of a purchase.
func ofOrder(m *provider.Machine, d *v1alpha1.FleetDecision, buy *v1alpha1.DecidedPurchase) bool {
	return m.Flavor == buy.Flavor && !m.Ordered.Before(d.Time.Time)
}

// progress returns the nodes of the machines of a purchase that have joined, and whether another one may be starting.
// Without machines, the status of the fleet says that. A decision whose outcome was measured has none: all its machines were
// ready or abandoned, and what is in flight is something else, such as a machine whose node is not ready any more.
func progress(in *WhyInput, f *FleetInput, buy *v1alpha1.DecidedPurchase) (joined []string, starting bool) {
	s := &f.Fleet.Status
	measured := s.LastDecision.Measured != nil
	if f.Unread != "" {
		return nil, !measured && (s.InFlight > 0 || s.Intent != nil)
	}
	seen, known := int32(0), int32(0) // machines of the order, and machines in flight
	for i := range f.Machines {
		m := &f.Machines[i]
		node := in.View.Nodes[m.Node]
		is, up := ofOrder(m, s.LastDecision, buy), node != nil && world.Joined(node)
		if !up {
			known++
		}
		switch {
		case !is:
			continue
		case up:
			joined = append(joined, m.Node)
		case m.Failed == "" && !m.Leaving:
			starting = true
		}
		seen++
	}
	slices.Sort(joined)
	unseen := seen < buy.Count && (s.InFlight > known || s.Intent != nil)
	return joined, !measured && (starting || unseen)
}

// expect sets when the last of the ordered machines is expected.
func (w *FleetWhy) expect(f *FleetInput) {
	var last time.Time
	for i := range f.Machines {
		if m := &f.Machines[i]; m.Node == "" && !m.Leaving {
			if at := m.Ordered.Add(fleetobserve.ReadyAfter(f.Fleet, m.Flavor)); at.After(last) {
				last = at
			}
		}
	}
	if !last.IsZero() {
		w.ExpectedTime = &last
	}
}

// boughtFor returns the purchase of a decision that names the pod; nil if there is none.
func boughtFor(d *v1alpha1.FleetDecision, pod string) *v1alpha1.DecidedPurchase {
	if d == nil {
		return nil
	}
	for i := range d.Buys {
		for _, m := range d.Buys[i].Machines {
			if slices.Contains(m.PodNames, pod) {
				return &d.Buys[i]
			}
		}
	}
	return nil
}

// rejection returns why the fleet buys nothing for the pod, from its last decision or its Events since the pod waits.
func rejection(f *FleetInput, pod *world.Waiting) string {
	since := pod.Since.Add(-time.Second)
	if d := f.Fleet.Status.LastDecision; d != nil && !d.Time.Time.Before(since) {
		for _, r := range d.Rejected {
			if r.Name == pod.Name {
				return r.Reason
			}
		}
	}
	for i := len(f.Events) - 1; i >= 0; i-- {
		if why, is := rejectedBy(f.Events[i].Message, pod.Name); is && f.Events[i].Reason == "NoMachineFits" && !EventTime(&f.Events[i]).Before(since) {
			return why
		}
	}
	return ""
}

// rejectedBy returns the reason in the message of an Event about pods that fit no machine, if its first pod is this one.
func rejectedBy(message, pod string) (why string, is bool) {
	if _, first, several := strings.Cut(message, " pods, the first is "); several {
		message = first
	}
	return strings.CutPrefix(message, pod+": ")
}

// problems returns the conditions of a fleet that report a problem.
func problems(f *v1alpha1.NodeFleet) (all []string) {
	for i := range f.Status.Conditions {
		if c := status.NewCondition(&f.Status.Conditions[i]); !c.OK {
			all = append(all, c.String())
		}
	}
	return all
}

func (w *FleetWhy) write(b *strings.Builder) {
	fmt.Fprintf(b, "  NodeFleet %s, class %s, mode %s: %s\n", w.Fleet, w.Class, w.Mode, fleetVerbs[w.Doing])
	fmt.Fprintf(b, "    %s.\n", strings.TrimSuffix(w.Because, "."))
	if len(w.Flavors) > 0 {
		b.WriteString("    Its flavors:\n")
		free := "would accept it"
		if w.Note != "" {
			free = "excluded by nothing that its status has"
		}
		writeTallies(b, "    ", named(w.Flavors, free))
	}
	for i := range w.Short {
		fmt.Fprintf(b, "    %s\n", &w.Short[i])
	}
	if w.Note != "" {
		fmt.Fprintf(b, "    %s\n", w.Note)
	}
	for _, p := range w.Problems {
		fmt.Fprintf(b, "    %s\n", p)
	}
	for _, e := range w.Events {
		fmt.Fprintf(b, "    Event %s\n", e)
	}
}

var fleetVerbs = map[string]string{
	Ordered: "a machine is starting", WouldOrder: "would buy a machine", Joined: "no machine for it is starting any more", Waits: "waits for room to become free",
	Gathers: "waits for more pods", Leaves: "leaves it to another buyer of machines", Unlisted: "its last decision does not list the pod",
	Unrecorded: "whether a machine is starting for the pod is not recorded", Nothing: "does nothing for it",
}

// EventTime returns when an Event was last observed.
func EventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
