// Package replica keeps ReplicaPolicies: it measures, lets a law decide how many
// replicas a service needs, and carries that out.
//
// A look goes from top to bottom through the files: controller.go (what starts one),
// look.go (its steps), target.go (what is scaled), standing.go (who else wants to scale
// it), measure.go (asking the source), pods.go (what is Ready), autoscaler/replica/decide
// (what to do), act.go (doing it), record.go (saying why).
//
// Sources are asked beside the queue of the controller: one that hangs holds the
// policies that ask it, and no other. The target's scale is read again when the target
// has changed, pods are counted again when one of them has, and the status is written
// when it says something new, and else once a minute, so that a policy that looks every
// second costs the API server nothing while nothing happens.
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
	"supercargo.dev/supercargo/internal/platform/pause"
)

// Reconciler keeps all ReplicaPolicies of a cluster.
type Reconciler struct {
	// Client reads policies, pods and who else scales from a cache, and writes status.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Scaler reads and writes scale subresources.
	Scaler Scaler
	// Kinds are what may be scaled, by group and kind.
	Kinds map[schema.GroupKind]schema.GroupVersionKind
	// Sources answer queries, by name.
	Sources map[string]*Source
	// Events takes what is worth telling.
	Events events.EventRecorder
	// Clock says what time it is.
	Clock clock.PassiveClock
	// DryRun only logs what it would do: it writes nothing, no status and no Event.
	DryRun bool
	// Pause keeps decisions from being carried out; nil never does.
	Pause *pause.Switch

	mu      sync.Mutex
	tracked map[types.NamespacedName]*tracked

	// Of the controller, once it runs: what ends with it, and what wakes a policy.
	running context.Context
	wake    func(types.NamespacedName)
}

// workers is how many policies are looked at at a time. A look takes about a
// millisecond, and a write to the API server some.
const workers = 8

// The indexes of the cache: policies and HorizontalPodAutoscalers by what they scale.
const (
	policiesByTarget    = "supercargo.target"
	autoscalersByTarget = "supercargo.scaleTarget"
)

// targetKey is the value of both indexes. The version is no part of it: it is the same
// object in every version.
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

// SetupWithManager registers the reconciler.
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
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.everyPolicy)). // of the switch
		Watches(&v1alpha1.ReplicaPolicy{}, r.others(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, r.scaledBy(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(r.begin)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second),
		})
	for _, kind := range r.Kinds {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		b = b.Watches(object, r.targeting(kind), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the controller of ReplicaPolicies: %w", err)
	}
	return nil
}

// begin is told of the queue when the controller starts.
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
		return nil // the cache is not there yet: policies get a first look anyway
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// everyPolicy wakes all policies.
func (r *Reconciler) everyPolicy(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.ReplicaPolicyList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is not there yet: policies get a first look anyway
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// others wakes the policies of the same target when one comes, goes or is changed.
func (r *Reconciler) others() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.by(ctx, o.GetNamespace(), policyTarget(o.(*v1alpha1.ReplicaPolicy)))
	})
}

// scaledBy wakes the policies of what a HorizontalPodAutoscaler scales.
func (r *Reconciler) scaledBy() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		ref := o.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
		return r.by(ctx, o.GetNamespace(), targetKey(ref.APIVersion, ref.Kind, ref.Name))
	})
}

// targeting wakes the policies of an object when it comes, goes or is changed.
func (r *Reconciler) targeting(kind schema.GroupVersionKind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.by(ctx, o.GetNamespace(), targetKey(kind.GroupVersion().String(), kind.Kind, o.GetName()))
	})
}

// Reconcile implements reconcile.Reconciler: it takes one policy one step on.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	policy := &v1alpha1.ReplicaPolicy{} // not copied from the cache, and not changed: its memory may be long
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
	l := &look{Reconciler: r, tracked: r.track(policy), now: r.Clock.Now()}
	err := l.run(ctx)
	if statusErr := l.writeStatus(ctx); err == nil {
		err = statusErr
	}
	metricConditions.Publish(l.status.Conditions, req.Namespace, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: l.again}, nil
}

// podEvents is told of every pod.
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

// until is the time from now to a moment, at least a millisecond: 0 would mean never.
func until(now, moment time.Time) time.Duration {
	return max(moment.Sub(now), time.Millisecond)
}
