package migrationdecide

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/movable"
)

// GraceOfSource is how long after the deadline the kubelet waits for the old, frozen container
// before it kills it.
const GraceOfSource = 10 * time.Minute

// handOver lets the new pod take over from the old one, in one write at a time.
//
// For a Job: First the old pod is deleted. The Job then counts it as neither active nor failed,
// and replaces it only when it is dead, which it is not, because it is frozen. Then the Job
// adopts the new pod, and has all the pods that it wants. Then it releases the old pod, and only
// then the old container may die.
//
// For a ReplicaSet: First the old pod gets the lowest deletion cost. Then the set adopts the new
// pod, which is ready. From then on it has one too many, and would delete the old pod. Then the
// set releases the old pod, which is then deleted, so that its kubelet does not restart it once
// it is dead. The set never has a pod too few.
//
// For a bare pod the order is that of a Job, so that the old pod itself shows that it must go if
// the Migration is lost between the two writes.
//
// A pod whose kubelet has restarted its container is not frozen, and may end as soon as it is
// deleted. So it first loses the finalizer with which its Job counts how pods end.
func (c Config) handOver(o Observation, now time.Time) Step {
	m := o.Migration
	if cleaning(m) {
		return c.cleanUp(o, now)
	}
	if s := takeOver(o); s != nil {
		return *s
	}
	s := copyStatus(m)
	s.setProgress(o, now)
	if m.Status.Order != v1alpha1.OrderKill {
		s.Order = v1alpha1.OrderKill
		return s.write("the new pod has taken over: kill the old container")
	}
	if !killed(o) {
		until := s.setHold(c.heldByOldPod(o, now), now)
		return s.writeOr(m, "wait until the old container is dead", until)
	}
	if !dead(o.Source) && hasLongGrace(o.Source) {
		return Step{Do: DeletePod, Why: "the old container is dead: the old pod needs only its own grace period", Pod: o.Source, GraceSeconds: ownGrace(o.Source)}
	}
	reason, message := v1alpha1.MigrationReasonTakenOver, "pod "+m.Status.Plan.RestoredPod+" has replaced the old one"
	if o.restored() == nil {
		reason, message = v1alpha1.MigrationReasonNewPodGone, "the new pod took over, and has been deleted since"
	}
	s.set(v1alpha1.MigrationHandedOver, yes, reason, message, now)
	s.Order = v1alpha1.OrderClean
	s.Phase = v1alpha1.MigrationCleaningUp
	s.set(v1alpha1.MigrationCleanedUp, no, v1alpha1.MigrationReasonInProgress, "the agents remove leftovers", now)
	s.setTotal(o, now)
	return s.write("the old container is dead: clean up")
}

// takeOver returns the next write to the two pods; nil when the new pod has taken over.
func takeOver(o Observation) *Step {
	plan, source, restored := o.Migration.Status.Plan, o.Source, o.restored()
	if ownedByReplicaSet(plan.Owner) {
		return takeOverInReplicaSet(o)
	}
	runs := o.sourceRestarted() // then the old container is not frozen
	if runs && source != nil && (source.DeletionTimestamp == nil || hasLongGrace(source)) && slices.Contains(source.Finalizers, batchv1.JobTrackingFinalizer) {
		return &Step{Do: PatchPod, Why: "the Job must not count the end of the old pod", Pod: podedit.WithoutJobTracking(source)}
	}
	if s := deleteSource(o); s != nil {
		return s
	}
	if restored != nil && !podedit.HasTakenOver(restored) {
		return patchTakeOver(restored, plan)
	}
	if source != nil && plan.Owner != nil && (metav1.IsControlledBy(source, &metav1.ObjectMeta{UID: plan.Owner.UID}) ||
		slices.Contains(source.Finalizers, batchv1.JobTrackingFinalizer)) {
		return &Step{Do: PatchPod, Why: "the Job must no longer count the old pod", Pod: podedit.Release(source, plan.Owner, movable.SelectorOf(o.Job, nil))}
	}
	return nil
}

// takeOverInReplicaSet returns the next write to the two pods of a ReplicaSet; nil when the new pod
// has taken over and the old one is being deleted. The set's controller sees these writes in this
// order, since all are to pods.
func takeOverInReplicaSet(o Observation) *Step {
	plan, source, restored := o.Migration.Status.Plan, o.Source, o.restored()
	if restored != nil && !podedit.HasTakenOver(restored) {
		if source != nil && source.DeletionTimestamp == nil && !podedit.HasLowestDeletionCost(source) {
			return &Step{Do: PatchPod, Why: "the ReplicaSet must delete the old pod before others", Pod: podedit.WithLowestDeletionCost(source)}
		}
		return patchTakeOver(restored, plan)
	}
	if source != nil && metav1.IsControlledBy(source, &metav1.ObjectMeta{UID: plan.Owner.UID}) {
		return &Step{Do: PatchPod, Why: "the ReplicaSet must no longer count the old pod",
			Pod: podedit.Release(source, plan.Owner, movable.SelectorOf(nil, o.ReplicaSet))}
	}
	return deleteSource(o)
}

