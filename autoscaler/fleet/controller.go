// Package fleet keeps NodeFleets: it buys machines for pods that find no room, and
// gives back those that are no longer worth their price.
//
// A round goes from top to bottom through the files: controller.go (what starts a
// round), round.go (its steps), observe.go (what there is), plain.go (the same without
// objects of the API), autoscaler/fleet/decide (what to do, see [decide.Round]), act.go
// and drain.go (doing it), record.go (saying why).
//
// One round is for one fleet, and only one runs at a time: a fleet counts on the
// machines that others have on order. Providers are asked beside the queue; outage.go says
// how a round goes on without an answer. Numbers of machines are read past the cache,
// and every write is refused by the API server if what it was decided on has changed.
// What a round is about to do is in the fleet's status before the first machine is
// touched, so that nothing is bought twice or forgotten whenever the process dies.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// Reconciler keeps all NodeFleets of a cluster.
type Reconciler struct {
	// Client reads pods, nodes and what else concerns them from a cache, and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// NewProvider returns where the machines of a fleet come from. nodes are those of
	// the cluster, by name.
	NewProvider func(fleet *v1alpha1.NodeFleet, nodes map[string]*corev1.Node) (provider.Provider, error)
	// Events takes what is worth telling.
	Events events.EventRecorder
	// Clock says what time it is.
	Clock clock.PassiveClock
	// DryRun only logs what it would do: it writes nothing, no status and no Event.
	DryRun bool
	// Migrations says that the kind is installed: pods that ask for it are moved with their
	// state.
	Migrations bool

	learned *runtimes.Learner
	memory  map[types.UID]*memory
	began   map[string]time.Time // the last round, by fleet
	known   map[types.UID]known
	wake    func(fleet string) // starts a round of a fleet, once the controller runs
}

// memory is what is remembered of a fleet between rounds. All of it can be lost: then
// machines stay a little longer.
type memory struct {
	generation int64
	*decide.Memory
	// unlisted are the flavors for which the status had no room.
	unlisted []v1alpha1.FlavorStatus
	// said is the last event of each kind, which is not repeated.
	said map[string]string
}

// settling is how long events are gathered before a round begins, spacing is how
// long at least one round begins after the other: each reads all machines from the
// API server.
const (
	settling = 200 * time.Millisecond
	spacing  = time.Second
)

// SetupWithManager registers the reconciler. machines are further objects, in
// machinesCache, whose changes concern fleets.
func (r *Reconciler) SetupWithManager(m ctrl.Manager, machinesCache cache.Cache, machines ...client.Object) error {
	r.learned, r.memory, r.began = runtimes.NewLearner(), map[types.UID]*memory{}, map[string]time.Time{}
	b := ctrl.NewControllerManagedBy(m).Named("nodefleet").
		For(&v1alpha1.NodeFleet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, r.everyFleet(), builder.WithPredicates(r.podMatters())).
		Watches(&corev1.Node{}, r.everyFleet(), builder.WithPredicates(nodeMatters())).
		Watches(&appsv1.DaemonSet{}, r.everyFleet(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(r.begin)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1})
	for _, object := range world.Kinds(r.Migrations) { // read in a round, and so to be in the cache
		if _, err := m.GetCache().GetInformer(context.Background(), object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("set up the controller of NodeFleets: cache %T: %w", object, err)
		}
	}
	for _, object := range machines {
		b = b.WatchesRawSource(source.Kind(machinesCache, object, r.everyFleet()))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the controller of NodeFleets: %w", err)
	}
	return nil
}

// begin is told of the queue when the controller starts, before the first round.
func (r *Reconciler) begin(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.wake = func(fleet string) { q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: fleet}}) }
	return nil
}

