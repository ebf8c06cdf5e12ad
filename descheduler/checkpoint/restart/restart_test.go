package restart

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/descheduler/checkpoint"
)

func TestStateIsWhatTheKubeletSays(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	ended := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}}
	tests := []struct {
		name   string
		uid    types.UID
		status corev1.PodStatus
		err    error
		want   checkpoint.State
		fails  bool
	}{
		{"a container that runs", "p1", running, nil, checkpoint.Running, false},
		{"a container that has ended in a pod that has not", "p1", ended, nil, checkpoint.Gone, false},
		{"a pod that has failed", "p1", corev1.PodStatus{Phase: corev1.PodFailed}, nil, checkpoint.Gone, false},
		{"a pod that has succeeded", "p1", corev1.PodStatus{Phase: corev1.PodSucceeded}, nil, checkpoint.Gone, false},
		{"another pod of the same name", "p2", running, nil, checkpoint.Gone, false},
		{"no pod", "", corev1.PodStatus{}, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "work"), checkpoint.Gone, false},
		{"no answer", "", corev1.PodStatus{}, errors.New("no route to host"), checkpoint.Unknown, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			source := New(func(context.Context, types.NamespacedName) (*corev1.Pod, error) {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: tc.uid}, Status: tc.status}, tc.err
			}).Source
			c := checkpoint.Container{Pod: "work", PodUID: "p1", Name: "main"}
			if got, err := source.State(t.Context(), c); got != tc.want || (err != nil) != tc.fails {
				t.Errorf("the state is %q, %v, want %q", got, err, tc.want)
			}
			if _, err := source.Inspect(t.Context(), c); (err == nil) != (tc.want == checkpoint.Running) {
				t.Errorf("Inspect gives %v for a container that is %q", err, tc.want)
			}
		})
	}
}
