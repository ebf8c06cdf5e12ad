//go:build vm

package migration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// TestACounterMovesToANewerReleaseAndNotBack moves a counter to a newer Debian with a newer kernel. It
// cannot move back, because a checkpoint is not restored on an older kernel.
func TestACounterMovesToANewerReleaseAndNotBack(t *testing.T) {
	w := twoOf(t, older, newer)
	w.starts(w.first, w.Pod("counter", cluster.Images["counter"]))
	before := w.follow("counter")
	m := w.Succeeded(w.moves("counter"))
	w.LogDuration(m)
	name := m.Status.Plan.RestoredPod
	w.continues(before, name)

	before = w.follow(name)
	m = w.reaches(w.moves(name), v1alpha1.MigrationReserving)
	w.Eventually("an Event of the new pod says why it has no node", func(ctx context.Context) error {
		events, err := w.Client().CoreV1().Events(w.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range events.Items {
			if strings.Contains(e.Message, "kernel") && strings.Contains(e.Message, "older than") {
				t.Logf("%s: %s", e.InvolvedObject.Name, e.Message)
				return nil
			}
			said = append(said, e.Message)
		}
		return fmt.Errorf("there is %q", said)
	})
	w.Counts(name, len(w.Ticks(name))+50) // enough time for a move
	if m = w.Until(m, "is there", func(*v1alpha1.Migration) error { return nil }); m.Status.Phase != v1alpha1.MigrationReserving {
		t.Errorf("the migration to an older kernel is %s, want Reserving", m.Status.Phase)
	}
	if err := w.cluster.Objects.Delete(w.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.MigrationGone(m)
	w.whole(name, before)
	if on := w.Get(name); on.Spec.NodeName != w.second.Name || on.Status.Phase != corev1.PodRunning {
		t.Errorf("the counter is %s on %s, want Running on %s", on.Status.Phase, on.Spec.NodeName, w.second.Name)
	}
}
