package decide

import (
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
	if o.Later >= c.MaxFinished || !now.Before(until) {
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

// EndedLater counts those of the migrations that have ended after m, ties by name.
func EndedLater(m *v1alpha1.Migration, all []v1alpha1.Migration) (n int) {
	own := condition(&m.Status, v1alpha1.MigrationFinished)
	for i := range all {
		other := &all[i]
		c := condition(&other.Status, v1alpha1.MigrationFinished)
		if !Ended(other) || other.UID == m.UID || own == nil {
			continue
		}
		if later := c.LastTransitionTime.Compare(own.LastTransitionTime.Time); later > 0 || later == 0 && other.Name > m.Name {
			n++
		}
	}
	return n
}
