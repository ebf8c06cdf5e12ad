package migrationdecide

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// restartsSource simulates a kubelet that kills the old container, for a liveness probe or after
// a restart of the node, and starts it again from the beginning. Kubelets do not do that for a
// pod that is being deleted.
func (w *world) restartsSource() {
	pod := w.pods[source]
	if pod == nil || pod.DeletionTimestamp != nil || dead(pod) || w.restarted {
		return
	}
	w.processes[pod.UID] = &process{node: nodeA, running: true}
	pod.Status.ContainerStatuses[0].ContainerID = "containerd://again"
	w.restarted = true
	w.changed(pod)
	w.logf("the kubelet starts the container of %s again", pod.Name)
}

// copies returns the names of those of the two pods whose containers run.
func (w *world) copies() (names []string) {
	for _, pod := range []*corev1.Pod{w.pods[source], w.restored()} {
		if pod != nil && w.processes[pod.UID] != nil && w.processes[pod.UID].running {
			names = append(names, pod.Name)
		}
	}
	return names
}

// TestOneCopyIsLeftWheneverTheOldContainerIsStartedAgain: a kubelet can restart the old container
// at any moment until the old pod is being deleted. Until the new pod runs, it goes, and then the
// old one: soon one copy is left.
func TestOneCopyIsLeftWheneverTheOldContainerIsStartedAgain(t *testing.T) {
	handingOver := func(w *world) bool { return HandingOver(w.m) }
	for _, tc := range []struct {
		name  string
		until func(*world) bool
		phase v1alpha1.MigrationPhase
		left  string // part of the name of the pod that continues
	}{
		{"while its state is taken", ordered(v1alpha1.OrderFreeze), v1alpha1.MigrationRolledBack, source},
		{"once its state is staged", isStaged, v1alpha1.MigrationRolledBack, source},
		{"once the new pod runs", isRunning, v1alpha1.MigrationSucceeded, "-m"},
		{"once the new pod takes over", handingOver, v1alpha1.MigrationSucceeded, "-m"},
	} {
		for kind, owned := range map[string]owner{"bare": bare, "Job": ofJob, "ReplicaSet": ofSet} {
			t.Run(tc.name+", "+kind, func(t *testing.T) {
				w := on(t, owned, tc.until)
				w.restartsSource()
				start := w.now
				for range 200 {
					w.now = w.now.Add(time.Second)
					w.controller()
					w.scheduler()
					w.sourceAgent()
					w.targetAgent(nodeB)
					w.kubelet(nodeA)
					w.kubelet(nodeB)
					w.jobController()
					w.setController()
					if len(w.copies()) > 1 && w.now.Sub(start) > time.Minute {
						t.Fatalf("after %s two copies run: %v\n%s", w.now.Sub(start), w.copies(), strings.Join(w.trace, "\n"))
					}
				}
				if got := w.copies(); len(got) != 1 || !strings.Contains(got[0], tc.left) || w.m.Status.Phase != tc.phase {
					t.Errorf("%s, and %v run; want %s and %q\n%s", w.m.Status.Phase, got, tc.phase, tc.left, strings.Join(w.trace, "\n"))
				}
				if w.job != nil && w.job.Status.Failed > 0 {
					t.Errorf("the Job counts %d failures", w.job.Status.Failed)
				}
				if w.made > 0 {
					t.Errorf("the owner has made %d pods", w.made)
				}
			})
		}
	}
}

// TestAFreshCopyIsNotGivenTheGracePeriodOfAFrozenOne: the kubelet may have restarted the old
// container just before its pod was deleted with the long grace period of a frozen one.
func TestAFreshCopyIsNotGivenTheGracePeriodOfAFrozenOne(t *testing.T) {
	for kind, owned := range map[string]owner{"bare": bare, "Job": ofJob, "ReplicaSet": ofSet} {
		t.Run(kind, func(t *testing.T) {
			w := on(t, owned, func(w *world) bool { return HandingOver(w.m) && w.pods[source].DeletionTimestamp != nil })
			w.pods[source].Status.ContainerStatuses[0].ContainerID = "containerd://again"
			for range 10 {
				w.apply(w.decide(), w.m.ResourceVersion)
			}
			pod := w.pods[source]
			if got := *pod.DeletionGracePeriodSeconds; got != 30 {
				t.Errorf("it is given %d s to end, want the 30 that it asks for", got)
			}
			if len(pod.Finalizers) > 0 {
				t.Errorf("its Job would count how it ends: %v", pod.Finalizers)
			}
		})
	}
}
