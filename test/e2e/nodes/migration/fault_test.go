//go:build nodes

package migration

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

func TestATargetThatIsCordonedHalfWayGetsNothing(t *testing.T) {
	w := newTown(t)
	pod := w.Counter("counter", cluster.Images["counter"])
	target := w.other(pod.Spec.NodeName)
	t.Cleanup(func() { w.Cordon(target.Name, false) })
	m := w.Move(pod.Name)
	w.Until(m, "has a reservation", func(m *v1alpha1.Migration) error {
		if m.Status.Reservation == nil {
			return errors.New("it has none")
		}
		return nil
	})
	w.Cordon(target.Name, true)
	m = w.End(m)
	// A pod that has been handed over by then stays on its node.
	if m.Status.Phase == v1alpha1.MigrationSucceeded {
		t.Fatalf("the pod went to a node that was closed when nothing was frozen yet: %+v", m.Status)
	}
	w.RolledBack(m, target.Name)
	w.Continued(pod.Name)
}

func TestToDeleteAMigrationIsToCancelIt(t *testing.T) {
	w := newTown(t)
	pod := w.Counter("counter", cluster.Images["counter"])
	m := w.Move(pod.Name)
	w.Until(m, "is planned", func(m *v1alpha1.Migration) error {
		if m.Status.Plan == nil {
			return errors.New("it is not")
		}
		return nil
	})
	if err := w.fleet.Objects.Delete(w.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.MigrationGone(m)
	w.Continued(pod.Name)
}

func TestWithoutTheImageOnTheTargetNothingIsFrozen(t *testing.T) {
	const image = "localhost/only-here:1"
	w := newTown(t)
	source, target := w.fleet.Nodes[0], w.fleet.Nodes[1]
	if err := source.ImportOnlyHere(w.Context(), image, "counter"); err != nil {
		t.Fatal(err)
	}
	w.Cordon(target.Name, true)
	w.Counter("counter", image)
	w.Cordon(target.Name, false)
	m := w.RolledBack(w.Move("counter", func(s *v1alpha1.MigrationSpec) { s.TargetNode = target.Name }), image, target.Name)
	w.Continued("counter")
	if m.Status.Source.FrozenAt != nil {
		t.Errorf("the counter has stopped: %+v", m.Status.Source)
	}
}

func TestAfterTheHandOverADeathMakesAFreshPodAndNoSecondRestore(t *testing.T) {
	const length = 100
	w := newTown(t)
	w.Chains("work", 1, length)
	m := w.Succeeded(w.Move(w.RunningPods(w.Context(), "work")["0"].Name))
	restored := w.Get(m.Status.Plan.RestoredPod)
	// The container's first process is the chain.
	w.kill(restored)
	job := w.Complete("work")
	if job.Status.Failed != 1 {
		t.Errorf("the Job counts %d failed, want the one that was killed", job.Status.Failed)
	}
	for _, pod := range w.PodsOf(w.Context(), "work") {
		if pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		if got, want := pod.Spec.Containers[0].Image, cluster.Images["chain"]; got != want {
			t.Errorf("the pod after it runs %s, want %s", got, want)
		}
		w.WholeChain(&pod, length)
	}
}
