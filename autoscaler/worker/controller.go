// Package worker keeps WorkerPools: as many workers of a Work Queue manager as its queue is
// worth, each in a pod.
//
// A look goes from top to bottom through the files: controller.go (what starts one),
// observe.go (what there is: the manager's answers and the pods), shape.go (what workers can
// be made as), autoscaler/worker/decide (what to do), act.go and pod.go (doing it),
// record.go (saying why), memory.go (what is kept in the status).
//
// Nothing that is done here ends a task. A worker is told to leave by deleting its pod, and
// then continues until the manager has had nothing for it for a while; pod.go says how. What
// a look is about to do is in the pool's status before the first pod is touched, and how
// many pods there are is read past the cache, so that nothing is made twice whenever the
// process dies.
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
	"supercargo.dev/supercargo/autoscaler/worker/decide"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/internal/platform/pause"
)

// Reconciler keeps all WorkerPools of a cluster.
type Reconciler struct {
	// Client reads nodes and what else concerns workers from a cache, and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Events takes what is worth telling.
	Events events.EventRecorder
	// Clock says what time it is.
	Clock clock.PassiveClock
	// DryRun only logs what it would do: it writes nothing, no status and no Event.
	DryRun bool
	// Pause keeps decisions from being carried out; nil never does.
	Pause *pause.Switch

	mu     sync.Mutex
	memory map[types.NamespacedName]*memory
}

// memory is what is remembered of a pool between looks. All of it but what the status keeps
// can be lost.
type memory struct {
	uid     types.UID
	decided decide.Memory
	// resized is when workers were last added or drained indeed: what is only decided, in
	// mode Observe, keeps nothing waiting once the pool may act.
	resized time.Time
	// said is the last Event of each kind, which is not repeated.
	said map[string]string
}

// atOnce is how many pools are looked at at a time: a manager may take long to answer.
const atOnce = 8

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(m ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(m).Named("workerpool").
		For(&v1alpha1.WorkerPool{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.everyPool)). // of the switch
		WithOptions(controller.Options{MaxConcurrentReconciles: atOnce}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of WorkerPools: %w", err)
	}
	return nil
}

// look is one look at one pool.
type look struct {
	*Reconciler
	pool   *v1alpha1.WorkerPool
	before *v1alpha1.WorkerPoolStatus
	now    time.Time
	memory *memory
	paused bool // the cluster is

	client *workqueue.Client
	// undiscovered is why the manager is asked where it was found last; nil if it is not.
	undiscovered error
	seen         decide.Observation
	pods         pods
	decision     decide.Decision
}

// Reconcile implements reconcile.Reconciler: it looks at one pool once. Running it twice in a
// row is harmless: a second resize waits for an initialisation time.
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
		return reconcile.Result{}, nil // its pods follow it, each when it has nothing to do
	}
	l := &look{Reconciler: r, pool: pool, before: pool.Status.DeepCopy(), now: r.Clock.Now(), memory: r.remember(pool)}
	err := l.run(ctx)
	if statusErr := l.writeStatus(ctx); err == nil {
		err = statusErr
	}
	metricConditions.Publish(pool.Status.Conditions, req.Namespace, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	again := l.decision.LookAgain
	if again <= 0 {
		again = pool.Spec.Scaling.Interval.Duration
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// run observes, decides and acts.
func (l *look) run(ctx context.Context) error {
	l.pool.Status.ObservedGeneration = l.pool.Generation
	if err := l.heed(ctx); err != nil {
		return err
	}
	config, why, err := l.config(ctx)
	if err != nil {
		return err
	}
	template, fault := parseTemplate(l.pool)
	if why.message == "" && fault != nil {
		why = refusal{"InvalidTemplate", fault.Error()}
	}
	if why.message != "" {
		l.notReady(why.reason, why.message)
		return nil
	}
	if err := l.observe(ctx); err != nil {
		return err
	}
	before := l.memory.decided
	if !l.observes() {
		before.Resized = l.memory.resized
	}
	l.decision, l.memory.decided, err = decide.Decide(config, l.seen, before, l.now)
	if err != nil {
		l.notReady("InvalidSpec", err.Error())
		return nil
	}
	l.record()
	if err := l.writeStatus(ctx); err != nil { // before anything is done
		l.memory.decided = before // nothing was: the next look may
		return err
	}
	done, err := l.act(ctx, template, &config)
	if err != nil {
		l.notReady("NotCarriedOut", err.Error())
		if done == 0 {
			l.memory.decided.Resized = before.Resized
			keepResized(&l.pool.Status, before.Resized)
		}
	}
	if !l.observes() {
		l.memory.resized = l.memory.decided.Resized
	}
	return err
}

// heed has the look only say what it would do while the cluster is paused.
func (l *look) heed(ctx context.Context) (err error) {
	l.paused, err = l.Pause.Heed(ctx, &l.pool.Status.Conditions, l.pool.Generation, l.now, l.memory.said, l.tell)
	return err
}

// everyPool has every pool looked at.
func (r *Reconciler) everyPool(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var list v1alpha1.WorkerPoolList
	if err := r.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "WorkerPools are looked at when they are due")
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// observes reports whether nothing is carried out.
func (l *look) observes() bool { return l.DryRun || l.mode() == v1alpha1.WorkerPoolObserve }

// mode is the mode in which the look is.
func (l *look) mode() v1alpha1.WorkerPoolMode {
	if l.paused {
		return v1alpha1.WorkerPoolObserve
	}
	return l.pool.Spec.Mode
}

// remember returns what is remembered of a pool, from its status for one that is new to this
// process.
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
		m = &memory{uid: pool.UID, decided: decided, resized: decided.Resized, said: map[string]string{}}
		r.memory[name] = m
	}
	return m
}

// forget drops what is remembered of a pool that is no more, and its metrics.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	delete(r.memory, name)
	r.mu.Unlock()
	forgetMetrics(name.Namespace, name.Name)
}
