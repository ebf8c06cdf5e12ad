package migrationdecide

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// waitsFor makes the kubelet of the new pod report why its container waits.
func (w *world) waitsFor(reason, message string) {
	w.restored().Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}
}

// withoutSandbox makes the kubelet of the new pod report that its volumes are not mounted.
func (w *world) withoutSandbox() {
	w.restored().Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)},
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse},
	}
}

// rollsBack lets only the controller act, and returns when it rolls back and why.
func (w *world) rollsBack() (after time.Duration, why string) {
	start := w.now
	for range 50 {
		if Back(w.m) {
			return w.now.Sub(start), condition(&w.m.Status, v1alpha1.MigrationFinished).Reason + ": " + condition(&w.m.Status, v1alpha1.MigrationFinished).Message
		}
		if step := w.decide(); step.Do != Wait {
			w.apply(step, w.m.ResourceVersion)
		} else {
			w.now = step.Until
		}
	}
	return 0, "it does not roll back"
}

// TestANewPodThatCannotStartLeadsBackSoon: the old container is frozen while the new one fails to
// start, which must not last until a deadline of up to a day.
func TestANewPodThatCannotStartLeadsBackSoon(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*world)
		after time.Duration
		says  string
	}{
		{"CreateContainerError", func(w *world) { w.waitsFor("CreateContainerError", "no such image") }, 30 * time.Second, "RestoreFailed: the new pod does not start: CreateContainerError no such image"},
		{"a Secret for its environment is missing", func(w *world) { w.waitsFor("CreateContainerConfigError", `secret "s" not found`) }, 30 * time.Second, `CreateContainerConfigError secret "s" not found`},
		{"ImageInspectError", func(w *world) { w.waitsFor("ImageInspectError", "") }, 30 * time.Second, "ImageInspectError"},
		{"ErrImageNeverPull", func(w *world) { w.waitsFor("ErrImageNeverPull", "") }, 30 * time.Second, "ErrImageNeverPull"},
		{"a volume is not mounted", (*world).withoutSandbox, 2 * time.Minute, "its volumes are not mounted"},
		{"it is being restored", func(w *world) { w.waitsFor("ContainerCreating", "") }, 24 * time.Hour, "DeadlineExceeded"},
		{"nothing is known", func(*world) {}, 24 * time.Hour, "DeadlineExceeded"},
		{"it has its volumes and is being restored", func(w *world) {
			w.withoutSandbox()
			w.restored().Status.Conditions[1].Status = corev1.ConditionTrue
		}, 24 * time.Hour, "DeadlineExceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, ofJob, isBound)
			w.m.Status.Plan.DeadlineAt = metav1.NewTime(w.now.Add(24 * time.Hour))
			tc.spoil(w)
			after, why := w.rollsBack()
			if after != tc.after || !strings.Contains(why, tc.says) {
				t.Errorf("after %s: %s; want %s: %s", after, why, tc.after, tc.says)
			}
		})
	}
}

func TestANewPodThatStartsAfterAnErrorTakesOver(t *testing.T) {
	w := on(t, ofJob, isBound)
	w.waitsFor("CreateContainerError", "try again")
	w.controller()
	if c := condition(&w.m.Status, v1alpha1.MigrationVerified); c == nil || c.Status != no || c.Reason != "StartError" || !strings.Contains(c.Message, "try again") {
		t.Fatalf("the error is not told: %+v", c)
	}
	w.now = w.now.Add(20 * time.Second)
	for range 100 {
		w.controller()
		w.sourceAgent()
		w.targetAgent(nodeB)
		w.kubelet(nodeA)
		w.kubelet(nodeB)
		w.jobController()
	}
	if w.m.Status.Phase != v1alpha1.MigrationSucceeded || condition(&w.m.Status, v1alpha1.MigrationVerified).Status != yes {
		t.Errorf("it ends as %s: %+v", w.m.Status.Phase, w.m.Status.Conditions)
	}
}
