package migrationdecide

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/attempts"
)

// goesBack makes a named migration roll back, and returns how many failures the pod remembers
// then.
func (w *world) goesBack(t *testing.T, name string, spoil func(*world)) int {
	t.Helper()
	w.m.Name = name
	spoil(w)
	for range 100 {
		if w.m == nil || Ended(w.m) {
			return attempts.Failed(w.pods[source], attempts.Eviction, w.now)
		}
		w.now = w.now.Add(time.Second)
		w.controller()
		w.sourceAgent()
		w.targetAgent(nodeB)
		w.kubelet(nodeB)
	}
	t.Fatalf("it has not ended: %+v", w.m.Status)
	return 0
}

// TestThePodRemembersThatItWasNotMoved: a finished Migration may be deleted at once. The next one
// is created from what the pod remembers.
func TestThePodRemembersThatItWasNotMoved(t *testing.T) {
	fails := func(w *world) { w.nodes[nodeB].Spec.Unschedulable = true }
	for _, tc := range []struct {
		name      string
		migration string
		spoil     func(*world)
		want      int
	}{
		{"one that an eviction has made", "evict-uid-work-x1-1", fails, 1},
		{"one that somebody else has made", "by-hand", fails, 0},
		{"one that was cancelled", "evict-uid-work-x1-1", func(w *world) { w.m.DeletionTimestamp = new(metav1.NewTime(w.now)) }, 0},
		{"one that its agent refuses", "evict-uid-work-x1-1", func(w *world) {
			w.m.Status.Source = &v1alpha1.SourceReport{Step: v1alpha1.SourceFailed, Reason: "OpenConnections"}
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofJob, ordered(v1alpha1.OrderFreeze))
			if got := w.goesBack(t, tc.migration, tc.spoil); got != tc.want {
				t.Errorf("it remembers %d, want %d", got, tc.want)
			}
		})
	}
}

func TestThePodRemembersThatThereWasNoRoom(t *testing.T) {
	w := newWorld(0, ofJob)
	w.m.Name = "evict-uid-work-x1-1"
	o := waiting(w, 10, w.now)
	step := Next(w.config, o, w.now.Add(time.Hour))
	if step.Do != PatchPod || attempts.Failed(step.Pod, attempts.Eviction, w.now.Add(time.Hour)) != 1 {
		t.Fatalf("it does not remember: %+v", step)
	}
	o.Source = step.Pod
	if step = Next(w.config, o, w.now.Add(time.Hour)); step.Do != WriteStatus || step.Status.Phase != v1alpha1.MigrationRolledBack {
		t.Errorf("then it does not end: %+v", step)
	}
}

// TestTheNewPodRemembersNoFailures: it is on another node.
func TestTheNewPodRemembersNoFailures(t *testing.T) {
	w := newWorld(0, bare)
	w.pods[source] = attempts.Note(w.pods[source], &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Name: "evict-uid-work-x1-1", UID: "earlier"}}, w.now)
	step := w.decide()
	for range 20 {
		if step.Do == CreatePod {
			break
		}
		w.apply(step, w.m.ResourceVersion)
		w.sourceAgent()
		step = w.decide()
	}
	if _, ok := step.Pod.Annotations[attempts.Annotation]; step.Do != CreatePod || ok {
		t.Errorf("%s, with the annotation: %v", step.Do, ok)
	}
}
