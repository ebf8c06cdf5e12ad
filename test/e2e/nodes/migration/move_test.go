//go:build nodes

package migration

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

func TestACounterMovesThreeTimesAndLosesNothing(t *testing.T) {
	for _, megabytes := range []int{0, 64, 256, 1024} {
		t.Run(strconv.Itoa(megabytes)+"MiB", func(t *testing.T) {
			w := newTown(t)
			w.Create(moves.Movable(w.Pod("counter", cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: strconv.Itoa(megabytes)})))
			w.Running("counter")
			name := "counter"
			w.Counts(name, 5)
			for range 3 {
				before := w.Get(name).Spec.NodeName
				m := w.Succeeded(w.Move(name))
				name = m.Status.Plan.RestoredPod
				if after := w.Get(name).Spec.NodeName; after == before {
					t.Errorf("pod %s is on %s, where it was", name, after)
				}
				w.Counts(name, len(w.Ticks(name))+5)
				w.LogDuration(m)
			}
			// The earlier output has moved with the container.
			if err := workload.CheckTicks(w.Ticks(name), 1); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAJobOfTwentyChainsIsMovedTwiceAndEveryChainIsWhole(t *testing.T) {
	const indexes, steps, moves = 20, 1200, 2
	w := newTown(t)
	w.Chains("chains", indexes, steps)
	for range moves {
		var all []*v1alpha1.Migration
		for _, pod := range w.RunningPods(w.Context(), "chains") {
			all = append(all, w.Move(pod.Name))
		}
		if len(all) != indexes {
			t.Fatalf("%d pods run and are moved, want %d: make STEPS larger on a machine as slow as this", len(all), indexes)
		}
		for _, m := range all {
			w.Succeeded(m)
		}
	}
	job := w.Complete("chains")
	if job.Status.Failed != 0 || job.Status.Succeeded != indexes {
		t.Errorf("the Job counts %d failed and %d succeeded, want 0 and %d", job.Status.Failed, job.Status.Succeeded, indexes)
	}
	pods := w.PodsOf(w.Context(), "chains")
	if len(pods) != indexes {
		t.Errorf("the Job has %d pods, want %d", len(pods), indexes)
	}
	for _, pod := range pods {
		w.WholeChain(&pod, steps)
	}
}
