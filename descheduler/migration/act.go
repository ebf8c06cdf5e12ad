package migration

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/migrationdecide"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/surroundings"
)

// act does the one write of a step. The write fails if the observed object has changed.
func (r *Reconciler) act(ctx context.Context, o *migrationdecide.Observation, step migrationdecide.Step) error {
	if r.omits(step.Do) {
		ctrl.LoggerFrom(ctx).Info("Would "+string(step.Do), "why", step.Why)
		return nil
	}
	m := o.Migration
	switch step.Do {
	case migrationdecide.Wait:
		return nil
	case migrationdecide.WriteStatus:
		return r.writeStatus(ctx, m, step.Status)
	case migrationdecide.AddFinalizer, migrationdecide.RemoveFinalizer:
		return r.setFinalizer(ctx, m, step.Do == migrationdecide.AddFinalizer)
	case migrationdecide.CreatePod:
		return named(r.Client.Create(ctx, step.Pod), "create", step.Pod)
	case migrationdecide.PatchPod:
		return r.patchPod(ctx, o, step.Pod)
	case migrationdecide.DeletePod:
		return r.deletePod(ctx, step)
	case migrationdecide.WriteBudget:
		return named(r.Client.Status().Update(ctx, step.Budget), "write the status of", step.Budget)
	case migrationdecide.DeleteMigration:
		return named(r.Client.Delete(ctx, m, asObserved(m)), "delete", m)
	}
	return fmt.Errorf("migration %s/%s: unknown action %q", m.Namespace, m.Name, step.Do)
}

// omits reports whether an action is only logged. If acting is withheld, only the status of Migrations is written, which
// then says so.
func (r *Reconciler) omits(action migrationdecide.Action) bool {
	return r.DryRun || r.Pause.Withholds() && action != migrationdecide.WriteStatus
}

// named adds the operation and the object to an error.
func named(err error, doing string, object client.Object) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %T %s/%s: %w", doing, object, object.GetNamespace(), object.GetName(), err)
}

// asObserved makes a deletion conditional on an unchanged object.
func asObserved(object client.Object) client.Preconditions {
	return client.Preconditions{UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion())}
}

// asObservedFrom returns a patch that fails if the object has changed.
func asObservedFrom(object client.Object) client.Patch {
	return client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
}

// try checks with a dry run whether the API server would create a pod.
func (r *Reconciler) try(ctx context.Context, pod *corev1.Pod) (*migrationdecide.Trial, error) {
	made := pod.DeepCopy()
	err := r.Client.Create(ctx, made, client.DryRunAll)
	refusals, err := movable.Admitted(pod, made, err)
	if err != nil {
		return nil, err
	}
	return &migrationdecide.Trial{Refusals: refusals}, nil
}

func (r *Reconciler) writeStatus(ctx context.Context, m *v1alpha1.Migration, to *v1alpha1.MigrationStatus) error {
	before := m.DeepCopy()
	m.Status = *to
	if err := r.Client.Status().Patch(ctx, m, asObservedFrom(before)); err != nil {
		return named(err, "write the status of", m)
	}
	r.registry.wrote(m)
	for _, e := range migrationdecide.EventsOf(&before.Status, to) {
		r.Events.Eventf(m, nil, e.Type, e.Reason, e.Action, "%s", e.Note)
	}
	count(&before.Status, to)
	return nil
}

func (r *Reconciler) setFinalizer(ctx context.Context, m *v1alpha1.Migration, add bool) error {
	before := m.DeepCopy()
	if add {
		controllerutil.AddFinalizer(m, v1alpha1.FinalizerMigration)
	} else {
		controllerutil.RemoveFinalizer(m, v1alpha1.FinalizerMigration)
	}
	return named(r.Client.Patch(ctx, m, asObservedFrom(before)), "write the finalizers of", m)
}

// patchPod patches the observed pod with the UID of to.
func (r *Reconciler) patchPod(ctx context.Context, o *migrationdecide.Observation, to *corev1.Pod) error {
	for _, pod := range []*corev1.Pod{o.Source, o.Restored} {
		if pod != nil && pod.UID == to.UID {
			return named(r.Client.Patch(ctx, to.DeepCopy(), asObservedFrom(pod)), "patch", to)
		}
	}
	return fmt.Errorf("patch pod %s/%s: the pod was not observed", to.Namespace, to.Name)
}

func (r *Reconciler) deletePod(ctx context.Context, step migrationdecide.Step) error {
	return named(r.Client.Delete(ctx, step.Pod, client.GracePeriodSeconds(step.GraceSeconds), asObserved(step.Pod)), "delete", step.Pod)
}

// cleanUpLeftovers handles pods of a migration that is over or gone, which its creator made too late. It
// returns the step that it took; nil if there was none.
func (r *Reconciler) cleanUpLeftovers(ctx context.Context, key types.NamespacedName) (*migrationdecide.Step, error) {
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingFields{byMigration: key.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods that Migration %s has created: %w", key, err)
	}
	for i := range pods.Items {
		step, err := r.leftover(ctx, key, &pods.Items[i])
		if step != nil || err != nil {
			return step, err
		}
	}
	return nil, nil
}

func (r *Reconciler) leftover(ctx context.Context, key types.NamespacedName, cached *corev1.Pod) (*migrationdecide.Step, error) {
	m, err := surroundings.Get(ctx, r.Client, key.Namespace, key.Name, &v1alpha1.Migration{})
	if err != nil {
		return nil, err
	}
	if ours(m, cached) && !migrationdecide.Ended(m) {
		return nil, nil // the usual case, found in the cache
	}
	if m, err = surroundings.Get(ctx, r.Live, key.Namespace, key.Name, &v1alpha1.Migration{}); err != nil {
		return nil, err
	}
	pod, err := surroundings.Get(ctx, r.Live, cached.Namespace, cached.Name, &corev1.Pod{})
	if err != nil || pod == nil || pod.UID != cached.UID || pod.Labels[v1alpha1.LabelMigration] == "" {
		return nil, err
	}
	o := &migrationdecide.Observation{Restored: pod}
	if ours(m, pod) {
		o.Migration = m
	} else if o.Source, err = r.sourceOf(ctx, pod); err != nil {
		return nil, err
	}
	step := migrationdecide.Leftover(o.Migration, pod, o.Source)
	if step == nil {
		return nil, nil
	}
	ctrl.LoggerFrom(ctx).Info(step.Why, "step", step.Do, "pod", pod.Name)
	return step, r.act(ctx, o, *step)
}

// sourceOf returns the pod that a new pod replaces; nil if it is gone.
func (r *Reconciler) sourceOf(ctx context.Context, restored *corev1.Pod) (*corev1.Pod, error) {
	name, uid, ok := podedit.SourceOf(restored)
	if !ok {
		return nil, nil
	}
	pod, err := surroundings.Get(ctx, r.Live, restored.Namespace, name, &corev1.Pod{})
	if err != nil || pod == nil || pod.UID != uid {
		return nil, err
	}
	return pod, nil
}

// ours reports whether a migration created a pod.
func ours(m *v1alpha1.Migration, pod *corev1.Pod) bool {
	return m != nil && pod.Labels[v1alpha1.LabelMigration] == string(m.UID)
}
