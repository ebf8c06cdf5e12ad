package consolidation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/runtimes"
)

// TestRuntimesAreLearnedFromPodsThatHaveSucceededBefore: after a restart, pods that succeeded
// before are seen for the first time.
func TestRuntimesAreLearnedFromPodsThatHaveSucceededBefore(t *testing.T) {
	end := metav1.Now()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: map[string]string{v1alpha1.AnnotationCategory: "render"}},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(end.Add(-4 * time.Minute)), FinishedAt: end},
		}}}},
	}
	moved := pod.DeepCopy()
	moved.Annotations[v1alpha1.AnnotationBaseImage] = "image"
	moved.Status.ContainerStatuses[0].State.Terminated.StartedAt = metav1.NewTime(end.Add(-time.Second))
	learned := runtimes.NewLearner()
	matters := (&Mover{learned: learned}).podMatters()
	for range 3 {
		matters.Create(event.CreateEvent{Object: moved})
	}
	matters.Create(event.CreateEvent{Object: pod})
	matters.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: pod})
	if got, ok := learned.Median("ns", "render"); !ok || got != 4*time.Minute {
		t.Errorf("learned %s, want 4m0s", got)
	}
}