// deleteSource returns the deletion of the old pod; nil if it is being deleted. A container that its
// kubelet has restarted gets its own grace period, not that of a frozen one.
func deleteSource(o Observation) *Step {
	source := o.Source
	switch {
	case source == nil:
		return nil
	case source.DeletionTimestamp == nil:
		return &Step{Do: DeletePod, Why: "the new pod has replaced the old one", Pod: source, GraceSeconds: graceOf(o.Migration, source, o.sourceRestarted())}
	case o.sourceRestarted() && !dead(source) && hasLongGrace(source):
		return &Step{Do: DeletePod, Why: "the old container was restarted: the pod gets its own grace period", Pod: source, GraceSeconds: ownGrace(source)}
	}
	return nil
}

// patchTakeOver lets the new pod take over. This controller wrote the note of its labels; if
// others broke it, only the owner is set.
func patchTakeOver(restored *corev1.Pod, plan *v1alpha1.MigrationPlan) *Step {
	pod, err := podedit.TakeOver(restored, plan.Owner)
	if err != nil {
		broken := restored.DeepCopy()
		delete(broken.Annotations, podedit.AnnotationWithheldLabels)
		pod, _ = podedit.TakeOver(broken, plan.Owner) // without the note there is nothing to misread
	}
	return &Step{Do: PatchPod, Why: "the new pod takes over", Pod: pod}
}

// graceOf returns the grace period of the old pod, in seconds. The kubelet must not kill a frozen
// container before the order; a running one gets its own.
func graceOf(m *v1alpha1.Migration, source *corev1.Pod, runs bool) int64 {
	if runs {
		return ownGrace(source)
	}
	plan := m.Status.Plan
	return int64((plan.DeadlineAt.Sub(plan.StartedAt.Time) + GraceOfSource).Seconds())
}

// hasLongGrace reports whether a pod that is being deleted has a longer grace period than its
// own.
func hasLongGrace(pod *corev1.Pod) bool {
	return pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds > ownGrace(pod)
}

// ownGrace returns a pod's own grace period in seconds, but at least 1: with 0 the API server
// would remove the pod before its kubelet has stopped the container, and the pod's Job would
// replace it at once.
func ownGrace(pod *corev1.Pod) int64 {
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		return max(*g, 1)
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// killed reports whether the old container is dead.
func killed(o Observation) bool {
	if s := o.Migration.Status.Source; s != nil && (s.Step == v1alpha1.SourceKilled || s.Step == v1alpha1.SourceCleaned) {
		return true
	}
	return dead(o.Source)
}

// cleaning reports whether only leftovers remain to be removed.
func cleaning(m *v1alpha1.Migration) bool { return m.Status.Order == v1alpha1.OrderClean }

// cleanUp ends a migration that has succeeded.
func (c Config) cleanUp(o Observation, now time.Time) Step {
	m := o.Migration
	s := copyStatus(m)
	s.setProgress(o, now)
	if done, until := c.cleaned(o, now); !done {
		return s.writeOr(m, "wait for the agents to clean up", until)
	}
	if r := o.restored(); r != nil && labelled(m, r) {
		pod := r.DeepCopy()
		delete(pod.Labels, v1alpha1.LabelMigration)
		return Step{Do: PatchPod, Why: "the new pod is no longer part of a migration", Pod: pod}
	}
	s.setCleanedUp(o, now)
	s.Phase = v1alpha1.MigrationSucceeded
	s.set(v1alpha1.MigrationFinished, yes, string(s.Phase), s.summary(o), now)
	return s.write("it has succeeded")
}

// cleaned reports whether both agents have cleaned up, or the wait for them is over; if not,
// until when it lasts.
func (c Config) cleaned(o Observation, now time.Time) (done bool, until time.Time) {
	if len(dirty(o)) == 0 {
		return true, time.Time{}
	}
	until = now
	if since := condition(&o.Migration.Status, v1alpha1.MigrationCleanedUp); since != nil {
		until = since.LastTransitionTime.Add(c.CleanPatience)
	}
	return !now.Before(until), until
}

// dirty returns the existing nodes whose agents have not cleaned up.
func dirty(o Observation) (nodes []string) {
	m := o.Migration
	source := m.Status.Plan.SourceNode
	if s := m.Status.Source; o.Nodes[source] != nil && s != nil && s.Step != v1alpha1.SourceCleaned {
		nodes = append(nodes, source)
	}
	if t := m.Status.Target; t != nil && o.Nodes[t.Node] != nil && t.Step != v1alpha1.TargetCleaned {
		nodes = append(nodes, t.Node)
	}
	return nodes
}
