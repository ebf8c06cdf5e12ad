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
func (l *look) act(ctx context.Context, template *corev1.PodTemplateSpec, config *workerdecide.Config) (done int, err error) {
	if l.observes() {
		if l.DryRun && (l.decision.Add > 0 || len(l.decision.Drain) > 0) {
			ctrl.LoggerFrom(ctx).Info("Would resize", "pool", klog.KObj(l.pool), "add", l.decision.Add, "drain", l.decision.Drain, "reason", l.decision.Reason)
		}
		return 0, nil
	}
	if err := l.sweep(ctx); err != nil {
		return 0, err
	}
	for _, name := range l.decision.Drain {
		if err := l.remove(ctx, l.pods[name]); err != nil {
			return done, fmt.Errorf("drain worker %s: %w", name, err)
		}
		done++
		metricDrained.WithLabelValues(l.pool.Namespace, l.pool.Name).Inc()
	}
	if l.decision.Add == 0 {
		return done, nil
	}
	i := slices.IndexFunc(config.Flavors, func(f workerdecide.Flavor) bool { return f.Name == l.decision.Flavor })
	instanceType, err := l.instanceType(ctx, l.decision.Flavor)
	if err != nil {
		return done, err
	}
	for n := range l.decision.Add {
		if err := l.Client.Create(ctx, podFor(l.pool, template, &config.Flavors[i], instanceType)); err != nil {
			return done, fmt.Errorf("create the pod of worker %d of %d: %w", n+1, l.decision.Add, err)
		}
		done++
		metricAdded.WithLabelValues(l.pool.Namespace, l.pool.Name).Inc()
	}
	return done, nil
}

// instanceType returns the instance type label of a flavor's machines. It is empty if they have none.
func (l *look) instanceType(ctx context.Context, flavor string) (string, error) {
	if flavor == "" {
		return "", nil
	}
	var fleet v1alpha1.NodeFleet
	if err := l.Client.Get(ctx, types.NamespacedName{Name: l.pool.Spec.Worker.NodeFleet}, &fleet); err != nil {
		return "", fmt.Errorf("read NodeFleet %s: %w", l.pool.Spec.Worker.NodeFleet, err)
	}
	for i := range fleet.Status.Flavors {
		if f := &fleet.Status.Flavors[i]; f.Name == flavor {
			return f.InstanceType, nil
		}
	}
	return "", nil
}

// sweep deletes pods that have ended, because they run no worker.
func (l *look) sweep(ctx context.Context) error {
	for name, p := range l.pods {
		if !ended(p) {
			continue
		}
		if p.Status.Phase == corev1.PodFailed {
			l.tell(corev1.EventTypeWarning, "WorkerFailed", "Replace", fmt.Sprintf("pod %s failed: %s %s", name, p.Status.Reason, p.Status.Message))
		}
		if err := l.remove(ctx, p); err != nil {
			return fmt.Errorf("delete terminated pod %s: %w", name, err)
		}
	}
	return nil
}

// remove deletes the observed pod, by its UID, with the grace period from its spec.
func (l *look) remove(ctx context.Context, p *corev1.Pod) error {
	return client.IgnoreNotFound(l.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID}))
}
