// Package migration moves running pods between nodes, as Migrations request.
//
// The next step is decided in descheduler/migration/migrationdecide, which is pure. This package observes
// (observe.go), does the one write of the step (act.go), and observes again. It tracks the
// migrations in flight (registry.go) and exports metrics (metrics.go).
//
// It may use caches to find out that there is nothing to do. Before any write it reads the
// migration, its pods and their owner from the API server and decides again, and the write fails
// if one of them has changed since.
package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/migrationdecide"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/surroundings"
)

// atOnce is the number of concurrent reconciles, which mostly wait for the API server.
const atOnce = 8

const (
	// maxTries is how often in a row to retry after a write conflict.
	maxTries = 8
	// unseenPatience is when to requeue a migration if no event follows a write: the API server
	// sends none for a write that changes nothing.
	unseenPatience = time.Second
)

// Reconciler reconciles all Migrations of a cluster.
type Reconciler struct {
	// Client reads from a cache, and writes.
	Client client.Client
	// Live reads without the cache.
	Live client.Reader
	// Events receives Events.
	Events events.EventRecorder
	// Clock is the current time.
	Clock clock.PassiveClock
	// Config sets limits and timeouts.
	Config migrationdecide.Config
	// DryRun only logs what it would do. It writes nothing, not even a status or an Event.
	DryRun bool
	// Pause keeps Migrations from beginning; those that have begun continue. nil never pauses.
	Pause *pause.Switch

	registry registry
}

// Fields of the indexes of the cache.
const (
	byPod       = "spec.podName"   // of Migrations: the pod to move
	byMigration = "made-by"        // of pods: the name of the Migration that created them
	byNode      = "nodes-involved" // of Migrations: the nodes of a plan
)

// indexes are the indexes of the cache, by their fields.
var indexes = []struct {
	object client.Object
	field  string
	keys   client.IndexerFunc
}{
	{&v1alpha1.Migration{}, byPod, func(o client.Object) []string { return []string{o.(*v1alpha1.Migration).Spec.PodName} }},
	{&v1alpha1.Migration{}, byNode, func(o client.Object) []string { return nodesOf(o.(*v1alpha1.Migration)) }},
	{&corev1.Pod{}, byMigration, madeBy},
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(ctx context.Context, m ctrl.Manager) error {
	for _, index := range indexes {
		if err := m.GetFieldIndexer().IndexField(ctx, index.object, index.field, index.keys); err != nil {
			return fmt.Errorf("index %s of %T: %w", index.field, index.object, err)
		}
	}
	// Migrations that have not begun have a queue of their own, so that none delays one that has
	// begun, whose pod may be frozen.
	err := ctrl.NewControllerManagedBy(m).Named("migration-admission").
		For(&v1alpha1.Migration{}, builder.WithPredicates(predicate.NewPredicateFuncs(waits))).
		Watches(&v1alpha1.Migration{}, r.whenOneEnds(r.waiting)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.allThatWait)). // of the pause switch
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r.reconcile(waits))
	if err != nil {
		return fmt.Errorf("set up the controller of pending Migrations: %w", err)
	}
	if r.Pause.Withholds() {
		return nil // a status of one that has begun gives orders to agents: it stays as it is
	}
	err = ctrl.NewControllerManagedBy(m).Named("migration").
		For(&v1alpha1.Migration{}, builder.WithPredicates(predicate.NewPredicateFuncs(begun))).
		Watches(&v1alpha1.Migration{}, r.whenOneEnds(r.concerned)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.migrationsOfPod)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.migrationsOfNode), builder.WithPredicates(nodeMatters())).
		// These are read in a reconcile, so they must be in the cache.
		Watches(&batchv1.Job{}, handler.Funcs{}).
		Watches(&appsv1.ReplicaSet{}, handler.Funcs{}).
		Watches(&policyv1.PodDisruptionBudget{}, handler.Funcs{}).
		Watches(&corev1.Service{}, handler.Funcs{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: atOnce}).
		Complete(r.reconcile(begun))
	if err != nil {
		return fmt.Errorf("set up the controller of Migrations: %w", err)
	}
	return nil
}

// waits reports whether a migration has not begun.
func waits(o client.Object) bool {
	m := o.(*v1alpha1.Migration)
	return m.Status.Plan == nil && !migrationdecide.Ended(m)
}

