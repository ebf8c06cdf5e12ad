package fleet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/world"
)

func TestPodsThatTheSchedulerMayBeBindingHoldAClosedNode(t *testing.T) {
	closed := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(created time.Duration, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(closed.Add(created))}}
		change(&p)
		return p
	}
	as := func(*corev1.Pod) {}
	tests := []struct {
		name string
		pod  corev1.Pod
		at   time.Duration
		want int
	}{
		{"one that came before", pod(-time.Second, as), closedFor, 1},
		{"one that came shortly after", pod(time.Second, as), closedFor, 1},
		{"one that came when the scheduler knew", pod(closedFor, as), closedFor, 0},
		{"one that is bound", pod(-time.Second, func(p *corev1.Pod) { p.Spec.NodeName = "b" }), closedFor, 0},
		{"one that has found no room", pod(-time.Second, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		}), closedFor, 0},
		{"one that is being deleted", pod(-time.Second, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(closed)) }), closedFor, 0},
		{"one that nobody seems to schedule", pod(-time.Second, as), 3 * time.Minute, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := &round{world: &world.World{Pods: []corev1.Pod{tc.pod}}, now: closed.Add(tc.at)}
			if got := r.onTheirWay(closed); got != tc.want {
				t.Errorf("%d pods are on their way, want %d", got, tc.want)
			}
		})
	}
}
