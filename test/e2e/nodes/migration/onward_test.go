//go:build nodes

package migration

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// TestANewPodThatRunsTakesOverAlthoughTheMoveIsCancelled deletes the Migration while the new pod runs and is not
// ready yet. If the old container continued, it would repeat what the new pod has printed.
func TestANewPodThatRunsTakesOverAlthoughTheMoveIsCancelled(t *testing.T) {
	w := newTown(t)
	pod := moves.Movable(w.Pod("counter", cluster.Images["counter"], corev1.EnvVar{Name: "LISTEN", Value: ":8080"}))
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}},
		InitialDelaySeconds: 20, PeriodSeconds: 1,
	}
	w.Create(pod)
	w.Running("counter")
	w.Counts("counter", 5)
	m := w.Move("counter")
	m = w.Until(m, "has a new pod that runs", func(m *v1alpha1.Migration) error {
		if moves.Ended(m) || m.Status.Phase != v1alpha1.MigrationVerifying {
			return errors.New("it does not wait for the new pod")
		}
		if moved := w.Get(m.Status.Plan.RestoredPod); moved.Status.Phase != corev1.PodRunning {
			return errors.New("the new pod does not run")
		}
		return nil
	})
	moved := m.Status.Plan.RestoredPod
	before := len(w.Ticks(moved))
	w.Counts(moved, before+3)
	if err := w.Objects.Delete(w.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.MigrationGone(m)
	w.Gone("counter")
	w.Counts(moved, len(w.Ticks(moved))+5)
	if err := workload.CheckTicks(w.Ticks(moved), 1); err != nil {
		t.Error(err)
	}
}