// begun reports whether a migration has begun, or ended.
func begun(o client.Object) bool { return !waits(o) }

// nodesOf returns the nodes of a migration in flight.
func nodesOf(m *v1alpha1.Migration) (nodes []string) {
	if m.Status.Plan == nil || migrationdecide.Ended(m) {
		return nil
	}
	nodes = append(nodes, m.Status.Plan.SourceNode)
	if m.Status.Reservation != nil {
		nodes = append(nodes, m.Status.Reservation.Node)
	}
	return nodes
}

// madeBy returns the name of the Migration that created a pod, if any.
func madeBy(pod client.Object) []string {
	if pod.GetLabels()[v1alpha1.LabelMigration] == "" {
		return nil
	}
	return []string{pod.GetAnnotations()[v1alpha1.AnnotationMigrationName]}
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// migrationsOfPod returns the migrations that move a pod or created it.
func (r *Reconciler) migrationsOfPod(ctx context.Context, pod client.Object) (requests []reconcile.Request) {
	for _, name := range madeBy(pod) {
		requests = append(requests, request(pod.GetNamespace(), name))
	}
	return append(requests, r.find(ctx, client.InNamespace(pod.GetNamespace()), client.MatchingFields{byPod: pod.GetName()})...)
}

// migrationsOfNode returns the migrations in flight from or to a node.
func (r *Reconciler) migrationsOfNode(ctx context.Context, node client.Object) []reconcile.Request {
	return r.find(ctx, client.MatchingFields{byNode: node.GetName()})
}

// find returns the unfinished migrations of a list.
func (r *Reconciler) find(ctx context.Context, options ...client.ListOption) (requests []reconcile.Request) {
	var list v1alpha1.MigrationList
	if err := r.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache is shutting down
	}
	for i := range list.Items {
		if m := &list.Items[i]; !migrationdecide.Ended(m) {
			requests = append(requests, request(m.Namespace, m.Name))
		}
	}
	return requests
}

// nodeMatters selects changes of a node's readiness, schedulability and capability.
func nodeMatters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return movable.Ready(before) != movable.Ready(after) || before.Spec.Unschedulable != after.Spec.Unschedulable ||
			before.Annotations[v1alpha1.AnnotationCapability] != after.Annotations[v1alpha1.AnnotationCapability]
	}}
}

// whenOneEnds enqueues others when a migration ends, or no longer counts towards the limits.
func (r *Reconciler) whenOneEnds(wake func(ctx context.Context, ended *v1alpha1.Migration, all []v1alpha1.Migration) []reconcile.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, ended client.Object, q queue) {
		var list v1alpha1.MigrationList
		if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return // the cache is shutting down
		}
		for _, request := range wake(ctx, ended.(*v1alpha1.Migration), list.Items) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*v1alpha1.Migration), e.ObjectNew.(*v1alpha1.Migration)
			if !migrationdecide.Ended(before) && migrationdecide.Ended(after) || migrationdecide.Counts(before) && !migrationdecide.Counts(after) {
				add(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if !migrationdecide.Ended(e.Object.(*v1alpha1.Migration)) {
				add(ctx, e.Object, q)
			}
		},
	}
}

// waiting returns the waiting migrations that may find room now, oldest first, and at most as
// many as can begin at once.
func (r *Reconciler) waiting(ctx context.Context, _ *v1alpha1.Migration, all []v1alpha1.Migration) (requests []reconcile.Request) {
	var found []*v1alpha1.Migration
	for i := range all {
		if waits(&all[i]) {
			found = append(found, &all[i])
		}
	}
	slices.SortFunc(found, func(a, b *v1alpha1.Migration) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	flights := r.registry.others(all, "")
	for _, m := range found {
		pod, err := surroundings.Get(ctx, r.Client, m.Namespace, m.Spec.PodName, &corev1.Pod{})
		if err != nil || pod != nil && r.Config.Full(flights, m.Namespace, pod.Spec.NodeName) {
			continue
		}
		if requests = append(requests, request(m.Namespace, m.Name)); len(requests) == r.Config.MaxMigrations {
			break
		}
	}
	return requests
}

// allThatWait returns the migrations that have not begun.
func (r *Reconciler) allThatWait(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var list v1alpha1.MigrationList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has not synced yet: all are reconciled at the start anyway
	}
	for i := range list.Items {
		if m := &list.Items[i]; waits(m) {
			requests = append(requests, request(m.Namespace, m.Name))
		}
	}
	return requests
}

