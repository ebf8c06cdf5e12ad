package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/world"
)

// The actions of a fleet for a pending pod.
const (
	// Ordered means that a machine was ordered for it, WouldOrder that one would be in mode Act.
	Ordered    = "Ordered"
	WouldOrder = "WouldOrder"
	// Waits means that waiting for room to become free is cheaper.
	Waits = "Waits"
	// Gathers means that the fleet waits for more pods before it buys machines.
	Gathers = "Gathers"
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
	kind, _ := class.OfPod(in.Pod)
	if !fleetClass(f.Fleet).Takes(kind) {
		w.Doing, w.Because = Nothing, fmt.Sprintf("its machines accept only %s pods, and this pod is of class %v", strings.ToLower(w.Class), kind)
		return w
	}
	pod, is := waiting(in, f)
	switch {
	case !is && world.Restoring(in.Pod):
		w.Doing, w.Because = Nothing, "a Migration created the pod, and no machines are bought for migrations"
	case !is:
		w.Doing, w.Because = Nothing, "kube-scheduler has not reported it as unschedulable: machines are bought only for unschedulable pods"
	case pod.Held != "":
		w.Doing, w.Because = Nothing, "no machine is planned for it: "+pod.Held
	default:
		w.Flavors = tally(refusals(in, f, &pod.Pod))
		w.act(in, f, &pod)
	}
	return w
}

// refusals returns, for each flavor of a fleet, why no machine of it is bought for the pod, or "".
func refusals(in *WhyInput, f *FleetInput, pod *cluster.Pod) map[string]string {
	all := map[string]string{}
	if f.Unread == "" {
		for i := range f.Offers {
			all[f.Offers[i].Name] = f.Offers[i].Refuses(pod)
		}
		return all
	}
	for i := range f.Fleet.Status.Flavors {
		s := &f.Fleet.Status.Flavors[i]
		all[s.Name] = refusedByStatus(s, pod, in.Now)
	}
	return all
}

// refusedByStatus returns why no machine of a flavor is bought for a pod, judged by the status of
// the fleet, which has neither labels nor taints.
func refusedByStatus(s *v1alpha1.FlavorStatus, pod *cluster.Pod, now time.Time) string {
	alone := fleet.BackingOff(s, now)
	switch {
	case s.PricePerHour == "":
		return cmp.Or(s.Message, "its price is unknown")
	case alone != "":
		return alone
	case s.Machines >= s.Max:
		return fmt.Sprintf("quota: it has its maximum of %d machines", s.Max)
	}
	asks := purchase.Pod{Item: pod.Item, Arch: pod.Arch}
	return asks.RefusedBy(&purchase.Flavor{Name: s.Name, Arch: s.Arch, MaxPods: new(s.MaxPods), Size: packing.Size{MilliCPU: s.CPU.MilliValue(), MemoryBytes: s.Memory.Value()}})
}

