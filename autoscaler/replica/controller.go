// Package replica reconciles ReplicaPolicies: it measures a service, lets a law decide how many replicas the service
// needs, and scales the target.
//
// One evaluation runs through the files in this order: controller.go (what triggers it), evaluate.go (its steps), target.go
// (the scaled object), otherscalers.go (other autoscalers of the target), measure.go (queries to the source), pods.go
// (Ready pods), owners.go (whose they are), autoscaler/replica/replicadecide (the decision), act.go (the scaling), record.go (the status).
//
// Sources are queried outside the controller's queue, so a source that hangs delays only the policies that query it.
// The scale of the target is read again when the target changes, and pods are counted again when one of them changes.
// The status is written when it says something new, and otherwise once a minute. A policy that evaluates every second
// therefore costs the API server nothing while nothing happens.
package replica

import (
	"context"
	"fmt"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/platform/pause"
)

// Reconciler reconciles all ReplicaPolicies of a cluster.
type Reconciler struct {
	// Client reads policies, pods and HorizontalPodAutoscalers from a cache, and writes status.
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Scaler reads and writes scale subresources.
	Scaler Scaler
	// Kinds are the kinds that may be scaled.
	Kinds *Kinds
	// Sources answer queries, by name.
	Sources map[string]*Source
	// Events records Events.
	Events events.EventRecorder
	// Clock returns the current time.
	Clock clock.PassiveClock
	// DryRun only logs decisions. It writes neither status nor Events.
	DryRun bool
	// Pause suspends the execution of decisions. A nil Pause never does.
	Pause *pause.Switch

	mu      sync.Mutex
	tracked map[types.NamespacedName]*tracked

	// Set when the controller starts: the context of its run, and the function that enqueues a policy.
	running context.Context
	wake    func(types.NamespacedName)
}

// workers is the number of policies reconciled concurrently. One evaluation takes about a millisecond, and a write to
// the API server a few.
const workers = 8

// The cache indexes policies and HorizontalPodAutoscalers by the object that they scale.
const (
	policiesByTarget    = "supercargo.target"
	autoscalersByTarget = "supercargo.scaleTarget"
)

// targetKey is the value of both indexes. It omits the version, because all versions denote the same object.
func targetKey(apiVersion, kind, name string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return gv.Group + "/" + kind + "/" + name
}

func policyTarget(p *v1alpha1.ReplicaPolicy) string {
	return targetKey(p.Spec.Target.APIVersion, p.Spec.Target.Kind, p.Spec.Target.Name)
}

// SetupWithManager registers the reconciler with a manager.
func (r *Reconciler) SetupWithManager(m ctrl.Manager) error {
	r.tracked = map[types.NamespacedName]*tracked{}
	ctx := context.Background()
	for _, index := range []struct {
		object client.Object
		name   string
		key    client.IndexerFunc
	}{
		{&v1alpha1.ReplicaPolicy{}, policiesByTarget, func(o client.Object) []string {
			return []string{policyTarget(o.(*v1alpha1.ReplicaPolicy))}
		}},
		{&autoscalingv2.HorizontalPodAutoscaler{}, autoscalersByTarget, func(o client.Object) []string {
			ref := o.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
			return []string{targetKey(ref.APIVersion, ref.Kind, ref.Name)}
		}},
	} {
		if err := m.GetFieldIndexer().IndexField(ctx, index.object, index.name, index.key); err != nil {
			return fmt.Errorf("set up the controller of ReplicaPolicies: index %T: %w", index.object, err)
		}
	}
	pods, err := m.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("set up the controller of ReplicaPolicies: cache pods: %w", err)
	}
	if _, err := pods.AddEventHandler(r.podEvents()); err != nil {
		return fmt.Errorf("set up the controller of ReplicaPolicies: watch pods: %w", err)
	}
	b := ctrl.NewControllerManagedBy(m).Named("replicapolicy").
		For(&v1alpha1.ReplicaPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.everyPolicy)). // holds the pause switch
		Watches(&v1alpha1.ReplicaPolicy{}, r.others(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, r.scaledBy(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(r.begin)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second),
		})
	made, err := b.Build(r)
	if err != nil {
		return fmt.Errorf("set up the controller of ReplicaPolicies: %w", err)
	}
	watch := func(kind schema.GroupVersionKind) error {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		return made.Watch(source.Kind[client.Object](m.GetCache(), object, r.targeting(kind), predicate.GenerationChangedPredicate{}))
	}
	for _, kind := range r.Kinds.all(watch) {
		if err := watch(kind); err != nil {
			return fmt.Errorf("set up the controller of ReplicaPolicies: watch %v: %w", kind, err)
		}
	}
	return nil
}

// begin stores the context and the queue when the controller starts.
func (r *Reconciler) begin(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = ctx
	r.wake = func(key types.NamespacedName) { q.Add(reconcile.Request{NamespacedName: key}) }
	return nil
}

// by lists the policies that scale one object.
func (r *Reconciler) by(ctx context.Context, namespace, target string) []reconcile.Request {
	var list v1alpha1.ReplicaPolicyList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{policiesByTarget: target}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has not started yet: every policy is reconciled when it does
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// everyPolicy enqueues all policies.
func (r *Reconciler) everyPolicy(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.ReplicaPolicyList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has not started yet: every policy is reconciled when it does
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// others enqueues the policies with the same target when a policy is created, changed or deleted.
func (r *Reconciler) others() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.by(ctx, o.GetNamespace(), policyTarget(o.(*v1alpha1.ReplicaPolicy)))
	})
}

// scaledBy enqueues the policies with the same target as a HorizontalPodAutoscaler.
func (r *Reconciler) scaledBy() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		ref := o.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
		return r.by(ctx, o.GetNamespace(), targetKey(ref.APIVersion, ref.Kind, ref.Name))
	})
}

// targeting enqueues the policies that scale an object when it is created, changed or deleted.
func (r *Reconciler) targeting(kind schema.GroupVersionKind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.by(ctx, o.GetNamespace(), targetKey(kind.GroupVersion().String(), kind.Kind, o.GetName()))
	})
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	policy := &v1alpha1.ReplicaPolicy{} // shared with the cache, so not changed: a copy would be costly, as the law's memory may be long
	if err := r.Client.Get(ctx, req.NamespacedName, policy, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read ReplicaPolicy %s: %w", req, err)
	}
	if !policy.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	e := &evaluation{Reconciler: r, tracked: r.track(policy), now: r.Clock.Now()}
	e.report = &conditions.Reporter{
		Object: policy, Conditions: &e.status.Conditions, Now: e.now, Events: r.Events, DryRun: r.DryRun, Last: e.events,
	}
	err := e.run(ctx)
	if statusErr := e.writeStatus(ctx); err == nil {
		err = statusErr
	}
	metricConditions.Publish(e.status.Conditions, req.Namespace, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: e.again}, nil
}

// podEvents handles the events of all pods.
func (r *Reconciler) podEvents() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				r.podChanged(nil, pod)
			}
		},
		UpdateFunc: func(before, after any) {
			old, ok := before.(*corev1.Pod)
			pod, ok2 := after.(*corev1.Pod)
			if ok && ok2 && podMatters(old, pod) {
				r.podChanged(old, pod)
			}
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				r.podChanged(pod, nil)
			}
		},
	}
}

// until returns the time from now until moment, at least a millisecond, because RequeueAfter 0 means never.
func until(now, moment time.Time) time.Duration {
	return max(moment.Sub(now), time.Millisecond)
}
