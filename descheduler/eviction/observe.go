package eviction

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/surroundings"
)

// observe reads a pod and everything else that the answer depends on. It reads nothing more for a
// pod that has not opted in, as most have not.
func (w *Webhook) observe(ctx context.Context, wanted eviction) (*evictiondecide.Observation, error) {
	pod, err := surroundings.Get(ctx, w.Live, wanted.pod.Namespace, wanted.pod.Name, &corev1.Pod{})
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
	in, err := surroundings.Of(ctx, surroundings.Reader{Owners: w.Live, Claims: w.Live, Lists: w.Client}, pod)
	if err != nil {
		return nil, err
	}
	in.Deadline = w.Config.Deadline
	o.Verdict = movable.Check(in)
	return o, nil
}
