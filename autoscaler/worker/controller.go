// Package worker reconciles WorkerPools: it runs as many workers of a Work Queue manager as its queue needs, each in a
// pod.
//
// One reconciliation runs through the files in this order: controller.go (what triggers it), observe.go (the manager's
// answers and the pods), shape.go (the possible sizes of workers), autoscaler/worker/workerdecide (the decision), act.go and
// pod.go (carrying it out), record.go (the status), memory.go (what the status keeps).
//
// The controller does not interrupt tasks. It drains a worker by deleting its pod; the worker then continues until the
// manager has had no task for it for a while, see pod.go. Before it touches the first pod, it writes the decision to
// the pool's status. It lists pods from the API server, not from the cache. So no pod is created twice, whenever the
// process crashes.
package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/platform/pause"
)

// Reconciler reconciles all WorkerPools of a cluster.
type Reconciler struct {
	// Client reads nodes and other objects from a cache, and writes.
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Events records Events.
	Events events.EventRecorder
	// Clock returns the current time.
	Clock clock.PassiveClock
	// DryRun only logs decisions. It writes neither status nor Events.
	DryRun bool
	// Pause suspends the execution of decisions. A nil Pause never does.
	Pause *pause.Switch

	mu     sync.Mutex
	memory map[types.NamespacedName]*memory
}

// memory is the state of a pool between reconciliations. It may be lost, apart from what the status stores.
type memory struct {
	uid     types.UID
	decided workerdecide.Memory
	// resized is when workers were last actually added or drained. Decisions in mode Observe do not count, so they do
	// not delay the pool once it may act.
	resized time.Time
	// events is the last Event message for each reason; it is not repeated.
	events map[string]string
}

// atOnce is the number of pools reconciled concurrently, because a manager may take long to answer.
const atOnce = 8

// SetupWithManager registers the reconciler with a manager.
func (r *Reconciler) SetupWithManager(m ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(m).Named("workerpool").
		For(&v1alpha1.WorkerPool{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.everyPool)). // holds the pause switch
		WithOptions(controller.Options{MaxConcurrentReconciles: atOnce}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of WorkerPools: %w", err)
	}
	return nil
}

// reconciliation is one reconciliation of a pool.
type reconciliation struct {
	*Reconciler
	pool   *v1alpha1.WorkerPool
	before *v1alpha1.WorkerPoolStatus
	now    time.Time
	memory *memory
	report *conditions.Reporter
	paused bool // the cluster is paused

	client *workqueue.Client
	// undiscovered is why the last known address of the manager is used; nil if the manager was discovered.
	undiscovered error
	seen         workerdecide.Observation
	pods         pods
	decision     workerdecide.Decision
}

// Reconcile implements reconcile.Reconciler. It is safe to run twice in a row, because a second resize waits for an
// initialisation time.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool := &v1alpha1.WorkerPool{}
	if err := r.Live.Get(ctx, req.NamespacedName, pool); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read WorkerPool %s: %w", req, err)
	}
	if pool.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // the garbage collector deletes its pods, and each ends when its worker is idle
	}
	rc := &reconciliation{Reconciler: r, pool: pool, before: pool.Status.DeepCopy(), now: r.Clock.Now(), memory: r.remember(pool)}
	rc.report = &conditions.Reporter{
		Object: pool, Conditions: &pool.Status.Conditions, Now: rc.now, Events: r.Events, DryRun: r.DryRun, Last: rc.memory.events,
	}
	err := rc.run(ctx)
	if statusErr := rc.writeStatus(ctx); err == nil {
		err = statusErr
	}
	metricConditions.Publish(pool.Status.Conditions, req.Namespace, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	again := rc.decision.Recheck
	if again <= 0 {
		again = pool.Spec.Scaling.Interval.Duration
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// run observes, decides and acts.
func (rc *reconciliation) run(ctx context.Context) error {
	rc.pool.Status.ObservedGeneration = rc.pool.Generation
	if err := rc.applyPause(ctx); err != nil {
		return err
	}
	config, why, err := rc.config(ctx)
	if err != nil {
		return err
	}
	template, fault := parseTemplate(rc.pool)
	if why.message == "" && fault != nil {
		why = refusal{v1alpha1.PoolReasonInvalidTemplate, fault.Error()}
	}
	if why.message != "" {
		rc.refuse(why)
		return nil
	}
	if err := rc.observe(ctx); err != nil {
		return err
	}
	before := rc.memory.decided
	if !rc.observes() {
		before.Resized = rc.memory.resized
	}
	rc.decision, rc.memory.decided, err = workerdecide.Decide(config, rc.seen, before, rc.now)
	if err != nil {
		rc.refuse(refusal{v1alpha1.PoolReasonInvalidSpec, err.Error()})
		return nil
	}
	rc.record()
	if err := rc.writeStatus(ctx); err != nil { // before acting
		rc.memory.decided = before // nothing was done, so the next reconciliation may act
		return err
	}
	done, err := rc.act(ctx, template, &config)
	if err != nil {
		rc.notReady(v1alpha1.PoolReasonResizeFailed, err.Error())
		if d := rc.pool.Status.LastDecision; rc.decision.Add > 0 {
			d.ExpectedReady = nil // not all workers were created
		}
		if done == 0 {
			rc.memory.decided.Resized = before.Resized
			keepResized(&rc.pool.Status, before.Resized)
		}
	}
	if !rc.observes() {
		rc.memory.resized = rc.memory.decided.Resized
	}
	return err
}

// applyPause checks whether the cluster is paused.
func (rc *reconciliation) applyPause(ctx context.Context) (err error) {
	rc.paused, err = rc.Pause.Apply(ctx, rc.report, rc.pool.Spec.Mode != v1alpha1.WorkerPoolObserve)
	return err
}

// everyPool enqueues every pool.
func (r *Reconciler) everyPool(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var list v1alpha1.WorkerPoolList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list WorkerPools, will reconcile each when it is due")
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// observes reports whether decisions are not carried out.
func (rc *reconciliation) observes() bool {
	return rc.DryRun || rc.mode() == v1alpha1.WorkerPoolObserve
}

// mode returns the effective mode of the pool: Observe while the cluster is paused.
func (rc *reconciliation) mode() v1alpha1.WorkerPoolMode {
	if rc.paused {
		return v1alpha1.WorkerPoolObserve
	}
	return rc.pool.Spec.Mode
}

// remember returns the state of a pool. For a pool that is new to this process, it comes from the status.
func (r *Reconciler) remember(pool *v1alpha1.WorkerPool) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory == nil {
		r.memory = map[types.NamespacedName]*memory{}
	}
	name := client.ObjectKeyFromObject(pool)
	m := r.memory[name]
	if m == nil || m.uid != pool.UID {
		decided := recall(&pool.Status)
		m = &memory{uid: pool.UID, decided: decided, resized: decided.Resized, events: map[string]string{}}
		r.memory[name] = m
	}
	return m
}

// forget drops the state and the metrics of a deleted pool.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	delete(r.memory, name)
	r.mu.Unlock()
	forgetMetrics(name.Namespace, name.Name)
}
