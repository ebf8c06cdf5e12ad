package decide

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
)

// end sees to what is left of a migration that has ended.
func (c Config) end(o Observation, now time.Time) Step {
	m := o.Migration
	if r := o.restored(); r != nil && r.DeletionTimestamp == nil {
		return *Leftover(m, r, nil)
	}
	if hasFinalizer(m) {
		return Step{Do: RemoveFinalizer, Why: "it has ended"}
	}
	if m.DeletionTimestamp != nil {
		return wait("it is going", time.Time{})
	}
	until := condition(&m.Status, v1alpha1.MigrationFinished).LastTransitionTime.Add(c.KeepFinished)
	if o.Surplus || !now.Before(until) {
		return Step{Do: DeleteMigration, Why: "it has been kept for long enough"}
	}
	return wait("it is kept to be read", until)
}

// Leftover says what to do about a pod that a migration has made; m is nil if that is gone. A
// controller that was held up may have made the pod after another had ended the migration,
// or somebody has removed the finalizer of a migration that had not ended. source is the
// pod that was to be moved; nil if that is gone, and it does not matter if m is there.
// It returns nil if there is nothing to do.
func Leftover(m *v1alpha1.Migration, pod, source *corev1.Pod) *Step {
	if m != nil {
		switch {
		case !Ended(m):
			return nil
		case m.Status.Phase == v1alpha1.MigrationSucceeded:
			return stays(pod)
		}
	} else if step := orphan(pod, source); step != nil {
		return step
	}
	if pod.DeletionTimestamp != nil {
		return nil
	}
	return &Step{Do: DeletePod, Why: "its migration is over", Pod: pod, GraceSeconds: graceOfRestored}
}

func stays(pod *corev1.Pod) *Step {
	to := pod.DeepCopy()
	delete(to.Labels, v1alpha1.LabelMigration)
	return &Step{Do: PatchPod, Why: "the new pod is one like any other now", Pod: to}
}

// orphan continues with the hand-over of a migration that is gone, as far as the two pods say
// that it had begun; nil if it had not. The agent of the old pod's node kills the old
// container once its pod is being deleted, and thaws it otherwise: whichever it does, the
// other copy is the one to go.
func orphan(pod, source *corev1.Pod) *Step {
	wanted := source != nil && source.DeletionTimestamp == nil
	leaving := source != nil && !wanted && !dead(source)
	var owner *metav1.OwnerReference
	if source != nil {
		owner = metav1.GetControllerOf(source)
	}
	switch {
	case !movable.HasPlace(pod) && leaving && !movable.OfReplicaSet(owner) && pod.DeletionTimestamp == nil && carries(pod):
		return takePlace(pod, &v1alpha1.MigrationPlan{Owner: owner})
	case !movable.HasPlace(pod):
		return nil
	case leaving && owner != nil && owner.Kind == "Job" && metav1.IsControlledBy(pod, &metav1.ObjectMeta{UID: owner.UID}):
		return &Step{Do: PatchPod, Why: "the Job does not count the old pod any more", Pod: movable.LeavesPlace(source, owner, nil)}
	case wanted && owner == nil && movable.GoesFirst(source):
		// Its ReplicaSet has lost it to the new pod, which nobody else does to a pod.
		return &Step{Do: DeletePod, Why: "the old pod is on its way out", Pod: source, GraceSeconds: ownGrace(source)}
	}
	return stays(pod)
}

// carries reports whether a new pod runs with the state of the old one, or has ended well
// with it.
func carries(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	s := &pod.Status.ContainerStatuses[0]
	return s.State.Running != nil && s.RestartCount == 0
}

// LooksAtOthers reports whether what is decided about a migration depends on which
// others are in flight.
func LooksAtOthers(m *v1alpha1.Migration) bool {
	return !Ended(m) && (m.Status.Plan == nil || m.Status.Order == v1alpha1.OrderPrepare)
}

// ChangesFlights reports whether a step changes what others must know of a migration:
// that it begins, or which node it goes to. It is decided with an eye on the others.
func ChangesFlights(m *v1alpha1.Migration, step Step) bool {
	return step.Do == WriteStatus && LooksAtOthers(m) && !Ended(&v1alpha1.Migration{Status: *step.Status}) &&
		(m.Status.Plan == nil && step.Status.Plan != nil || m.Status.Order != step.Status.Order || condition(step.Status, v1alpha1.MigrationHandedOver) != nil)
}

// Surplus returns the migrations of a namespace that have ended and are too many to be
// kept: all but the most of them that ended last, ties by name.
func Surplus(namespace string, all []v1alpha1.Migration, most int) []*v1alpha1.Migration {
	var ended []*v1alpha1.Migration
	for i := range all {
		if m := &all[i]; m.Namespace == namespace && Ended(m) {
			ended = append(ended, m)
		}
	}
	slices.SortFunc(ended, func(a, b *v1alpha1.Migration) int {
		at, bt := condition(&a.Status, v1alpha1.MigrationFinished), condition(&b.Status, v1alpha1.MigrationFinished)
		return cmp.Or(at.LastTransitionTime.Compare(bt.LastTransitionTime.Time), cmp.Compare(a.Name, b.Name))
	})
	return ended[:max(0, len(ended)-most)]
}