// everyFleet starts a round for every fleet, once things have settled.
func (r *Reconciler) everyFleet() handler.EventHandler {
	enqueue := func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		var fleets v1alpha1.NodeFleetList
		if err := r.Client.List(ctx, &fleets); err != nil {
			return // the cache is not there yet: fleets get a first round anyway
		}
		for i := range fleets.Items {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: fleets.Items[i].Name}}, settling)
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, _ event.CreateEvent, q queue) { enqueue(ctx, q) },
		UpdateFunc:  func(ctx context.Context, _ event.UpdateEvent, q queue) { enqueue(ctx, q) },
		DeleteFunc:  func(ctx context.Context, _ event.DeleteEvent, q queue) { enqueue(ctx, q) },
		GenericFunc: func(ctx context.Context, _ event.GenericEvent, q queue) { enqueue(ctx, q) },
	}
}

// podMatters is for pods that have been found to have no room, and learns from those
// that have finished, also before the reconciler has started. Pods that leave are seen at the next round.
func (r *Reconciler) podMatters() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			pod := e.Object.(*corev1.Pod)
			r.learned.ObservePod(nil, pod)
			_, is := world.Unschedulable(pod)
			return is
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			r.learned.ObservePod(before, after)
			return world.BecameUnschedulable(before, after)
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// nodeMatters is for nodes that come, go, become ready or are not any more, and are
// opened or closed for pods.
func nodeMatters() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return world.AvailabilityChanged(e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node))
		},
	}
}

// Reconcile implements reconcile.Reconciler: it runs one round for one fleet.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if wait := r.began[req.Name].Add(spacing).Sub(r.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	r.began[req.Name] = r.Clock.Now()
	var list v1alpha1.NodeFleetList
	if err := r.Live.List(ctx, &list); err != nil {
		return reconcile.Result{}, fmt.Errorf("list NodeFleets: %w", err)
	}
	slices.SortFunc(list.Items, seniority)
	w, err := world.Read(ctx, r.Client, r.Migrations)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.reopenAbandoned(ctx, w, list.Items)
	maps.DeleteFunc(r.memory, func(uid types.UID, _ *memory) bool {
		return !slices.ContainsFunc(list.Items, func(f v1alpha1.NodeFleet) bool { return f.UID == uid })
	})
	maps.DeleteFunc(r.known, func(uid types.UID, _ known) bool {
		return !slices.ContainsFunc(list.Items, func(f v1alpha1.NodeFleet) bool { return f.UID == uid })
	})
	at := slices.IndexFunc(list.Items, func(f v1alpha1.NodeFleet) bool { return f.Name == req.Name })
	if at < 0 {
		forget(req.Name)
		delete(r.began, req.Name)
		return reconcile.Result{}, nil
	}
	fleet := &list.Items[at]
	round := &round{Reconciler: r, fleet: fleet, before: fleet.Status.DeepCopy(), world: w, now: r.Clock.Now(), memory: r.remember(fleet)}
	fleet.Status.Flavors = append(fleet.Status.Flavors, round.memory.unlisted...)
	err = round.run(ctx, list.Items)
	if statusErr := round.writeStatus(ctx); err == nil {
		err = statusErr
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: round.again}, nil
}

// seniority orders fleets by who has a first claim to a MachineDeployment: the one
// that was made first, ties by name.
func seniority(a, b v1alpha1.NodeFleet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// remember returns the memory of a fleet, anew when its spec has changed.
func (r *Reconciler) remember(fleet *v1alpha1.NodeFleet) *memory {
	m := r.memory[fleet.UID]
	if m == nil || m.generation != fleet.Generation {
		m = &memory{
			generation: fleet.Generation, said: map[string]string{},
			Memory: decide.NewMemory(decide.MovesConfig(&fleet.Spec.Consolidation), fleet.Spec.Scaling.BackOff.Duration, r.Clock.Now()),
		}
		if d := fleet.Status.LastDecision; d != nil && d.Mode == v1alpha1.FleetAct && d.Measured == nil && len(d.Buys) > 0 {
			m.Inherit(d.Time.Time, d.Time.Add(decide.NominatedFor(decide.FleetLag(fleet))))
		}
		if old := r.memory[fleet.UID]; old != nil {
			m.unlisted = old.unlisted
		}
		r.memory[fleet.UID] = m
	}
	return m
}
