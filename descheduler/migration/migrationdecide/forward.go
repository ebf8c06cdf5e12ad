package migrationdecide

import (
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/movable"
)

// forward continues a migration that can still be rolled back.
func (c Config) forward(o Observation, now time.Time) Step {
	m := o.Migration
	if o.newPodRan() {
		return c.onward(o, now)
	}
	if m.DeletionTimestamp != nil {
		return goBack(o, fault{v1alpha1.MigrationReasonCancelled, "the Migration was deleted"}, now)
	}
	if readyToHandOver(o) {
		return startHandOver(o, now)
	}
	if f := faultOf(o, now); f != nil {
		return goBack(o, *f, now)
	}
	s := copyStatus(m)
	s.setProgress(o, now)
	if m.Status.Order == v1alpha1.OrderPrepare {
		return c.reserve(o, s, now)
	}
	if staged(o) {
		s.Phase = v1alpha1.MigrationVerifying
	}
	until := s.setStart(o, now)
	return waitFrozen(o, s, "wait for "+awaited(o), earlier(m.Status.Plan.DeadlineAt.Time, until), now)
}

// awaited describes what a frozen migration waits for.
func awaited(o Observation) string {
	switch r := o.restored(); {
	case !staged(o):
		return "the checkpoint to be staged"
	case r == nil || r.Spec.NodeName == "":
		return "the new pod to be bound"
	}
	return "the new pod to run"
}

// reserve secures a target before anything is frozen.
func (c Config) reserve(o Observation, s *status, now time.Time) Step {
	m, plan := o.Migration, o.Migration.Status.Plan
	until := reserveBy(plan)
	source := m.Status.Source
	if source == nil {
		s.set(v1alpha1.MigrationReserved, no, v1alpha1.MigrationReasonPreparing, inspectionMessage(plan), now)
		return s.writeOr(m, "wait for the source to be prepared", until)
	}
	pod, err := podedit.NewPod(m, plan, o.Source, movable.SelectorOf(o.Job, o.ReplicaSet), source.Requirements)
	if err != nil {
		return goBack(o, fault{v1alpha1.MigrationReasonNewPodNotCreated, err.Error()}, now)
	}
	if o.restored() == nil {
		return Step{Do: CreatePod, Why: "the source is prepared", Pod: pod}
	}
	// A webhook may treat the pod otherwise than its dry run.
	if changed := movable.Changed(pod, o.restored()); len(changed) > 0 {
		return goBack(o, fault{movable.Reason(changed), movable.Message(changed)}, now)
	}
	reservation := m.Status.Reservation
	if reservation == nil || reservation.PodUID != string(o.restored().UID) {
		s.set(v1alpha1.MigrationReserved, no, v1alpha1.MigrationReasonScheduling, "no node is reserved yet for pod "+plan.RestoredPod+"; if the scheduler finds none, the Events of the pod have the reason", now)
		return s.writeOr(m, "wait for the scheduler to reserve room", until)
	}
	if target := m.Status.Target; target == nil || target.Node != reservation.Node || target.Step != v1alpha1.TargetPrepared {
		s.set(v1alpha1.MigrationReserved, no, v1alpha1.MigrationReasonPreparingTarget, "waiting for the agent of node "+reservation.Node+" to prepare the restore", now)
		return s.writeOr(m, "wait for the target to be prepared", until)
	}
	if why := c.fullTarget(o.Others, reservation.Node); why != "" {
		s.set(v1alpha1.MigrationReserved, no, v1alpha1.MigrationReasonNodeBusy, why, now)
		return s.writeOr(m, "wait: "+why, until)
	}
	step, why := claim(o, now)
	if step != nil {
		return *step
	}
	if why != "" {
		s.set(v1alpha1.MigrationReserved, no, v1alpha1.MigrationReasonOverBudget, why, now)
		return s.writeOr(m, "wait: "+why, earlier(until, now.Add(budgetPatience)))
	}
	s.set(v1alpha1.MigrationReserved, yes, v1alpha1.MigrationReasonReserved, "node "+reservation.Node+" has room, and both nodes are prepared", now)
	s.Order, s.Commit = v1alpha1.OrderFreeze, v1alpha1.CommitFrozen
	s.Phase = v1alpha1.MigrationMoving
	return s.write("both nodes are prepared: freeze the container")
}

