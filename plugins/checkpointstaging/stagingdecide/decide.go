// Package stagingdecide decides where the new pod of a migration may be placed, and when it may be bound. It has no state and
// no clock: the Migration and the time are arguments, so that a restarted scheduler makes the same decisions.
//
// Two rules keep the steps of a migration in order. Nothing is frozen before the pod has a node: the reservation is
// written while the pod is held. And no pod is bound before its checkpoint is staged: otherwise the kubelet would fail
// to find the image.
package stagingdecide

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Pod is the new pod of a migration.
type Pod struct {
	// Name and UID identify the pod.
	Name string
	UID  types.UID
	// Migration is the UID in its label supercargo.dev/migration.
	Migration types.UID
}

// Placement is where a pod may be placed.
type Placement struct {
	// Node is the only suitable node. If it is empty, any node is suitable.
	Node string
	// Refusal is why it may not be placed for now, phrased to follow "the pod". It is empty if the pod may be placed.
	Refusal string
}

// Place returns where the new pod of a migration may be placed. m is nil if there is no such Migration.
//
// Until the order to freeze is given, the scheduler may choose any node, repeatedly. From then on the checkpoint is
// being transferred to the reserved node, and only that node is suitable.
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
		return "is the new pod of a migration that no longer exists: delete the pod"
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
	return "has exceeded the deadline of its migration, " + deadline.UTC().Format(time.RFC3339)
}

// ended returns the phase or order by which a migration gives up or no longer needs its new pod, and what that means
// for the pod. Both are empty otherwise.
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

// targetFailed returns the failure that the agent of a target reports, or empty. A report from another node counts too,
// because the controller rolls back for it.
func targetFailed(m *v1alpha1.Migration) string {
	t := m.Status.Target
	if t == nil || t.Step != v1alpha1.TargetFailed {
		return ""
	}
	return fmt.Sprintf("cannot be restored on node %s: %s: %s", t.Node, t.Reason, t.Message)
}

// beforeKill reports whether the migration can still be rolled back. The deadline applies only until then.
func beforeKill(m *v1alpha1.Migration) bool {
	return m.Status.Order != v1alpha1.OrderKill
}

// underWay reports whether the checkpoint is bound to the reserved node.
func underWay(m *v1alpha1.Migration) bool {
	return m.Status.Order == v1alpha1.OrderFreeze || m.Status.Order == v1alpha1.OrderKill
}

// Held is a pod that has a node but is not bound yet.
type Held struct {
	Pod
	// Node is the node that it has.
	Node string
	// Since is when the scheduler started to hold it.
	Since time.Time
	// Timeout is how long it is held for a migration that makes no progress.
	Timeout time.Duration
	// Reserved reports that the reservation has been the pod's own at some time since then.
	Reserved bool
	// Deleted reports that the pod has been deleted.
	Deleted bool
}

// Step is the next step for a held pod.
type Step string

const (
	// Reserve writes the reservation.
	Reserve Step = "Reserve"
	// Wait continues to hold the pod.
	Wait Step = "Wait"
	// Bind binds the pod to its node.
	Bind Step = "Bind"
	// GiveUp rejects the pod and releases its resources.
	GiveUp Step = "GiveUp"
)

// Next is the next step for a held pod, with its reason.
type Next struct {
	Step Step
	// Until is when to decide again if nothing has changed, for Wait.
	Until time.Time
	// Reason is the reason of a rejection in one word: Gone, Deleted, TargetFailed, Lost, Timeout, or the phase or
	// order that ends the migration.
	Reason string
	// Message explains the reason, phrased to follow "the pod".
	Message string
	// TakeBack reports that the reservation must be removed when the pod is rejected. It may stay if the migration
	// ends, because the agent that it names has to clean up.
	Undo bool
}

// Next returns the next step for a held pod. m is nil if there is no such Migration.
func (h Held) Next(m *v1alpha1.Migration, now time.Time) Next {
	if next, over := h.over(m); over {
		return next
	}
	own := h.Owns(m.Status.Reservation)
	switch {
	case own && h.ready(m):
		return Next{Step: Bind}
	case !own && (h.Reserved || underWay(m)):
		return Next{Step: GiveUp, Reason: "Lost", Message: "has lost its reservation: " + holder(m.Status.Reservation)}
	}
	until, message := h.limit(m)
	if !now.Before(until) {
		return Next{Step: GiveUp, Reason: "Timeout", Message: message, Undo: true}
	}
	if !own {
		return Next{Step: Reserve}
	}
	return Next{Step: Wait, Until: until}
}

// over reports whether the pod can no longer succeed.
func (h Held) over(m *v1alpha1.Migration) (Next, bool) {
	give := func(reason, message string) (Next, bool) {
		return Next{Step: GiveUp, Reason: reason, Message: message}, true
	}
	if m == nil || m.UID != h.Migration || m.Status.Plan == nil {
		return give("Gone", "is the new pod of a migration that no longer exists")
	}
	if reason, why := ended(m); why != "" {
		return give(reason, why)
	}
	if h.Deleted {
		return give("Deleted", "is being deleted")
	}
	if failure := targetFailed(m); failure != "" {
		return Next{Step: GiveUp, Reason: "TargetFailed", Message: failure, Undo: true}, true
	}
	return Next{}, false
}

// Owns reports whether a reservation is for this pod on its node.
func (h Held) Owns(r *v1alpha1.MigrationReservation) bool {
	return r != nil && r.Node == h.Node && r.PodUID == string(h.UID)
}

func holder(r *v1alpha1.MigrationReservation) string {
	if r == nil {
		return "the reservation was released"
	}
	return fmt.Sprintf("it now belongs to pod UID %s on node %s", r.PodUID, r.Node)
}

// ready reports whether the pod can start on its node: its checkpoint is staged.
func (h Held) ready(m *v1alpha1.Migration) bool {
	t := m.Status.Target
	return underWay(m) && t != nil && t.Node == h.Node && t.Step == v1alpha1.TargetStaged
}

// limit returns until when the pod is held, and the message after that. Before the freeze, that is the timeout or the
// deadline, whichever comes first. A checkpoint that is being transferred has until the deadline.
func (h Held) limit(m *v1alpha1.Migration) (time.Time, string) {
	timeout := h.Since.Add(h.Timeout)
	deadline := m.Status.Plan.DeadlineAt
	if !underWay(m) && timeout.Before(deadline.Time) {
		return timeout, fmt.Sprintf("was held on node %s for %v without progress of its migration; see the reports of the two nodes in the status of the Migration", h.Node, h.Timeout)
	}
	return deadline.Time, pastDeadline(deadline)
}

// Reconsider reports whether a change of the Migration may make its unschedulable new pod schedulable: it may be placed
// now, and before it could not or had a reservation that is gone. before is nil if the Migration was not known. [Place]
// checks deadlines.
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
