package fleet

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// evictions is the number of evictions so far.
func (m *model) evictions() (n int) {
	for _, line := range m.log {
		if strings.Contains(line, "eviction") {
			n++
		}
	}
	return n
}

// halves are two machines of four cores with a service each, whose pods request so much CPU by now.
func halves(t *testing.T, cpu int64, change func(pod *corev1.Pod)) *model {
	t.Helper()
	m := newModel(t, alone(func(f *v1alpha1.NodeFleet) {
		f.Spec.Consolidation.PodResidence = new(metav1.Duration{Duration: minute})
	}), smalls())
	for _, name := range []string{"a", "b"} {
		pod := testPod(name, 3000, 1024, 0)
		pod.Labels = map[string]string{v1alpha1.LabelClass: "service"}
		pod.Generation = 1
		m.add(pod)
	}
	m.run(3*minute, "f")
	if m.made != 2 {
		t.Fatalf("%d machines were made, want 2", m.made)
	}
	for _, pod := range m.pods() {
		setCPU(&pod, cpu)
		change(&pod)
		m.must(m.client.Update(t.Context(), &pod))
	}
	return m
}

func setCPU(pod *corev1.Pod, cpu int64) {
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
}

func templateOf(cpu int64) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r", UID: "r"}}
	set.Spec.Template.Spec = *testPod("template", cpu, 1024, 0).Spec.DeepCopy()
	return set
}

func TestAPodThatWasResizedIsNotMovedToWhereItsSuccessorDoesNotFit(t *testing.T) {
	m := halves(t, 1500, func(pod *corev1.Pod) { pod.Generation = 2 })
	m.must(m.client.Create(t.Context(), templateOf(3000)))
	m.creates = func(pod *corev1.Pod) { setCPU(pod, 3000); pod.Generation = 1 }
	m.run(time.Hour, "f")
	if n := m.evictions(); n != 0 {
		t.Errorf("%d pods were evicted", n)
	}
}

func TestAPodThatAdmissionMadeSmallerIsMoved(t *testing.T) {
	m := halves(t, 1500, func(*corev1.Pod) {})
	m.must(m.client.Create(t.Context(), templateOf(3000)))
	m.run(time.Hour, "f")
	m.checkOutcome("2 pods run, 0 wait, 0 have ended, lost []; small 1 of 1, at most 2; 2 were made, 0 nodes are cordoned")
}

// TestSuccessorsThatAreLargerThanKnownAreTriedLessAndLess: a mutating webhook has been installed since the pods were
// created, and a component resizes all pods after their start.
func TestSuccessorsThatAreLargerThanKnownAreTriedLessAndLess(t *testing.T) {
	for _, tc := range []struct {
		name    string
		resizes bool
		most    int
	}{{"and stay so", false, 1}, {"and are resized", true, 6}} {
		t.Run(tc.name, func(t *testing.T) {
			m := halves(t, 1500, func(*corev1.Pod) {})
			m.creates = func(pod *corev1.Pod) { setCPU(pod, 3000); pod.Generation = 1 }
			for range 2 * 60 {
				m.run(minute, "f")
				for _, pod := range m.pods() {
					if s := pod.Status.StartTime; tc.resizes && s != nil && m.clock.Now().Sub(s.Time) >= 30*second && pod.Generation == 1 {
						setCPU(&pod, 1500)
						pod.Generation = 2
						m.must(m.client.Update(t.Context(), &pod))
					}
				}
			}
			if n := m.evictions(); n == 0 || n > tc.most {
				t.Errorf("%d pods were evicted in two hours, want one, and at most %d", n, tc.most)
			}
		})
	}
}