// staged reports whether the checkpoint is on the node that the scheduler reserves for the new
// pod.
func staged(o Observation) bool {
	r, t := o.Migration.Status.Reservation, o.Migration.Status.Target
	return r != nil && t != nil && t.Node == r.Node && t.Step == v1alpha1.TargetStaged
}

// readyToHandOver reports whether the new pod can take the old one's place: it runs. If the kubelet
// has restarted the old container, a fresh copy runs, and the new pod must go.
func readyToHandOver(o Observation) bool {
	m, r := o.Migration, o.restored()
	if r == nil || r.DeletionTimestamp != nil || replaced(o) || o.sourceRestarted() {
		return false
	}
	return m.Status.Order == v1alpha1.OrderFreeze && staged(o) && verified(r, m.Status.Plan) && !o.abandoned()
}

// verified reports whether a restored pod runs properly. A pod of a ReplicaSet must also be
// ready: of two pods, the set deletes the one that is not.
func verified(pod *corev1.Pod, plan *v1alpha1.MigrationPlan) bool {
	if pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if ownedByReplicaSet(plan.Owner) && !isReady(pod) {
		return false
	}
	s := containerStatus(pod, plan.Container)
	if pod.Status.Phase != corev1.PodRunning || s == nil || s.State.Running == nil || s.RestartCount > 0 {
		return false
	}
	if spec := &pod.Spec.Containers[0]; spec.ReadinessProbe != nil || spec.StartupProbe != nil {
		return s.Ready
	}
	return s.Started == nil || *s.Started
}

