package learning

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func finished(name, category string, phase corev1.PodPhase, runtime time.Duration) *corev1.Pod {
	end := time.Unix(1_000_000, 0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{v1alpha1.AnnotationCategory: category, "other": "big"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "pause"}}},
		Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Image: "pause", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(end.Add(-runtime)), FinishedAt: metav1.NewTime(end)}}}}},
	}
}

func TestSucceededPodsTeachAndOthersDoNot(t *testing.T) {
	moved := finished("m", "render", corev1.PodSucceeded, time.Second) // the rest of a run
	moved.Annotations[v1alpha1.AnnotationBaseImage] = "pause"
	client := fake.NewClientset(
		finished("a", "render", corev1.PodSucceeded, 4*time.Minute),
		finished("b", "render", corev1.PodFailed, time.Hour),
		finished("c", "", corev1.PodSucceeded, time.Hour),
		moved,
	)
	ctx, cancel := context.WithCancel(t.Context())
	learner := Shared(ctx, client)
	if Shared(t.Context(), client) != learner {
		t.Error("one client has two learners")
	}
	check := func(want time.Duration) {
		t.Helper()
		var got time.Duration
		err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			got, _ = learner.Median("ns", "render")
			return got == want, nil
		})
		if err != nil {
			t.Errorf("learned %v, want %v", got, want)
		}
	}
	check(4 * time.Minute)
	watched(t, client)
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), finished("d", "render", corev1.PodSucceeded, 6*time.Minute), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check(6 * time.Minute)

	cancel() // the scheduler stops: the learner is released
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		_, known := shared.Load(client)
		return !known, nil
	})
	if err != nil {
		t.Error("the learner of an ended scheduler is kept")
	}
}

// watched waits until pods are watched: the client drops what is created between an informer's list and its watch.
func watched(t *testing.T, client *fake.Clientset) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return slices.ContainsFunc(client.Actions(), func(a clienttesting.Action) bool { return a.Matches("watch", "pods") }), nil
	})
	if err != nil {
		t.Fatal("pods are never watched")
	}
}

func TestStripKeepsWhatIsLearnedFromAndNoMore(t *testing.T) {
	pod := finished("a", "render", corev1.PodSucceeded, time.Minute)
	obj, err := strip(pod)
	if err != nil {
		t.Fatal(err)
	}
	slim := obj.(*corev1.Pod)
	if len(slim.Spec.Containers) > 0 || len(slim.Annotations) != 1 || slim.Status.ContainerStatuses[0].Image != "" {
		t.Errorf("more is kept than needed: %v", slim)
	}
	if slim.Namespace != "ns" || slim.Annotations[v1alpha1.AnnotationCategory] != "render" || slim.Status.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("something needed is gone: %v", slim)
	}
	pod.Annotations[v1alpha1.AnnotationBaseImage] = "pause"
	obj, _ = strip(pod)
	if _, ok := obj.(*corev1.Pod).Annotations[v1alpha1.AnnotationBaseImage]; !ok {
		t.Error("it is not known any more that the pod was moved")
	}
	if bare, _ := strip(finished("c", "", corev1.PodSucceeded, time.Minute)); len(bare.(*corev1.Pod).Status.ContainerStatuses) > 0 {
		t.Error("the statuses of a pod without category are kept")
	}
	if obj, err := strip("not a pod"); obj != "not a pod" || err != nil {
		t.Errorf("another object became %v, %v", obj, err)
	}
}