// act sets what the fleet does for an unschedulable pod.
func (w *FleetWhy) act(in *WhyInput, f *FleetInput, pod *world.Waiting) {
	s := &f.Fleet.Status
	ready := meta.FindStatusCondition(s.Conditions, v1alpha1.FleetReady)
	buy := boughtFor(s.LastDecision, pod.Name)
	takes := slices.ContainsFunc(w.Flavors, func(t Tally) bool { return t.Reason == "" })
	switch {
	case s.Deferral != nil && slices.Contains(s.Deferral.PodNames, pod.Name):
		d := s.Deferral
		w.Doing, w.Because = Waits, fmt.Sprintf("%s; room is expected at %s, and a machine is bought at %s at the latest; waiting saves $%s",
			d.Reason, clockOf(d.RoomTime.Time), clockOf(d.BuyTime.Time), d.SavesDollars)
		w.ExpectedTime = &d.RoomTime.Time
	case buy != nil && !s.LastDecision.Time.Time.Before(pod.Since.Add(-time.Second)):
		w.ordered(in, f, buy)
	case ready == nil:
		w.Doing, w.Because = Nothing, "the autoscaler has not processed the fleet yet: check that it is running"
	case ready.Status != metav1.ConditionTrue:
		w.Doing, w.Because = Nothing, fmt.Sprintf("the fleet is on hold (%s): %s", ready.Reason, ready.Message)
	case !takes:
		w.Doing, w.Because = Nothing, cmp.Or(rejection(f, pod.Name), "no flavor of the fleet fits it")
	case meta.IsStatusConditionTrue(s.Conditions, v1alpha1.FleetLimited):
		w.Doing, w.Because = Nothing, "a limit is reached: "+meta.FindStatusCondition(s.Conditions, v1alpha1.FleetLimited).Message
	case in.Now.Sub(pod.Since) < f.Fleet.Spec.Scaling.BatchMax.Duration:
		w.Doing, w.Because = Gathers, fmt.Sprintf("the fleet waits for up to %v for more pods, to buy machines for all of them together (spec.scaling.batchMax)", f.Fleet.Spec.Scaling.BatchMax.Duration)
	case s.InFlight > 0:
		w.Doing, w.Because = Ordered, fmt.Sprintf("%d machines of the fleet are starting; the decision does not name the pod, because it lists only some of its pods", s.InFlight)
		w.expect(f)
	default:
		w.Doing, w.Because = Nothing, cmp.Or(rejection(f, pod.Name), "the fleet has recorded no decision about it")
	}
}

// ordered sets which machine was ordered for the pod, and when it is expected.
func (w *FleetWhy) ordered(in *WhyInput, f *FleetInput, buy *v1alpha1.DecidedPurchase) {
	d := f.Fleet.Status.LastDecision
	w.Flavor = buy.Flavor
	of := fmt.Sprintf("%d of flavor %s for %d pods, including this one", buy.Count, buy.Flavor, buy.Pods)
	if d.Mode == v1alpha1.FleetObserve {
		w.Doing, w.Because = WouldOrder, fmt.Sprintf("in mode Act it would have bought %s at %s: %s", of, clockOf(d.Time.Time), buy.Reason)
		return
	}
	expected := d.Time.Add(fleet.ReadyAfter(f.Fleet, buy.Flavor))
	w.Doing, w.OrderedTime, w.ExpectedTime = Ordered, &d.Time.Time, &expected
	w.Because = fmt.Sprintf("machines were ordered at %s, %s: %s; expected to accept pods at %s", clockOf(d.Time.Time), of, buy.Reason, clockOf(expected))
	if late := in.Now.Sub(expected); late > 0 {
		w.Because += fmt.Sprintf(", %v ago", late.Round(time.Second))
	}
	for i := range f.Machines {
		if m := &f.Machines[i]; m.Flavor == buy.Flavor && !m.Ordered.Before(d.Time.Time) && m.Node == "" && m.Failed+m.Waits != "" {
			w.Because += fmt.Sprintf("; machine %s: %s", m.Name, cmp.Or(m.Failed, m.Waits))
		}
	}
}

// expect sets when the last of the ordered machines is expected.
func (w *FleetWhy) expect(f *FleetInput) {
	var last time.Time
	for i := range f.Machines {
		if m := &f.Machines[i]; m.Node == "" && !m.Leaving {
			if at := m.Ordered.Add(fleet.ReadyAfter(f.Fleet, m.Flavor)); at.After(last) {
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

// rejection returns why the fleet buys nothing for the pod, from its last decision or its Events.
func rejection(f *FleetInput, pod string) string {
	if d := f.Fleet.Status.LastDecision; d != nil {
		for _, r := range d.Rejected {
			if r.Name == pod {
				return r.Reason
			}
		}
	}
	for i := len(f.Events) - 1; i >= 0; i-- {
		if _, why, is := strings.Cut(f.Events[i].Message, pod+": "); is && f.Events[i].Reason == "NoMachineFits" {
			return why
		}
	}
	return ""
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
		writeTallies(b, "    ", named(w.Flavors, "would accept it"))
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
	Ordered: "a machine is starting", WouldOrder: "would buy a machine", Waits: "waits for room to become free",
	Gathers: "waits for more pods", Nothing: "does nothing for it",
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