// concerned returns the migrations that may wait for the node of the ended one, and those of its
// namespace that exceed the limit of finished migrations.
func (r *Reconciler) concerned(_ context.Context, ended *v1alpha1.Migration, all []v1alpha1.Migration) (requests []reconcile.Request) {
	for i := range all {
		if m := &all[i]; begun(m) && !migrationdecide.Ended(m) && migrationdecide.DependsOnOthers(m) {
			requests = append(requests, request(m.Namespace, m.Name))
		}
	}
	for _, m := range migrationdecide.Surplus(ended.Namespace, all, r.Config.MaxFinished) {
		requests = append(requests, request(m.Namespace, m.Name))
	}
	return requests
}

// reconcile returns a function that does one step for a migration that this controller handles.
// Its write comes back through the cache and triggers the next reconcile. To continue at once
// would mean to decide with an outdated cache, and so to read everything from the API server
// twice.
func (r *Reconciler) reconcile(concerns func(client.Object) bool) reconcile.Func {
	return func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		for range maxTries {
			step, err := r.once(ctx, req.NamespacedName, concerns)
			switch {
			case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
				ctrl.LoggerFrom(ctx).V(2).Info("The observed objects have changed; reading them again", "err", err.Error())
				continue
			case err != nil || step == nil:
				return reconcile.Result{}, err
			case step.Do != migrationdecide.Wait && !r.omits(step.Do):
				return reconcile.Result{RequeueAfter: unseenPatience}, nil
			case step.Until.IsZero():
				return reconcile.Result{}, nil
			}
			return reconcile.Result{RequeueAfter: max(step.Until.Sub(r.Clock.Now()), 1)}, nil
		}
		return reconcile.Result{RequeueAfter: unseenPatience}, nil
	}
}

// once observes, decides and does one step. It returns the step; nil if there is none for this
// controller.
func (r *Reconciler) once(ctx context.Context, key types.NamespacedName, concerns func(client.Object) bool) (*migrationdecide.Step, error) {
	if step, err := r.cleanUpLeftovers(ctx, key); step != nil || err != nil {
		return step, err
	}
	// The cache is enough to find that there is nothing to do.
	o, err := r.observe(ctx, r.Client, key)
	if err != nil || !concerns(o.Migration) {
		return nil, client.IgnoreNotFound(err)
	}
	if step := migrationdecide.Next(r.Config, *o, r.Clock.Now()); step.Do == migrationdecide.Wait {
		return &step, nil
	}
	o, step, err := r.decideLive(ctx, key)
	if err != nil || !concerns(o.Migration) {
		return nil, client.IgnoreNotFound(err)
	}
	if migrationdecide.ChangesFlights(o.Migration, step) {
		// A step that depends on the other migrations in flight must be visible to the next such
		// decision.
		r.registry.admission.Lock()
		defer r.registry.admission.Unlock()
		if o, step, err = r.decideLive(ctx, key); err != nil || !concerns(o.Migration) {
			return nil, client.IgnoreNotFound(err)
		}
	}
	ctrl.LoggerFrom(ctx).V(1).Info(step.Why, "step", step.Do, "phase", o.Migration.Status.Phase, "order", o.Migration.Status.Order)
	return &step, r.act(ctx, o, step)
}

// decideLive decides from the API server's current state. A NotFound error is about the
// migration.
func (r *Reconciler) decideLive(ctx context.Context, key types.NamespacedName) (*migrationdecide.Observation, migrationdecide.Step, error) {
	o, err := r.observe(ctx, r.Live, key)
	if err != nil {
		return nil, migrationdecide.Step{}, err
	}
	step := migrationdecide.Next(r.Config, *o, r.Clock.Now())
	if step.Do != migrationdecide.TryPod {
		return o, step, nil
	}
	if o.Trial, err = r.try(ctx, step.Pod); err != nil {
		return nil, migrationdecide.Step{}, err
	}
	return o, migrationdecide.Next(r.Config, *o, r.Clock.Now()), nil
}
