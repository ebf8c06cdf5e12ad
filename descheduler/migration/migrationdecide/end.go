package migrationdecide

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
)

// end handles a migration that has ended.
func (c Config) end(o Observation, now time.Time) Step {
	m := o.Migration
	if r := o.restored(); r != nil && labelled(m, r) && r.DeletionTimestamp == nil {
		return *Leftover(m, r, nil)
	}
	if hasFinalizer(m) {
		return Step{Do: RemoveFinalizer, Why: "the migration has ended"}
	}
	if m.DeletionTimestamp != nil {
		return wait("the Migration is being deleted", time.Time{})
	}
	until := condition(&m.Status, v1alpha1.MigrationFinished).LastTransitionTime.Add(c.KeepFinished)
	if o.Surplus || !now.Before(until) {
		return Step{Do: DeleteMigration, Why: "the retention time of finished Migrations has passed"}
	}
	return wait("finished Migrations are kept for some time", until)
}

// Leftover returns the step for a pod that a migration created; nil for none. m is nil if the
// migration is gone. A delayed controller may have created the pod after another ended the
// migration, or somebody removed the finalizer of a migration that had not ended. source is the
// pod that was to be moved; nil if it is gone. It is only used if m is nil.
func Leftover(m *v1alpha1.Migration, pod, source *corev1.Pod) *Step {
	if m != nil {
		switch {
		case !Ended(m):
			return nil
		case m.Status.Phase == v1alpha1.MigrationSucceeded:
			return keepNewPod(pod)
		}
	} else if step := orphan(pod, source); step != nil {
		return step
	}
	if pod.DeletionTimestamp != nil {
		return nil
	}
	return &Step{Do: DeletePod, Why: "the migration of the pod has ended", Pod: pod, GraceSeconds: graceOfRestored}
}

func keepNewPod(pod *corev1.Pod) *Step {
	to := pod.DeepCopy()
	delete(to.Labels, v1alpha1.LabelMigration)
	return &Step{Do: PatchPod, Why: "the new pod is no longer part of a migration", Pod: to}
}

// orphan continues the handover of a migration that is gone, if the two pods show that it had
// begun; nil if not. The agent of the old pod's node kills the old container if its pod is being
// deleted, and thaws it otherwise. In either case the other copy must go.
func orphan(pod, source *corev1.Pod) *Step {
	wanted := source != nil && source.DeletionTimestamp == nil
	leaving := source != nil && !wanted && !dead(source)
	var owner *metav1.OwnerReference
	if source != nil {
		owner = metav1.GetControllerOf(source)
	}
	switch {
	case !podedit.HasTakenOver(pod) && leaving && !ownedByReplicaSet(owner) && pod.DeletionTimestamp == nil && carries(pod):
		return patchTakeOver(pod, &v1alpha1.MigrationPlan{Owner: owner})
	case !podedit.HasTakenOver(pod):
		return nil
	case leaving && owner != nil && owner.Kind == "Job" && metav1.IsControlledBy(pod, &metav1.ObjectMeta{UID: owner.UID}):
		return &Step{Do: PatchPod, Why: "the Job must no longer count the old pod", Pod: podedit.Release(source, owner, nil)}
	case wanted && owner == nil && podedit.HasLowestDeletionCost(source):
		// Its ReplicaSet has lost it to the new pod, which only a migration does.
		return &Step{Do: DeletePod, Why: "the new pod has replaced the old one", Pod: source, GraceSeconds: ownGrace(source)}
	}
	return keepNewPod(pod)
}

// carries reports whether a new pod runs with the state of the old one, or has succeeded with it.
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

// DependsOnOthers reports whether decisions about a migration depend on the others in flight.
func DependsOnOthers(m *v1alpha1.Migration) bool {
	return !Ended(m) && (m.Status.Plan == nil || m.Status.Order == v1alpha1.OrderPrepare)
}

// ChangesFlights reports whether a step changes a migration's Flight, its start or its target.
// Such a step depends on the others in flight.
func ChangesFlights(m *v1alpha1.Migration, step Step) bool {
	return step.Do == WriteStatus && DependsOnOthers(m) && !Ended(&v1alpha1.Migration{Status: *step.Status}) &&
		(m.Status.Plan == nil && step.Status.Plan != nil || m.Status.Order != step.Status.Order || m.Status.Commit != step.Status.Commit)
}

// Surplus returns the finished migrations of a namespace that exceed the limit: all but the most
// that ended last. Ties go by name.
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
