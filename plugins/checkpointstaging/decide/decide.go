// Package decide says where the new pod of a migration may be placed, and when the pod
// that has been placed may be bound. It holds no state and knows no clock: the Migration
// and the time are arguments, so that a scheduler that starts anew comes to the answers
// of the one before it.
//
// Two rules keep the steps of a migration in order. Nothing is frozen before the pod has
// its place: so the reservation is written while the pod is held. And nothing is bound
// before its checkpoint is staged: the kubelet finds the image on its node or fails.
package decide

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Pod is the new pod of a migration.
type Pod struct {
	// Name and UID are the pod's own.
	Name string
	UID  types.UID
	// Migration is the UID in its label supercargo.dev/migration.
	Migration types.UID
}

// Placement says where a pod may go.
type Placement struct {
	// Node is the one node that it may go to. If it is empty any node will do.
	Node string
	// Refusal says why it may go nowhere for now, in words that follow "the pod". It is
	// empty if the pod may be placed.
	Refusal string
}

// Place says where the new pod of a migration may go. m is nil if there is no such
// Migration.
//
// Until the order to freeze is given the scheduler is free to choose, and to choose again.
// From then on the checkpoint is on its way to the node that is reserved, and only that
// one will do. A pod that is started anew has no checkpoint, so it may go anywhere at all
// times.
func Place(m *v1alpha1.Migration, pod Pod, now time.Time) Placement {
	if refusal := refused(m, pod, now); refusal != "" {
		return Placement{Refusal: refusal}
	}
	if !underWay(m) {
		return Placement{}
	}
	r := m.Status.Reservation
	if r == nil || r.PodUID != string(pod.UID) {
		return Placement{Refusal: fmt.Sprintf("has lost its reservation after order %s: wait until the migration is rolled back", m.Status.Order)}
	}
	return Placement{Node: r.Node}
}

func refused(m *v1alpha1.Migration, pod Pod, now time.Time) string {
	if m == nil || m.UID != pod.Migration {
		return "is the new pod of a migration that is gone: delete the pod"
	}
	if _, why := ended(m); why != "" {
		return why
	}
	if m.Status.Plan == nil {
		return "is the new pod of a migration without a plan: wait for its controller"
	}
	if name := m.Status.Plan.RestoredPod; name != pod.Name {
		return fmt.Sprintf("is not the new pod of its migration, which is %s: remove label %s", name, v1alpha1.LabelMigration)
	}
	if failure := targetFailed(m); failure != "" {
		return failure
	}
	if deadline := m.Status.Plan.DeadlineAt; beforeKill(m) && !now.Before(deadline.Time) {
		return pastDeadline(deadline)
	}
	return ""
}

func pastDeadline(deadline metav1.Time) string {
	return "is past its migration's deadline, " + deadline.UTC().Format(time.RFC3339)
}

// ended returns the phase or order by which a migration gives its new pod up, or has no
// use for it any more, and what that means for the pod. Both are empty otherwise.
func ended(m *v1alpha1.Migration) (reason, why string) {
	switch m.Status.Phase {
	case v1alpha1.MigrationRollingBack, v1alpha1.MigrationSucceeded, v1alpha1.MigrationRolledBack, v1alpha1.MigrationRefused:
		return string(m.Status.Phase), fmt.Sprintf("is the new pod of a migration in phase %s", m.Status.Phase)
	}
	switch m.Status.Order {
	case v1alpha1.OrderThaw, v1alpha1.OrderClean:
		return string(m.Status.Order), fmt.Sprintf("is the new pod of a migration with order %s", m.Status.Order)
	}
	return "", ""
}

// targetFailed returns what the agent of a target says that cannot do its part, or
// nothing. What another node says counts too: the controller rolls back for it.
func targetFailed(m *v1alpha1.Migration) string {
	t := m.Status.Target
	if t == nil || t.Step != v1alpha1.TargetFailed || restarts(m) {
		return ""
	}
	return fmt.Sprintf("cannot be restored on node %s: %s: %s", t.Node, t.Reason, t.Message)
}

// restarts reports whether the container is started anew.
func restarts(m *v1alpha1.Migration) bool {
	return m.Status.Plan.Backend == v1alpha1.BackendRestart
}

// beforeKill reports whether there is a way back still, which is what the deadline is
// for.
func beforeKill(m *v1alpha1.Migration) bool {
	return m.Status.Order != v1alpha1.OrderKill
}

// underWay reports whether the checkpoint belongs to the node that is reserved.
func underWay(m *v1alpha1.Migration) bool {
	return !restarts(m) && (m.Status.Order == v1alpha1.OrderFreeze || m.Status.Order == v1alpha1.OrderKill)
}

// Held is a pod that has been given a node and is not bound yet.
type Held struct {
	Pod
	// Node is the node.
	Node string
	// Since is when the scheduler began to hold it.
	Since time.Time
	// Timeout is how long it is held for a migration that does not get under way.
	Timeout time.Duration
	// Reserved says that the reservation was the pod's own since then.
	Reserved bool
	// Deleted says that the pod has been deleted.
	Deleted bool
	// SourceGone says that the old pod's process is surely gone with its pod.
	SourceGone bool
}