// isReady reports whether a pod is ready, as its controllers see it.
func isReady(pod *corev1.Pod) bool {
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// podCondition returns a condition of a pod; nil if it has none of that type.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// abandoned reports whether the old pod belongs to a ReplicaSet that has lost it, or is about to.
// The set was scaled down or creates another pod, and the new pod comes too late.
func (o *Observation) abandoned() bool {
	return ownedByReplicaSet(o.Migration.Status.Plan.Owner) && (o.Source == nil || o.Source.DeletionTimestamp != nil)
}

func containerStatus(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == container {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// replaced reports whether the pod's owner may have replaced the old pod already, so that the new
// pod comes too late. A bare pod has no owner.
func replaced(o Observation) bool {
	return o.Migration.Status.Plan.Owner != nil && dead(o.Source)
}

// startHandOver records that there is no way back, before the first write of the handover.
func startHandOver(o Observation, now time.Time) Step {
	s := copyStatus(o.Migration)
	s.setProgress(o, now)
	s.endHold(o, now)
	s.setVerified(o, now)
	s.Phase, s.Commit = v1alpha1.MigrationHandingOver, v1alpha1.CommitHandedOver
	s.set(v1alpha1.MigrationHandedOver, no, v1alpha1.MigrationReasonInProgress, "the new pod is replacing the old one; this cannot be rolled back", now)
	return s.write("the new pod can take over")
}

// fault is why a migration cannot continue.
type fault struct {
	reason, message string
}

// faultOf returns the most significant fault; nil for none.
func faultOf(o Observation, now time.Time) *fault {
	for _, f := range []func() *fault{
		o.faultOfSource, o.faultOfAgents, func() *fault { return o.faultOfRestored(now) }, func() *fault { return o.faultOfTime(now) }, o.faultOfTarget,
	} {
		if found := f(); found != nil {
			return found
		}
	}
	return nil
}

// reservePatience is how long a migration may take until its container is frozen, whatever its
// deadline: it counts towards the limits, and a cluster without room may have none for a day. New
// machines have started by then.
const reservePatience = 10 * time.Minute

// reserveBy returns when a migration must have a prepared target.
func reserveBy(plan *v1alpha1.MigrationPlan) time.Time {
	return earlier(plan.DeadlineAt.Time, plan.StartedAt.Add(reservePatience))
}

// faultOfTime checks the deadlines. The scheduler releases the room at the deadline too, so this
// check comes before that of the target.
func (o *Observation) faultOfTime(now time.Time) *fault {
	deadline := o.Migration.Status.Plan.DeadlineAt
	if now.Before(deadline.Time) {
		if by := reserveBy(o.Migration.Status.Plan); o.Migration.Status.Order == v1alpha1.OrderPrepare && !now.Before(by) {
			return &fault{v1alpha1.MigrationReasonReservationTimeout, fmt.Sprintf("the new pod was not assigned to a prepared node within %s: see condition Reserved", reservePatience)}
		}
		return nil
	}
	return &fault{v1alpha1.MigrationReasonDeadlineExceeded, fmt.Sprintf("the new pod could not take over by %s: see the other conditions",
		deadline.UTC().Format("15:04:05 MST"))}
}

// faultOfSource checks the old pod. Once the checkpoint is staged, the new pod can replace a bare
// pod that is gone or being deleted, and a Job's pod that is being deleted.
func (o *Observation) faultOfSource() *fault {
	plan := o.Migration.Status.Plan
	switch {
	case dead(o.Source) && plan.Owner != nil:
		return &fault{v1alpha1.MigrationReasonSourceEnded, "the pod has ended or is gone, and its owner may replace it"}
	case o.sourceRestarted():
		return &fault{v1alpha1.MigrationReasonSourceRestarted, "the container has been restarted on its node"}
	case o.abandoned():
		return &fault{v1alpha1.MigrationReasonSourceDeleted, "the pod is being deleted, and its ReplicaSet may replace it"}
	case staged(*o):
	case o.Source == nil:
		return &fault{v1alpha1.MigrationReasonSourceGone, "the pod is gone"}
	case dead(o.Source):
		return &fault{v1alpha1.MigrationReasonSourceEnded, "the pod has ended"}
	case o.Source.DeletionTimestamp != nil:
		return &fault{v1alpha1.MigrationReasonSourceDeleted, "another client is deleting the pod"}
	}
	return nil
}

// sourceRestarted reports whether the old pod's container is not that of the plan: its kubelet
// has restarted it from the beginning.
func (o *Observation) sourceRestarted() bool {
	if o.Source == nil {
		return false
	}
	id, planned := podedit.ContainerID(o.Source), o.Migration.Status.Plan.ContainerID
	return planned != "" && id != "" && id != planned
}

// faultOfAgents checks the two reports. That of a failed target also counts if the scheduler has
// released its reservation because of the failure.
func (o *Observation) faultOfAgents() *fault {
	m := o.Migration
	if s := m.Status.Source; s != nil && s.Step == v1alpha1.SourceFailed && !staged(*o) {
		return &fault{orReason(s.Reason), "node " + m.Status.Plan.SourceNode + ": " + s.Message}
	}
	if t := m.Status.Target; t != nil && t.Step == v1alpha1.TargetFailed {
		return &fault{orReason(t.Reason), "node " + t.Node + ": " + t.Message}
	}
	return nil
}

// reasonForm is the pattern of the API for the reason of a condition.
var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// orReason returns an agent's reason if it is valid for a condition.
func orReason(word string) string {
	if !reasonForm.MatchString(word) {
		return v1alpha1.MigrationReasonAgentFailed
	}
	return word
}

// faultOfTarget checks the node that has the reservation.
func (o *Observation) faultOfTarget() *fault {
	m := o.Migration
	r := m.Status.Reservation
	if r == nil {
		if m.Status.Order != v1alpha1.OrderPrepare {
			return &fault{v1alpha1.MigrationReasonReservationLost, "the scheduler has released the reservation on the target"}
		}
		return nil
	}
	return o.faultOfNode(r.Node)
}

func (o *Observation) faultOfNode(name string) *fault {
	node := o.Nodes[name]
	switch {
	case node == nil:
		return &fault{v1alpha1.MigrationReasonTargetGone, "node " + name + " is gone"}
	case node.Spec.Unschedulable:
		return &fault{v1alpha1.MigrationReasonTargetCordoned, "node " + name + " was cordoned"}
	case !movable.Ready(node):
		return &fault{v1alpha1.MigrationReasonTargetNotReady, "node " + name + " is not ready"}
	}
	return nil
}
