//go:build nodes

package migration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// counter starts a movable counter, and waits until it counts.
func (w *town) counter(name, image string) *corev1.Pod {
	w.Helper()
	w.Create(movable(w.Pod(name, image)))
	w.Running(name)
	w.counts(name, 5)
	return w.Get(name)
}

// wentOn checks that a counter that was not moved continues and has lost no value.
func (w *town) wentOn(name string) {
	w.Helper()
	w.counts(name, len(w.Ticks(name))+10)
	if err := workload.CheckTicks(w.Ticks(name), 1); err != nil {
		w.Error(err)
	}
}

// rolledBack waits until a migration has ended, and checks that it was rolled back for a reason that contains
// the words.
func (w *town) rolledBack(m *v1alpha1.Migration, words ...string) *v1alpha1.Migration {
	w.Helper()
	m = w.end(m)
	if m.Status.Phase != v1alpha1.MigrationRolledBack {
		w.Errorf("migration %s ended as %s: %s, want it rolled back", m.Name, m.Status.Phase, endMessage(m))
	}
	for _, word := range words {
		if !strings.Contains(endMessage(m), word) {
			w.Errorf("migration %s ended with %q, which does not say %q", m.Name, endMessage(m), word)
		}
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MigrationCleanedUp); c == nil || c.Status != metav1.ConditionTrue {
		w.Errorf("migration %s has ended and is not cleaned up: %+v", m.Name, c)
	}
	if pod := m.Status.Plan.RestoredPod; pod != "" {
		w.Gone(pod)
	}
	return m
}

// cordon cordons or uncordons a node.
func (w *town) cordon(node string, closed bool) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
	if _, err := w.Client().CoreV1().Nodes().Patch(w.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestATargetThatIsCordonedHalfWayGetsNothing(t *testing.T) {
	w := newTown(t)
	pod := w.counter("counter", cluster.Images["counter"])
	target := w.other(pod.Spec.NodeName)
	t.Cleanup(func() { w.cordon(target.Name, false) })
	m := w.move(pod.Name)
	w.until(m, "has a reservation", func(m *v1alpha1.Migration) error {
		if m.Status.Reservation == nil {
			return errors.New("it has none")
		}
		return nil
	})
	w.cordon(target.Name, true)
	m = w.end(m)
	// A pod that has been handed over by then stays on its node.
	if m.Status.Phase == v1alpha1.MigrationSucceeded {
		t.Fatalf("the pod went to a node that was closed when nothing was frozen yet: %+v", m.Status)
	}
	w.rolledBack(m, target.Name)
	w.wentOn(pod.Name)
}

func TestToDeleteAMigrationIsToCancelIt(t *testing.T) {
	w := newTown(t)
	pod := w.counter("counter", cluster.Images["counter"])
	m := w.move(pod.Name)
	w.until(m, "is planned", func(m *v1alpha1.Migration) error {
		if m.Status.Plan == nil {
			return errors.New("it is not")
		}
		return nil
	})
	if err := w.fleet.Objects.Delete(w.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.gone(m)
	w.wentOn(pod.Name)
}

func TestWithoutTheImageOnTheTargetNothingIsFrozen(t *testing.T) {
	const image = "localhost/only-here:1"
	w := newTown(t)
	source, target := w.Nodes[0], w.Nodes[1]
	dir := t.TempDir()
	text, err := os.ReadFile(cluster.ProgramPath("workload/counter"))
	if err != nil {
		t.Fatal(err)
	}
	// The same program, but with other bytes: the image differs.
	program, archive := filepath.Join(dir, "counter"), filepath.Join(dir, "image.tar")
	err = errors.Join(os.WriteFile(program, append(text, 0), 0o700), oci.WriteFile(archive, oci.Image{Name: image, Program: program}),
		source.Import(w.Context(), archive))
	if err != nil {
		t.Fatal(err)
	}
	w.cordon(target.Name, true)
	w.counter("counter", image)
	w.cordon(target.Name, false)
	m := w.rolledBack(w.move("counter", func(s *v1alpha1.MigrationSpec) { s.TargetNode = target.Name }), image, target.Name)
	w.wentOn("counter")
	if m.Status.Source.FrozenAt != nil {
		t.Errorf("the counter has stopped: %+v", m.Status.Source)
	}
}

func TestAfterTheHandOverADeathMakesAFreshPodAndNoSecondRestore(t *testing.T) {
	const length = 100
	w := newTown(t)
	w.chains("work", 1, length)
	m := w.succeeded(w.move(w.runningPods(w.Context(), "work")["0"].Name))
	restored := w.Get(m.Status.Plan.RestoredPod)
	// The container's first process is the chain.
	w.kill(restored)
	job := w.complete("work")
	if job.Status.Failed != 1 {
		t.Errorf("the Job counts %d failed, want the one that was killed", job.Status.Failed)
	}
	for _, pod := range w.podsOf(w.Context(), "work") {
		if pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		if got, want := pod.Spec.Containers[0].Image, cluster.Images["chain"]; got != want {
			t.Errorf("the pod after it runs %s, want %s", got, want)
		}
		w.wholeChain(&pod, length)
	}
}
