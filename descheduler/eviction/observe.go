package eviction

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
	"supercargo.dev/supercargo/internal/movable"
)

// observe reads a pod and everything else that the answer depends on. It reads nothing more for a
// pod that has not opted in, as most have not.
func (w *Webhook) observe(ctx context.Context, wanted eviction) (*evictiondecide.Observation, error) {
	pod, err := get(ctx, w.Live, wanted.pod, &corev1.Pod{})
	o := &evictiondecide.Observation{Pod: pod, Options: wanted.options}
	if err != nil || pod == nil || pod.Annotations[v1alpha1.AnnotationMigration] == "" && pod.Labels[v1alpha1.LabelMigration] == "" {
		return o, err
	}
	var migrations v1alpha1.MigrationList
	if err := w.Live.List(ctx, &migrations, client.InNamespace(pod.Namespace)); err != nil {
		return nil, fmt.Errorf("list Migrations of namespace %s: %w", pod.Namespace, err)
	}
	o.Migrations = migrations.Items
	if pod.Annotations[v1alpha1.AnnotationMigration] != v1alpha1.MigrationCheckpoint {
		return o, nil
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := w.Live.List(ctx, &budgets, client.InNamespace(pod.Namespace)); err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets of namespace %s: %w", pod.Namespace, err)
	}
	o.Budgets = budgets.Items
	in, err := w.input(ctx, pod)
	if err != nil {
		return nil, err
	}
	o.Verdict = movable.Check(in)
	return o, nil
}

// input reads the input of the rules for movable pods.
func (w *Webhook) input(ctx context.Context, pod *corev1.Pod) (movable.Input, error) {
	in := movable.Input{
		Pod: pod, Method: v1alpha1.MethodCheckpoint, Deadline: w.Config.Deadline,
		Claims: map[string]*corev1.PersistentVolumeClaim{}, Nodes: map[string]*corev1.Node{},
	}
	if err := w.owner(ctx, &in); err != nil {
		return in, err
	}
	var services corev1.ServiceList
	if err := w.Client.List(ctx, &services, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list Services of namespace %s: %w", pod.Namespace, err)
	}
	in.Services = services.Items
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			claim, err := get(ctx, w.Live, types.NamespacedName{Namespace: pod.Namespace, Name: source.ClaimName}, &corev1.PersistentVolumeClaim{})
			if err != nil {
				return in, err
			}
			in.Claims[source.ClaimName] = claim
		}
	}
	var nodes corev1.NodeList
	if err := w.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		in.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	return in, nil
}

// owner reads the owner of the pod, if it is of a kind whose pods can be moved.
func (w *Webhook) owner(ctx context.Context, in *movable.Input) (err error) {
	owner := metav1.GetControllerOf(in.Pod)
	if owner == nil {
		return nil
	}
	key := types.NamespacedName{Namespace: in.Pod.Namespace, Name: owner.Name}
	switch owner.Kind {
	case "Job":
		in.Job, err = get(ctx, w.Live, key, &batchv1.Job{})
	case "ReplicaSet":
		in.ReplicaSet, err = get(ctx, w.Live, key, &appsv1.ReplicaSet{})
	}
	return err
}

// get reads an object; nil if it does not exist.
func get[T client.Object](ctx context.Context, reader client.Reader, key types.NamespacedName, object T) (T, error) {
	var none T
	err := reader.Get(ctx, key, object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return none, fmt.Errorf("read %T %s: %w", object, key, err)
	case err != nil:
		return none, nil
	}
	return object, nil
}
