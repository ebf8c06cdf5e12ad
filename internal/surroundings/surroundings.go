// Package surroundings gathers the objects around a pod that decide whether it can be moved.
package surroundings

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/movable"
)

// Source finds the objects around a pod. A method returns nil for an object that does not exist. The caller does not change
// what it returns.
type Source interface {
	// Job and ReplicaSet find a controller by its name. They do not compare its UID.
	Job(ctx context.Context, namespace, name string) (*batchv1.Job, error)
	ReplicaSet(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error)
	// Claim finds a PersistentVolumeClaim.
	Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error)
	// Services returns those of a namespace.
	Services(ctx context.Context, namespace string) ([]corev1.Service, error)
	// NodesFor returns the nodes that matter for a pod, by name: see [movable.Input].
	NodesFor(ctx context.Context, pod *corev1.Pod) (map[string]*corev1.Node, error)
}

// Of returns the input of the rules for a pod, without method, target node and deadline.
func Of(ctx context.Context, from Source, pod *corev1.Pod) (movable.Input, error) {
	in := movable.Input{Pod: pod, Claims: map[string]*corev1.PersistentVolumeClaim{}}
	var err error
	if in.Job, in.ReplicaSet, err = Owner(ctx, from, pod.Namespace, metav1.GetControllerOfNoCopy(pod)); err != nil {
		return in, err
	}
	if in.Services, err = from.Services(ctx, pod.Namespace); err != nil {
		return in, err
	}
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim, err := from.Claim(ctx, pod.Namespace, source.ClaimName)
		if err != nil {
			return in, err
		}
		if claim != nil {
			in.Claims[source.ClaimName] = claim
		}
	}
	in.Nodes, err = from.NodesFor(ctx, pod)
	return in, err
}

// Owner returns the controller of a pod, if it is a Job or a ReplicaSet. Another one that has its name since does not count.
func Owner(ctx context.Context, from Source, namespace string, owner *metav1.OwnerReference) (*batchv1.Job, *appsv1.ReplicaSet, error) {
	if owner == nil {
		return nil, nil, nil
	}
	switch owner.Kind {
	case "Job":
		job, err := from.Job(ctx, namespace, owner.Name)
		if job == nil || job.UID != owner.UID {
			return nil, nil, err
		}
		return job, nil, err
	case "ReplicaSet":
		set, err := from.ReplicaSet(ctx, namespace, owner.Name)
		if set == nil || set.UID != owner.UID {
			return nil, nil, err
		}
		return nil, set, err
	}
	return nil, nil, nil
}
