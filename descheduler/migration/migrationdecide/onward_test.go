package migrationdecide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// unready has the kubelet report that the new pod runs, and that its readiness probe fails.
func (w *world) unready() {
	r := w.restored()
	r.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
	r.Status.ContainerStatuses[0].Ready = false
	r.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
}

// TestOnceTheNewPodHasRunThereIsOnlyTheWayForward: the old container would do its work again.
func TestOnceTheNewPodHasRunThereIsOnlyTheWayForward(t *testing.T) {
	cancel := func(w *world) { w.m.DeletionTimestamp = &metav1.Time{} }
	late := func(w *world) { w.now = w.now.Add(6 * time.Minute) }
	succeeded := func(w *world) { w.restored().Status.Phase = corev1.PodSucceeded }
	const waits, hands, holds = "waits", "hands over", "holds"
	for _, tc := range []struct {
		name  string
		owned owner
		spoil []func(*world)
		want  string
	}{
		{"it is ready", ofJob, nil, hands},
		{"it is ready, and the migration is cancelled", ofJob, []func(*world){cancel}, hands},
		{"it is ready, and the deadline has passed", ofJob, []func(*world){late}, hands},
		{"it is ready, and its node was cordoned", ofJob, []func(*world){func(w *world) { w.nodes[nodeB].Spec.Unschedulable = true }}, hands},
		{"it is ready, and the scheduler has released the reservation", ofJob, []func(*world){func(w *world) { w.m.Status.Reservation = nil }}, hands},
		{"it is ready, and the old container was started again", ofJob, []func(*world){(*world).restartsSource}, hands},
		{"it is ready, and the agent of its node has failed since", ofJob, []func(*world){func(w *world) { w.m.Status.Target.Step = v1alpha1.TargetFailed }}, hands},
		{"it has succeeded, and the migration is cancelled", ofJob, []func(*world){succeeded, cancel}, hands},
		{"it has succeeded, and its node is not ready", ofJob, []func(*world){succeeded, func(w *world) { w.cutOff(nodeB) }}, hands},
		{"it has succeeded, and its node is gone", ofJob, []func(*world){succeeded, func(w *world) { delete(w.nodes, nodeB) }}, hands},
		{"its node is not ready", ofJob, []func(*world){func(w *world) { w.cutOff(nodeB) }}, holds},
		{"its node is not ready, and the deadline has passed", ofJob, []func(*world){func(w *world) { w.cutOff(nodeB) }, late}, holds},
		{"it is not ready", ofJob, []func(*world){(*world).unready}, waits},
		{"it is not ready, and the migration is cancelled", ofJob, []func(*world){(*world).unready, cancel}, hands},
		{"it is not ready, and the deadline has passed", ofJob, []func(*world){(*world).unready, late}, hands},
		{"a bare pod is not ready, and the deadline has passed", bare, []func(*world){(*world).unready, late}, hands},
		{"a pod of a ReplicaSet is not ready", ofSet, []func(*world){(*world).unready}, waits},
		{"a pod of a ReplicaSet is not ready, and the deadline has passed", ofSet, []func(*world){(*world).unready, late}, holds},
		{"a pod of a ReplicaSet is not ready, and the migration is cancelled", ofSet, []func(*world){(*world).unready, cancel}, holds},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := on(t, tc.owned, isRunning)
			for _, spoil := range tc.spoil {
				spoil(w)
			}
			step := w.decide()
			for step.Do == WriteStatus && condition(step.Status, v1alpha1.MigrationHandedOver) == nil {
				w.apply(step, w.m.ResourceVersion)
				step = w.decide()
			}
			got := waits
			switch {
			case Back(w.m):
				got = "goes back: " + condition(&w.m.Status, v1alpha1.MigrationFinished).Reason
			case step.Do == WriteStatus:
				got = hands
			case heldAt(&w.m.Status) != nil:
				got = holds
			}
			if got != tc.want {
				t.Fatalf("it %s (%s), want that it %s", got, step.Why, tc.want)
			}
			if limited := step.Do == Wait && !step.Until.IsZero(); got != hands && limited != (got == waits) {
				t.Errorf("it waits until %v", step.Until)
			}
		})
	}
}

// TestAHoldEndsWhenTheNodeOfTheNewPodIsBack, so that the migration counts towards the limits again.
func TestAHoldEndsWhenTheNodeOfTheNewPodIsBack(t *testing.T) {
	w := on(t, ofJob, isRunning)
	w.unready()
	w.cutOff(nodeB)
	w.untilItWaits()
	if heldAt(&w.m.Status) == nil {
		t.Fatalf("it is not held: %+v", w.m.Status.Conditions)
	}
	w.reconnect()
	w.m.Status.Plan.DeadlineAt = metav1.NewTime(w.now.Add(time.Hour))
	w.apply(w.decide(), w.m.ResourceVersion)
	if c := condition(&w.m.Status, v1alpha1.MigrationFrozen); heldAt(&w.m.Status) != nil || c.Status != yes || c.Reason != v1alpha1.MigrationReasonFrozen {
		t.Errorf("it is still held: %+v", c)
	}
}
