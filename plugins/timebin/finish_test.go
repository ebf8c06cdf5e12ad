package timebin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/test/fixtures"
)

func controlledBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: &yes}}
	}
}

func TestWhenAPodIsExpectedToEnd(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	created := func(p *corev1.Pod) { p.CreationTimestamp.Time = noon }
	written := func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationExpectedFinish] = "2026-01-01T12:30:00.000Z" }
	tests := []struct {
		name     string
		change   []func(*corev1.Pod)
		reserved bool // for an hour from noon
		want     time.Time
		counts   bool // affects how long its node stays
	}{
		{"a service never ends", nil, false, packing.Unending, true},
		{"nor does a pod of a ReplicaSet", []func(*corev1.Pod){controlledBy("ReplicaSet")}, false, packing.Unending, true},
		{"a pod of a DaemonSet is on every node", []func(*corev1.Pod){controlledBy("DaemonSet")}, false, packing.Unending, false},
		{"so is a static one", []func(*corev1.Pod){controlledBy("Node")}, false, packing.Unending, false},
		{"a pod of a Job ends after the default", []func(*corev1.Pod){controlledBy("Job"), created}, false, noon.Add(10 * time.Minute), true},
		{"a batch pod after the runtime that is declared", []func(*corev1.Pod){fixtures.Batch("5m"), created}, false, noon.Add(5 * time.Minute), true},
		{"a pod just placed when Reserve said", []func(*corev1.Pod){fixtures.Batch("5m"), created}, true, noon.Add(time.Hour), true},
		{"a bound one when it is written", []func(*corev1.Pod){fixtures.Batch("5m"), created, written}, true, noon.Add(30 * time.Minute), true},
		{"a batch pod on every node ends anyway", []func(*corev1.Pod){fixtures.Batch("5m"), controlledBy("DaemonSet"), created}, false, noon.Add(5 * time.Minute), true},
		{"what is written on a service says nothing", []func(*corev1.Pod){written}, true, packing.Unending, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := &Plugin{defaultRuntime: 10 * time.Minute, reserved: newReservations()}
			pod := fixtures.Pod("p", 1, 1, tc.change...)
			if tc.reserved {
				p.reserved.add(pod.UID, noon, time.Hour)
			}
			got, counts := p.finish(pod)
			if !got.Equal(tc.want) || counts != tc.counts {
				t.Errorf("%v, counts: %t; want %v, %t", got, counts, tc.want, tc.counts)
			}
		})
	}
}

func TestAReservationIsDroppedOnceTheFinishIsWritten(t *testing.T) {
	p := &Plugin{defaultRuntime: time.Minute, reserved: newReservations()}
	pod := fixtures.Pod("p", 1, 1, fixtures.Batch("5m"))
	p.reserved.add(pod.UID, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), time.Hour)
	if p.finish(pod); len(p.reserved.finishes) != 1 {
		t.Error("it is dropped before")
	}
	pod.Annotations[v1alpha1.AnnotationExpectedFinish] = "2026-01-01T12:30:00.000Z"
	if p.finish(pod); len(p.reserved.finishes) != 0 {
		t.Error("it is kept")
	}
}
