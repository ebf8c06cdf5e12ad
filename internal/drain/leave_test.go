package drain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/attempts"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// rolledBack returns a Migration with the given number that was rolled back.
func rolledBack(pod *corev1.Pod, number int, uid string) v1alpha1.Migration {
	return v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: attempts.Name(attempts.Drain, pod.UID, number), UID: types.UID(uid), Labels: map[string]string{LabelDrained: string(pod.UID)},
		},
		Spec: v1alpha1.MigrationSpec{PodName: pod.Name, PodUID: string(pod.UID)},
		Status: v1alpha1.MigrationStatus{
			Phase:      v1alpha1.MigrationRolledBack,
			Conditions: []metav1.Condition{{Type: v1alpha1.MigrationFinished, Status: metav1.ConditionTrue}},
		},
	}
}

// Finished Migrations are deleted, oldest first. The pod records how many have failed, so that retries end and no name
// is used twice.
func TestTriesAreCountedThoughTheirMigrationsAreGone(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work", UID: "p"}}
	var all []v1alpha1.Migration
	for n := range 3 {
		m := rolledBack(pod, n+1, string(rune('a'+n)))
		all = append(all, m)
		pod = attempts.Note(pod, &m, noon)
	}
	for _, tc := range []struct {
		name         string
		pod          *corev1.Pod
		there        []v1alpha1.Migration
		failed, next int
	}{
		{"all are there", pod, all, 3, 4},
		{"the first is gone", pod, all[1:], 3, 4},
		{"all are gone", pod, nil, 3, 4},
		{"all are there, and the pod remembers nothing", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work", UID: "p"}}, all, 3, 4},
		{"the first is gone, and the pod remembers nothing", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work", UID: "p"}}, all[1:], 2, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			learned := runtimes.NewLearner()
			view := world.NewView(&world.World{Migrations: tc.there}, noon, learned)
			l := NewEmptying(nil, view, learned).Leaver(tc.pod)
			if l.RolledBack != tc.failed || l.nextTry() != tc.next {
				t.Errorf("%d have failed, and the next is number %d; want %d and %d", l.RolledBack, l.nextTry(), tc.failed, tc.next)
			}
		})
	}
}
