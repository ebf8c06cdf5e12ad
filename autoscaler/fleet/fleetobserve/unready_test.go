package fleetobserve

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

func TestAPodIsCondemnedOnceItsGracePeriodIsOverAndNoMigrationMovesIt(t *testing.T) {
	moving := v1alpha1.Migration{}
	moving.Status.Plan = &v1alpha1.MigrationPlan{PodUID: "moved"}
	w := &world.World{Migrations: []v1alpha1.Migration{moving}}
	o := &Observation{Now: epoch, View: world.NewView(w, epoch, runtimes.NewLearner())}
	deleted := func(name string, at time.Time) *corev1.Pod {
		pod := testPod(name, 1, 1, 0)
		pod.DeletionTimestamp = new(metav1.NewTime(at))
		return pod
	}
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		after time.Duration
		is    bool
	}{
		{"it is not being deleted", testPod("p", 1, 1, 0), 0, false},
		{"its grace period continues", deleted("p", epoch.Add(minute)), minute, true},
		{"its grace period is over", deleted("p", epoch.Add(-minute)), 0, true},
		{"a Migration moves it", deleted("moved", epoch.Add(-minute)), 0, false},
	} {
		if after, is := o.condemned(tc.pod); after != tc.after || is != tc.is {
			t.Errorf("%s: condemned %t after %v, want %t after %v", tc.name, is, after, tc.is, tc.after)
		}
	}
}

func TestOfSeveralPodsOnADeadNodeTheFirstByNameIsNamed(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	for _, pods := range [][]*corev1.Pod{{pod("a"), pod("b")}, {pod("b"), pod("a")}} {
		o := Observation{podsOn: map[string][]*corev1.Pod{"n": pods}}
		if got := o.remains("n"); got.Lost != "default/a" || got.Pods != 2 {
			t.Errorf("of %s and %s %+v remain, want default/a to be named", pods[0].Name, pods[1].Name, got)
		}
	}
}
