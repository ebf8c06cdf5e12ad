//go:build vm

package migration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

func TestTheTargetLosesPowerWhileItIsVerifiedAndTheSourceContinues(t *testing.T) {
	w := twoOf(t, older, older)
	w.starts(w.first, w.Pod("counter", cluster.Images["counter"]))
	before := w.follow("counter")
	m := w.reaches(w.moves("counter"), v1alpha1.MigrationVerifying)
	if err := w.second.PowerOff(); err != nil {
		t.Fatal(err)
	}
	stood := len(before.ticks()) // frozen before the copy was sent
	// It is unknown whether the copy ran, so the source stays frozen until the target's node is back.
	w.Until(m, "knows that its target is gone", func(m *v1alpha1.Migration) error {
		node, err := w.Client().CoreV1().Nodes().Get(w.Context(), w.second.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %s is taken for ready", w.second.Name)
	})
	if now := len(before.ticks()); now != stood {
		t.Errorf("the source has printed %d values since the target lost power, want it frozen", now-stood)
	}
	if err := w.second.Up(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.RolledBack(m, "TargetNotReady")
	w.whole("counter", before)
}

func TestTheSourceLosesPowerWhileTheTargetIsVerifiedAndTheCopyTakesOver(t *testing.T) {
	w := twoOf(t, older, older)
	w.starts(w.first, w.Pod("counter", cluster.Images["counter"]))
	before := w.follow("counter")
	m := w.reaches(w.moves("counter"), v1alpha1.MigrationVerifying)
	if err := w.first.PowerOff(); err != nil {
		t.Fatal(err)
	}
	w.continues(before, m.Status.Plan.RestoredPod)
	w.conditionIs(m, v1alpha1.MigrationHandedOver, metav1.ConditionFalse, "SourceNotReady")
	if err := w.first.Up(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	m = w.Succeeded(m)
	w.LogDuration(m)
	w.Gone("counter")
	w.continues(before, m.Status.Plan.RestoredPod)
}
