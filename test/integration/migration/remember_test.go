package migration

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/internal/movable/attempts"
)

// Ended Migrations are not kept. The pod records how many have failed.
func TestFailuresAreRememberedThoughNoMigrationIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, "remember", 2)
	b.agents.script(nil, targetFailsAt(v1alpha1.TargetPrepared, "NoRoom"))
	b.deschedule(func(o *app.Options) { o.Migrations.MaxFinished = 0 })
	b.bare()
	pod := b.Pods()[0]
	for n := range 3 {
		b.Make(&v1alpha1.Migration{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: attempts.Name(attempts.Eviction, pod.UID, 1)},
			Spec:       v1alpha1.MigrationSpec{PodName: pod.Name, PodUID: string(pod.UID)},
		})
		b.Eventually("the Migration is gone", func() string {
			if left := b.Migrations(); len(left) > 0 {
				return "in phase " + string(left[0].Status.Phase)
			}
			return ""
		})
		b.Find(pod.Name, &pod)
		if got := attempts.Failed(&pod, attempts.Eviction, time.Now()); got != n+1 {
			t.Fatalf("after %d failures the pod remembers %d: %v", n+1, got, pod.Annotations)
		}
	}
}
