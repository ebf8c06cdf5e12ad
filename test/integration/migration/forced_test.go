package migration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/test/kit"
)

// The Migration is deleted by force when the old pod has just been deleted for the hand-over, and the new one
// is not bound yet.
func TestANewPodTakesOverThoughItsMigrationIsForcedAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, "forced", 2)
	b.job(1, batchv1.NonIndexedCompletion)
	old := b.Pods()[0]
	b.hold(old.Name)
	g := kit.NewGate(func(r *http.Request) bool {
		return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pods/"+old.Name)
	})
	b.deschedule(func(o *app.Options) { o.Config.Wrap(g.Wrap) })
	m := b.move(old.Name)
	select {
	case <-g.Reached:
	case <-b.Context().Done():
		t.Fatal("the old pod is not deleted")
	}
	b.Find(m.Name, m)
	before := m.DeepCopy()
	m.Finalizers = nil
	if err := b.Patch(b.Context(), m, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(b.Context(), m); err != nil {
		t.Fatal(err)
	}
	close(g.Open)
	b.Eventually("the Job does not count the old pod", func() string {
		p := &corev1.Pod{}
		if b.Find(old.Name, p) && (len(p.OwnerReferences) > 0 || len(p.Finalizers) > 1) {
			return fmt.Sprintf("owners %v, finalizers %v", p.OwnerReferences, p.Finalizers)
		}
		return ""
	})
	b.release(old.Name)
	// The agent kills the old container, whose pod is being deleted.
	if err := b.Delete(b.Context(), &old, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	moved := b.healthy("work", 1)[0]
	if moved.Name != m.Status.Plan.RestoredPod || moved.Status.Phase != corev1.PodRunning || moved.DeletionTimestamp != nil {
		t.Errorf("pod %s is %s", moved.Name, moved.Status.Phase)
	}
}
