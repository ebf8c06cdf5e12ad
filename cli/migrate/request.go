// Package migrate helps clients that request a migration: it checks beforehand whether a pod can
// be moved, and waits for the result.
package migrate

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/surroundings"
)

// DryRun checks whether the pod of a migration that does not exist yet can be moved: first by the
// rules of the descheduler, then by whether the API server would admit the new pod. It changes
// nothing in the cluster.
func DryRun(ctx context.Context, c client.Client, m *v1alpha1.Migration, pod *corev1.Pod, now time.Time) (movable.Verdict, error) {
	in, err := surroundings.Of(ctx, surroundings.ReadAll(c), pod)
	if err != nil {
		return movable.Verdict{}, err
	}
	in.TargetNode, in.Deadline = m.Spec.TargetNode, m.Spec.Deadline.Duration
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
