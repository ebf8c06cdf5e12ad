package decide

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// end sees to what is left of a migration that has ended.
func (c Config) end(o Observation, now time.Time) Step {
	m := o.Migration
	if r := o.restored(); r != nil && r.DeletionTimestamp == nil {
		return *Stray(m, r)
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

// Stray says what to do with a pod that a migration has made; m is nil if that is gone.
// A controller that was held up may have made it after another had ended the migration.
// It returns nil if the pod is to stay.
func Stray(m *v1alpha1.Migration, pod *corev1.Pod) *Step {
	switch {
	case m != nil && !Ended(m):
		return nil
	case m != nil && m.Status.Phase == v1alpha1.MigrationSucceeded:
		stays := pod.DeepCopy()
		delete(stays.Labels, v1alpha1.LabelMigration)
		return &Step{Do: PatchPod, Why: "the new pod is one like any other now", Pod: stays}
	case pod.DeletionTimestamp != nil:
		return nil
	}
	return &Step{Do: DeletePod, Why: "its migration is over", Pod: pod, GraceSeconds: graceOfRestored}
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