// Step is what to do with a pod that is held.
type Step string

const (
	// Reserve writes the reservation.
	Reserve Step = "Reserve"
	// Wait goes on holding the pod.
	Wait Step = "Wait"
	// Bind lets the pod go to its node.
	Bind Step = "Bind"
	// GiveUp gives the room away.
	GiveUp Step = "GiveUp"
)

// Next is what to do with a pod that is held, and why.
type Next struct {
	Step Step
	// Until is when to look again if nothing has changed, with Wait.
	Until time.Time
	// Reason is a word for why it is rejected: Gone, Deleted, TargetFailed, Lost, Timeout,
	// or the phase or order that ends the migration.
	Reason string
	// Message says more, in words that follow "the pod".
	Message string
	// TakeBack says that the reservation must not stand when the pod is rejected. It may
	// when the migration ends, since the agent that it names has to clean up after it.
	TakeBack bool
}

// Next says what to do with a pod that is held. m is nil if there is no such Migration.
func (h Held) Next(m *v1alpha1.Migration, now time.Time) Next {
	if next, over := h.over(m); over {
		return next
	}
	own := h.Owns(m.Status.Reservation)
	switch {
	case own && h.ready(m):
		return Next{Step: Bind}
	case !own && (h.Reserved || underWay(m)):
		return Next{Step: GiveUp, Reason: "Lost", Message: "has lost its reservation to " + holder(m.Status.Reservation)}
	}
	until, message := h.limit(m)
	if !now.Before(until) {
		return Next{Step: GiveUp, Reason: "Timeout", Message: message, TakeBack: true}
	}
	if !own {
		return Next{Step: Reserve}
	}
	return Next{Step: Wait, Until: until}
}

// over reports whether nothing can come of the pod any more.
func (h Held) over(m *v1alpha1.Migration) (Next, bool) {
	give := func(reason, message string) (Next, bool) {
		return Next{Step: GiveUp, Reason: reason, Message: message}, true
	}
	if m == nil || m.UID != h.Migration || m.Status.Plan == nil {
		return give("Gone", "is the new pod of a migration that is gone")
	}
	if reason, why := ended(m); why != "" {
		return give(reason, why)
	}
	if h.Deleted {
		return give("Deleted", "is deleted")
	}
	if failure := targetFailed(m); failure != "" {
		return Next{Step: GiveUp, Reason: "TargetFailed", Message: failure, TakeBack: true}, true
	}
	return Next{}, false
}

// Owns reports whether a reservation is the pod's own, on the node that it was given.
func (h Held) Owns(r *v1alpha1.MigrationReservation) bool {
	return r != nil && r.Node == h.Node && r.PodUID == string(h.UID)
}

func holder(r *v1alpha1.MigrationReservation) string {
	if r == nil {
		return "nobody: it was taken back"
	}
	return fmt.Sprintf("pod UID %s on node %s", r.PodUID, r.Node)
}

// ready reports whether the pod can start on its node: its checkpoint is there, or, if it
// is started anew, the old container is dead.
func (h Held) ready(m *v1alpha1.Migration) bool {
	if restarts(m) {
		s := m.Status.Source
		killed := s != nil && (s.Step == v1alpha1.SourceKilled || s.Step == v1alpha1.SourceCleaned)
		return m.Status.Order == v1alpha1.OrderKill && (killed || h.SourceGone)
	}
	t := m.Status.Target
	return underWay(m) && t != nil && t.Node == h.Node && t.Step == v1alpha1.TargetStaged
}

// limit returns until when the pod is held, and what to say then. Before anything is
// frozen that is the timeout or the deadline, whichever comes first. A checkpoint that is
// under way has until the deadline: what was begun takes as long as its owner allows.
// A restart for which the old container is being killed has no way back and so no
// deadline, but its room may be had better elsewhere by then.
func (h Held) limit(m *v1alpha1.Migration) (time.Time, string) {
	timeout := h.Since.Add(h.Timeout)
	deadline := m.Status.Plan.DeadlineAt
	if restarts(m) && !beforeKill(m) || !underWay(m) && timeout.Before(deadline.Time) {
		return timeout, fmt.Sprintf("was held on node %s for %v and its migration did not get further; see the reports of the two nodes in its status", h.Node, h.Timeout)
	}
	return deadline.Time, pastDeadline(deadline)
}

// Reconsider reports whether a change of the Migration may let its new pod be placed that
// the scheduler has put aside: it may be placed now, and either could not before or has
// lost its reservation. before is nil for a Migration that was not known. Deadlines are
// left to [Place].
func Reconsider(before, after *v1alpha1.Migration, pod Pod) bool {
	var early time.Time // before all deadlines
	now := Place(after, pod, early)
	switch {
	case now.Refusal != "":
		return false
	case before == nil || Place(before, pod, early) != now:
		return true
	}
	return before.Status.Reservation != nil && after.Status.Reservation == nil
}
