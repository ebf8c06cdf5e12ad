package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/world"
)

// WhyInput is the data from a cluster that explains a pod.
type WhyInput struct {
	// Now is when the data was read.
	Now time.Time
	Pod *corev1.Pod
	// View is the cluster at that time.
	View *world.View
	// Events are those of the pod, the oldest first. NoEvents is set if they could not be read.
	Events   []corev1.Event
	NoEvents bool
	Fleets   []FleetInput
	// Devices are what the pod's resource claims need; nil if it has none.
	Devices *Devices
	// Unread says, by kind in the plural, why objects that may exist were not read.
	Unread map[string]string
}

// knows reports whether all kinds were read.
func (in *WhyInput) knows(kinds ...string) bool {
	return !slices.ContainsFunc(kinds, func(kind string) bool { return in.Unread[kind] != "" })
}

// FleetInput is the data about a NodeFleet.
type FleetInput struct {
	Fleet *v1alpha1.NodeFleet
	// Offers and Machines are what it can buy and what it has. Unread is why they could not be
	// read; the fleet's status is then used instead, which lacks labels and taints.
	Offers   []fleetobserve.Offer
	Machines []provider.Machine
	Unread   string
	// Left are the pods that the fleet leaves to another buyer of machines, by name, each with a sentence about why.
	Left map[string]string
	// Events are those of the fleet, the oldest first.
	Events []corev1.Event
}

// Why explains why a pod is on its node, or on none. The fields of a [Pod] are set if the pod's
// energy was evaluated.
type Why struct {
	*Pod

	Name      string `json:"pod"`
	Phase     string `json:"phase"`
	Scheduler string `json:"schedulerName"`
	// Deletion says that a pod with a node is being deleted; empty if it is not.
	Deletion string `json:"deletion,omitempty"`
	// Pending is set for a pod without a node, Placement for any other.
	Pending   *Pending   `json:"pending,omitempty"`
	Placement *Placement `json:"placement,omitempty"`
	Moving    *Moving    `json:"moving,omitempty"`
	// Unread are the kinds of objects that could not be read, each with the reason. What depends on them is not said.
	Unread []string `json:"unread,omitempty"`
}

// NewWhy explains a pod.
func NewWhy(in *WhyInput) Why {
	pod := in.Pod
	w := Why{Name: world.PodName(pod), Phase: string(pod.Status.Phase), Scheduler: pod.Spec.SchedulerName}
	w.Unread = unread(in.Unread)
	if pod.Spec.NodeName != "" || class.Ended(pod) { // else it is why the pod is pending
		w.Deletion = deletionOf(pod)
	}
	switch {
	case class.Ended(pod):
		w.Placement = newPlacement(in)
	case pod.Spec.NodeName == "":
		w.Pending = newPending(in)
	default:
		w.Placement, w.Moving = newPlacement(in), newMoving(in)
	}
	return w
}

// Write prints the answers as sections, one for each question.
func (w Why) Write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Pod %s: %s, scheduler %s\n", w.Name, cmp.Or(w.Phase, "none"), cmp.Or(w.Scheduler, "none"))
	if w.Deletion != "" {
		fmt.Fprintf(&b, "  %s.\n", capital(w.Deletion))
	}
	writeUnread(&b, w.Unread)
	if w.Pending != nil {
		w.Pending.write(&b)
	}
	if w.Placement != nil {
		w.Placement.write(&b)
	}
	if w.Moving != nil {
		w.Moving.write(&b)
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	if w.Pod == nil {
		return nil
	}
	if _, err := io.WriteString(out, "\nWhere would it take the least energy?\n"); err != nil {
		return err
	}
	return w.Pod.Write(out)
}

// unread returns the kinds that were not read, each with the reason.
func unread(kinds map[string]string) (all []string) {
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, kind+": "+kinds[kind])
	}
	return all
}

// writeUnread says what was not read.
func writeUnread(b *strings.Builder, unread []string) {
	if len(unread) > 0 {
		fmt.Fprintf(b, "Not read, and not considered below: %s\n", strings.Join(unread, "; "))
	}
}

// Tally is the number of nodes or flavors with a reason. Names may be a part of them.
type Tally struct {
	Count  int      `json:"count"`
	Reason string   `json:"reason"`
	Names  []string `json:"names,omitempty"`
}

// mostNames is the maximum number of names printed with a reason.
const mostNames = 5

func writeTallies(b *strings.Builder, indent string, all []Tally) {
	for _, t := range all {
		fmt.Fprintf(b, "%s%4d  %s", indent, t.Count, t.Reason)
		if len(t.Names) > 0 {
			fmt.Fprintf(b, ": %s", strings.Join(t.Names[:min(len(t.Names), mostNames)], ", "))
			if more := t.Count - min(len(t.Names), mostNames); more > 0 {
				fmt.Fprintf(b, " and %d more", more)
			}
		}
		b.WriteString("\n")
	}
}

func clockOf(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }
