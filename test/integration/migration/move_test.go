package migration

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestAPodOfAJobMovesAndItsJobSeesNothingOfIt(t *testing.T) {
	for _, tc := range []struct {
		name string
		mode batchv1.CompletionMode
		pods int32
	}{
		{"job", batchv1.NonIndexedCompletion, 1},
		{"indexed", batchv1.IndexedCompletion, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "job-"+tc.name, 2)
			b.deschedule()
			b.job(tc.pods, tc.mode)
			old := b.Pods()[0]
			b.move(old.Name)
			m := b.ends("move-"+old.Name, v1alpha1.MigrationSucceeded)
			checkSteps(t, m, checkpointSteps)
			owned := b.healthy("work", int(tc.pods))
			moved := b.took(&old, m)
			if i := moved.Annotations[batchv1.JobCompletionIndexAnnotation]; i != old.Annotations[batchv1.JobCompletionIndexAnnotation] {
				t.Errorf("index %q has become %q", old.Annotations[batchv1.JobCompletionIndexAnnotation], i)
			}
			if len(owned) != int(tc.pods) {
				t.Errorf("%d pods", len(owned))
			}
			b.hasEvents(m, "Succeeded")
		})
	}
}

func TestABarePodMoves(t *testing.T) {
	t.Parallel()
	b := newBench(t, "bare", 2)
	b.deschedule()
	b.bare()
	old := b.Pods()[0]
	b.move("work")
	b.took(&old, b.ends("move-work", v1alpha1.MigrationSucceeded))
}

// A pod that has been moved can be moved again, also back to its original node.
func TestAPodMovesThereAndBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, "back", 2)
	b.deschedule()
	b.job(1, batchv1.NonIndexedCompletion)
	for range 3 {
		old := b.healthy("work", 1)[0]
		b.move(old.Name)
		m := b.ends("move-"+old.Name, v1alpha1.MigrationSucceeded)
		if moved := b.took(&old, m); moved.Annotations[v1alpha1.AnnotationBaseImage] != "work:1" {
			t.Errorf("its base image is %q", moved.Annotations[v1alpha1.AnnotationBaseImage])
		}
	}
}

func TestATargetThatIsNamedIsTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, "named", 5)
	b.deschedule()
	b.bare()
	from := b.Pods()[0].Spec.NodeName
	for i := range 5 {
		if to := b.Node(i); to != from {
			old := b.Runs(1)[0]
			b.move(old.Name, func(s *v1alpha1.MigrationSpec) { s.TargetNode = to })
			m := b.ends("move-"+old.Name, v1alpha1.MigrationSucceeded)
			if moved := b.took(&old, m); moved.Spec.NodeName != to {
				t.Errorf("it went to %s and not to %s", moved.Spec.NodeName, to)
			}
		}
	}
}

// The conditions of a success.
var (
	checkpointSteps = []string{
		v1alpha1.MigrationEligible, v1alpha1.MigrationReserved, v1alpha1.MigrationShipped, v1alpha1.MigrationVerified,
		v1alpha1.MigrationHandedOver, v1alpha1.MigrationCleanedUp, v1alpha1.MigrationFinished,
	}
)

func checkSteps(t *testing.T, m *v1alpha1.Migration, steps []string) {
	t.Helper()
	for _, kind := range steps {
		if c := condition(m, kind); c.Status != metav1.ConditionTrue || c.ObservedGeneration != m.Generation {
			t.Errorf("%s is %s: %+v", kind, c.Status, c)
		}
	}
	if s := m.Status.Measured; s == nil || s.FrozenSeconds == "" || s.DumpSeconds != "0.010" || s.ShipSeconds != "0.020" || s.RestoreSeconds == "" || s.TotalSeconds == "" || s.CheckpointBytes != 32<<20 {
		t.Errorf("measured %+v", s)
	}
}

// took checks that the new pod of a migration has all properties of the old one, and that the old one is
// gone.
func (b *bench) took(old *corev1.Pod, m *v1alpha1.Migration) *corev1.Pod {
	b.Helper()
	b.Eventually("the old pod is gone", func() string {
		if b.Find(old.Name, &corev1.Pod{}) {
			return "there"
		}
		return ""
	})
	moved := &corev1.Pod{}
	b.Eventually("the new pod runs", func() string {
		if !b.Find(m.Status.Plan.RestoredPod, moved) || moved.Status.Phase != corev1.PodRunning {
			return "in phase " + string(moved.Status.Phase)
		}
		return ""
	})
	if moved.Spec.NodeName == old.Spec.NodeName {
		b.Errorf("the new pod is on node %s too", old.Spec.NodeName)
	}
	for key, value := range old.Labels {
		if moved.Labels[key] != value {
			b.Errorf("label %s is %q, and was %q", key, moved.Labels[key], value)
		}
	}
	if moved.Labels[v1alpha1.LabelMigration] != "" {
		b.Error("the new pod still has the label of its migration")
	}
	if len(moved.OwnerReferences) != len(old.OwnerReferences) || len(moved.Finalizers) != len(old.Finalizers) {
		b.Errorf("owners %v, finalizers %v; the old pod had %v, %v", moved.OwnerReferences, moved.Finalizers, old.OwnerReferences, old.Finalizers)
	}
	return moved
}
