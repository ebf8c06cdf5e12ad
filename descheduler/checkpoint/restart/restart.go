// Package restart is the back-end for pods that say that they may be started anew: no
// state is taken, and the kubelet ends the old container, since its pod is deleted.
package restart

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// Source watches containers end.
type Source struct {
	// Pods reads pods.
	Pods checkpoint.PodReader
}

var _ checkpoint.Source = Source{}

// New returns the back-end. Nothing is staged for it.
func New(pods checkpoint.PodReader) checkpoint.Backend {
	return checkpoint.Backend{Source: Source{Pods: pods}}
}

// Inspect asks for nothing: any node will do.
func (s Source) Inspect(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	state, err := s.State(ctx, c)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	if state != checkpoint.Running {
		return checkpoint.Facts{}, checkpoint.Fail(checkpoint.ReasonNotRunning, "%s does not run", c)
	}
	return checkpoint.Facts{Requirements: capability.Requirements{Backend: v1alpha1.BackendRestart}}, nil
}

// State goes by what the kubelet says of the pod.
func (s Source) State(ctx context.Context, c checkpoint.Container) (checkpoint.State, error) {
	pod, err := s.Pods(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Pod})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(pod.UID) != c.PodUID:
		return checkpoint.Gone, nil
	case err != nil:
		return checkpoint.Unknown, fmt.Errorf("look at pod %s/%s: %w", c.Namespace, c.Pod, err)
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return checkpoint.Gone, nil
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == c.Name && status.State.Terminated != nil {
			return checkpoint.Gone, nil
		}
	}
	return checkpoint.Running, nil
}

// Freeze is not asked for.
func (Source) Freeze(context.Context, checkpoint.Container) error { return nil }

// Thaw does nothing: nothing was frozen.
func (Source) Thaw(context.Context, checkpoint.Container) error { return nil }

// Kill does nothing: the kubelet does it.
func (Source) Kill(context.Context, checkpoint.Container) error { return nil }

// Dump is not asked for.
func (Source) Dump(context.Context, checkpoint.Container, string) (int64, error) { return 0, nil }

// Archive is not asked for.
func (Source) Archive(context.Context, checkpoint.Container, string, io.Writer) error { return nil }

// Forget has nothing to forget.
func (Source) Forget(context.Context, checkpoint.Container, string) error { return nil }
