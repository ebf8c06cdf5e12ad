package worker

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
)

// act carries out the decision. Repeating it after an error is harmless: a created pod counts at the next
// reconciliation, and a deleted pod stays deleted. It returns how many workers it has created or drained.
func (rc *reconciliation) act(ctx context.Context, template *corev1.PodTemplateSpec, config *workerdecide.Config) (done int, err error) {
	if rc.observes() {
		if rc.DryRun && (rc.decision.Add > 0 || len(rc.decision.Drain) > 0) {
			ctrl.LoggerFrom(ctx).Info("Would resize", "pool", klog.KObj(rc.pool), "add", rc.decision.Add, "drain", rc.decision.Drain, "reason", rc.decision.Reason)
		}
		return 0, nil
	}
	if err := rc.sweep(ctx); err != nil {
		return 0, err
	}
	for _, name := range rc.decision.Drain {
		if err := rc.remove(ctx, rc.pods[name]); err != nil {
			return done, fmt.Errorf("drain worker %s: %w", name, err)
		}
		done++
		metricDrained.WithLabelValues(rc.pool.Namespace, rc.pool.Name).Inc()
	}
	if rc.decision.Add == 0 {
		return done, nil
	}
	i := slices.IndexFunc(config.Flavors, func(f workerdecide.Flavor) bool { return f.Name == rc.decision.Flavor })
	instanceType, err := rc.instanceType(ctx, rc.decision.Flavor)
	if err != nil {
		return done, err
	}
	for n := range rc.decision.Add {
		if err := rc.Client.Create(ctx, podFor(rc.pool, template, &config.Flavors[i], instanceType)); err != nil {
			return done, fmt.Errorf("create the pod of worker %d of %d: %w", n+1, rc.decision.Add, err)
		}
		done++
		metricAdded.WithLabelValues(rc.pool.Namespace, rc.pool.Name).Inc()
	}
	return done, nil
}

// instanceType returns the instance type label of a flavor's machines. It is empty if they have none.
func (rc *reconciliation) instanceType(ctx context.Context, flavor string) (string, error) {
	if flavor == "" {
		return "", nil
	}
	var fleet v1alpha1.NodeFleet
	if err := rc.Client.Get(ctx, types.NamespacedName{Name: rc.pool.Spec.Worker.NodeFleet}, &fleet); err != nil {
		return "", fmt.Errorf("read NodeFleet %s: %w", rc.pool.Spec.Worker.NodeFleet, err)
	}
	for i := range fleet.Status.Flavors {
		if f := &fleet.Status.Flavors[i]; f.Name == flavor {
			return f.InstanceType, nil
		}
	}
	return "", nil
}

// sweep deletes pods that have ended, because they run no worker.
func (rc *reconciliation) sweep(ctx context.Context) error {
	for name, p := range rc.pods {
		if !ended(p) {
			continue
		}
		if p.Status.Phase == corev1.PodFailed {
			rc.report.Event(corev1.EventTypeWarning, v1alpha1.PoolReasonWorkerFailed, v1alpha1.ActionReplace, joined(": ", "pod "+name+" failed", p.Status.Reason, p.Status.Message))
		}
		if err := rc.remove(ctx, p); err != nil {
			return fmt.Errorf("delete terminated pod %s: %w", name, err)
		}
	}
	return nil
}

// remove deletes the observed pod, by its UID, with the grace period from its spec.
func (rc *reconciliation) remove(ctx context.Context, p *corev1.Pod) error {
	return client.IgnoreNotFound(rc.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID}))
}
