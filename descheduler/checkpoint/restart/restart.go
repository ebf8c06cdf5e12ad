// Package restart is the back-end for pods that may be restarted. No state is taken. The
// kubelet ends the old container, because its pod is deleted.
package restart

import (
	"context"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// Source observes the end of containers.
type Source struct {
	// Pods reads pods.
	Pods checkpoint.PodReader
}

var _ checkpoint.Source = Source{}

// New returns the back-end. It has no Target.
func New(pods checkpoint.PodReader) checkpoint.Backend {
	return checkpoint.Backend{Source: Source{Pods: pods}}
}

// Inspect returns no requirements: any node will do.
func (s Source) Inspect(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	state, err := s.State(ctx, c)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	if state != checkpoint.Running {
		return checkpoint.Facts{}, checkpoint.Fail(v1alpha1.MigrationReasonNotRunning, "%s is not running", c)
	}
	return checkpoint.Facts{Requirements: capability.Requirements{Backend: v1alpha1.BackendRestart}}, nil
}

// State returns the state in the pod's status.
func (s Source) State(ctx context.Context, c checkpoint.Container) (checkpoint.State, error) {
	pod, err := s.Pods(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Pod})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(pod.UID) != c.PodUID:
		return checkpoint.Gone, nil
	case err != nil:
		return checkpoint.Unknown, fmt.Errorf("get pod %s/%s: %w", c.Namespace, c.Pod, err)
	case class.Ended(pod):
		return checkpoint.Gone, nil
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == c.Name && status.State.Terminated != nil {
			return checkpoint.Gone, nil
		}
	}
	return checkpoint.Running, nil
}

// Freeze is never called.
func (Source) Freeze(context.Context, checkpoint.Container) error { return nil }

// Thaw does nothing, because nothing was frozen.
func (Source) Thaw(context.Context, checkpoint.Container) error { return nil }

// Interrupt does nothing: nothing is dumped.
func (Source) Interrupt(context.Context, checkpoint.Container, string) error { return nil }

// Kill does nothing, because the kubelet kills the container.
func (Source) Kill(context.Context, checkpoint.Container) error { return nil }

// Dump is never called.
func (Source) Dump(context.Context, checkpoint.Container, string) (int64, error) { return 0, nil }

// Archive is never called.
func (Source) Archive(context.Context, checkpoint.Container, string, io.Writer) error { return nil }

// Forget does nothing.
func (Source) Forget(context.Context, checkpoint.Container, string) error { return nil }
