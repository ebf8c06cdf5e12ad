package migrationdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestOneCopyIsLeftWheneverTheFinalizerIsForcedOff: somebody removes the finalizer of a Migration
// that is being deleted, and thereby the record of its progress, before the handover or after any
// number of its writes. The agent kills the old container if its pod is being deleted, and thaws
// it otherwise. One copy must be left, in the old pod's place.
func TestOneCopyIsLeftWheneverTheFinalizerIsForcedOff(t *testing.T) {
	for kind, owned := range map[string]owner{"bare": bare, "Job": ofJob, "ReplicaSet": ofSet} {
		writes := 0
		for at := 0; ; at++ {
			w := on(t, owned, func(w *world) bool { return HandingOver(w.m) })
			for n := 0; n < at && !Ended(w.m); {
				if w.controller() {
					n++
				} else {
					w.sourceAgent()
					w.targetAgent(nodeB)
					w.kubelet(nodeA)
				}
			}
			if Ended(w.m) {
				writes = at
				break
			}
			t.Run(fmt.Sprintf("%s, after %d writes", kind, at), func(t *testing.T) { w.forcedOff(t) })
		}
		if writes < 5 {
			t.Errorf("a hand-over of %s has %d writes", kind, writes)
		}
	}
}

// forcedOff removes the Migration, and lets all actors act until everything has settled.
func (w *world) forcedOff(t *testing.T) {
	t.Helper()
	before := w.frozenAt
	w.logf("the Migration is gone")
	w.m = nil
	for range 300 {
		w.now = w.now.Add(time.Second)
		// The descheduler is notified as soon as the agent, and does two writes before a kubelet
		// reports that the container that the agent kills is dead.
		w.sourceAgent()
		w.controller()
		w.controller()
		w.targetAgent(nodeB)
		w.kubelet(nodeA)
		w.kubelet(nodeB)
		w.jobController()
		w.setController()
	}
	got := w.copies()
	if len(got) != 1 {
		t.Fatalf("%v run, want one\n%s", got, strings.Join(w.trace, "\n"))
	}
	pod := w.pods[got[0]]
	if pod.DeletionTimestamp != nil || pod.Labels[v1alpha1.LabelMigration] != "" || w.owned() && !w.owns(pod) || w.job == nil && pod.Labels["app"] != "work" {
		t.Errorf("pod %s has not the old one's place: %+v", pod.Name, pod.ObjectMeta)
	}
	if p := w.processes[pod.UID]; p.progress < before {
		t.Errorf("work is lost: it is at %d, and was frozen at %d", p.progress, before)
	}
	if w.made > 0 || w.job != nil && w.job.Status.Failed > 0 {
		t.Errorf("the owner has made %d pods and counts a failure: %v\n%s", w.made, w.job, strings.Join(w.trace, "\n"))
	}
}

func TestWhatBecomesOfANewPodWhoseMigrationIsGone(t *testing.T) {
	leaves := func(w *world) { w.deletePod(w.pods[source], 900) }
	place := func(w *world) {
		p := patchTakeOver(w.restored(), &v1alpha1.MigrationPlan{Owner: metav1.GetControllerOf(w.pods[source])}).Pod
		w.pods[p.Name] = p
	}
	for _, tc := range []struct {
		name  string
		owned owner
		until func(*world) bool
		spoil func(*world)
		do    Action
		pod   string // part of the name of the pod that is written
		why   string
	}{
		{"nothing was handed over", ofJob, isRunning, func(*world) {}, DeletePod, "-m", "the migration of the pod has ended"},
		{"the old pod is being deleted, and the new one runs", ofJob, isRunning, leaves, PatchPod, "-m", "takes over"},
		{"the old pod is being deleted, and the new one does not run yet", ofJob, isBound, leaves, DeletePod, "-m", "the migration of the pod has ended"},
		{"the old pod of a ReplicaSet is being deleted, which has seen to another", ofSet, isRunning, leaves, DeletePod, "-m", "the migration of the pod has ended"},
		{"the old pod has ended, and its Job has seen to another", ofJob, isRunning, func(w *world) { leaves(w); w.pods[source].Status.Phase = corev1.PodFailed }, DeletePod, "-m", "the migration of the pod has ended"},
		{"the new pod has the place, and the Job still counts the old one", ofJob, isRunning, func(w *world) { leaves(w); place(w) }, PatchPod, "work-x1", "no longer count"},
		{"the new pod has the place", bare, isRunning, func(w *world) { leaves(w); place(w) }, PatchPod, "-m", "no longer part of a migration"},
		{"the new pod has the place, and the old one is gone", ofJob, isRunning, func(w *world) { place(w); delete(w.pods, source) }, PatchPod, "-m", "no longer part of a migration"},
		{"the new pod has the place, and is being deleted", bare, isRunning, func(w *world) { place(w); w.deletePod(w.restored(), 30) }, PatchPod, "-m", "no longer part of a migration"},
		{"somebody deletes the new pod", ofJob, isRunning, func(w *world) { w.deletePod(w.restored(), 30) }, "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, tc.owned, tc.until)
			tc.spoil(w)
			step := Leftover(nil, w.restored(), w.pods[source])
			if step == nil {
				if tc.do != "" {
					t.Error("nothing is done")
				}
				return
			}
			if step.Do != tc.do || !strings.Contains(step.Pod.Name, tc.pod) || !strings.Contains(step.Why, tc.why) {
				t.Errorf("%s of %s: %s; want %s of %s: %s", step.Do, step.Pod.Name, step.Why, tc.do, tc.pod, tc.why)
			}
		})
	}
}
