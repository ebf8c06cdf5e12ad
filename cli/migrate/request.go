// Package migrate helps clients that request a migration: it checks beforehand whether a pod can
// be moved, and waits for the result.
package migrate

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/movable"
)

// DryRun checks whether the pod of a migration that does not exist yet can be moved: first by the
// rules of the descheduler, then by whether the API server would admit the new pod. It changes
// nothing in the cluster.
func DryRun(ctx context.Context, c client.Client, m *v1alpha1.Migration, pod *corev1.Pod, now time.Time) (movable.Verdict, error) {
	in, err := input(ctx, c, m, pod)
	if err != nil {
		return movable.Verdict{}, err
	}
	verdict := movable.Check(in)
	if len(verdict.Refusals) > 0 {
		return verdict, nil
	}
	m = m.DeepCopy()
	m.UID = "00000000-0000-0000-0000-000000000000" // a placeholder
	plan := podedit.NewPlan(in, verdict, m.UID, now, m.Spec.Deadline.Duration)
	wanted, err := podedit.NewPod(m, plan, pod, in.Selector(), "")
	if err != nil {
		return verdict, err
	}
	made := wanted.DeepCopy()
	verdict.Refusals, err = movable.Admitted(wanted, made, c.Create(ctx, made, client.DryRunAll))
	return verdict, err
}

// input reads the input of the rules for movable pods.
func input(ctx context.Context, c client.Reader, m *v1alpha1.Migration, pod *corev1.Pod) (movable.Input, error) {
	in := movable.Input{
		Pod: pod, Method: m.Spec.Method, TargetNode: m.Spec.TargetNode, Deadline: m.Spec.Deadline.Duration,
		Claims: map[string]*corev1.PersistentVolumeClaim{}, Nodes: map[string]*corev1.Node{},
	}
	if err := readOwner(ctx, c, &in); err != nil {
		return in, err
	}
	var services corev1.ServiceList
	var claims corev1.PersistentVolumeClaimList
	var nodes corev1.NodeList
	for what, list := range map[string]client.ObjectList{"Services": &services, "claims": &claims} {
		if err := c.List(ctx, list, client.InNamespace(pod.Namespace)); err != nil {
			return in, fmt.Errorf("list %s of namespace %s: %w", what, pod.Namespace, err)
		}
	}
	if err := c.List(ctx, &nodes); err != nil {
		return in, fmt.Errorf("list nodes: %w", err)
	}
	in.Services = services.Items
	for i := range claims.Items {
		in.Claims[claims.Items[i].Name] = &claims.Items[i]
	}
	for i := range nodes.Items {
		in.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	return in, nil
}

// readOwner reads the owner of the pod, if it is of a kind whose pods can be moved.
// [movable.Check] compares its UID with the pod's owner reference.
func readOwner(ctx context.Context, c client.Reader, in *movable.Input) error {
	owner := metav1.GetControllerOf(in.Pod)
	if owner == nil {
		return nil
	}
	key := client.ObjectKey{Namespace: in.Pod.Namespace, Name: owner.Name}
	job, set := &batchv1.Job{}, &appsv1.ReplicaSet{}
	var err error
	switch owner.Kind {
	case "Job":
		if err = c.Get(ctx, key, job); err == nil {
			in.Job = job
		}
	case "ReplicaSet":
		if err = c.Get(ctx, key, set); err == nil {
			in.ReplicaSet = set
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read %s %s: %w", owner.Kind, owner.Name, err)
	}
	return nil
}
