// Package fleet keeps NodeFleets: it buys machines for unschedulable pods, and
// releases those that are no longer worth their price.
//
// A round goes from top to bottom through the files: controller.go (what starts a
// round), round.go (its steps), observe.go (what there is), plain.go (the same without
// objects of the API), autoscaler/fleet/decide (what to do, see [decide.Round]), act.go
// and drain.go (doing it), record.go (saying why).
//
// One round is for one fleet. Those of several fleets run beside each other, so that nothing
// that is slow holds up another fleet, but only one of them decides at a time: a fleet counts
// on the machines that others have on order, those included that they have just decided to
// buy. pace.go says when a round begins, outage.go how it continues without the answer of a provider.
// Numbers of machines are read past the cache, and every write is refused by the API server
// if what it was decided on has changed.
// What a round is about to do is in the fleet's status before the first machine is
// touched, so that nothing is bought twice or forgotten whenever the process dies.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
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
	"supercargo.dev/supercargo/internal/platform/pause"
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
	// Pause keeps decisions from being carried out; nil never does.
	Pause *pause.Switch
	// Migrations says that the kind is installed: pods that ask for it are moved with their
	// state.
	Migrations bool

	learned  *runtimes.Learner
	arrivals arrivals
	deciding sync.Mutex // held from looking at other fleets until it is told what is ordered

	mu     sync.Mutex // protects the maps below
	memory map[types.UID]*memory
	pace   map[string]*pace // by fleet
	known  map[types.UID]known
	wake   func(fleet string) // starts a round of a fleet, once the controller runs
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

// rounds is how many fleets may have a round at a time. Such a round mostly waits.
const rounds = 64

// SetupWithManager registers the reconciler. machines are further objects, in
// machinesCache, whose changes concern fleets.
func (r *Reconciler) SetupWithManager(m ctrl.Manager, machinesCache cache.Cache, machines ...client.Object) error {
	r.learned, r.memory = runtimes.NewLearner(), map[types.UID]*memory{}
	b := ctrl.NewControllerManagedBy(m).Named("nodefleet").
		For(&v1alpha1.NodeFleet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, r.everyFleet(), builder.WithPredicates(r.podMatters())).
		Watches(&corev1.Node{}, r.everyFleet(), builder.WithPredicates(nodeMatters())).
		Watches(&appsv1.DaemonSet{}, r.everyFleet(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, r.everyFleet()). // of the switch
		WatchesRawSource(source.Func(r.begin)).
		WithOptions(controller.Options{MaxConcurrentReconciles: rounds})
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

// podMatters is for pods that have been found to have no room, or that come to show that
// an image does not run on the architecture of their node, and learns from those that have
// finished, also before the reconciler has started. Pods that leave are seen at the next round.
func (r *Reconciler) podMatters() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			pod := e.Object.(*corev1.Pod)
			r.learned.ObservePod(nil, pod)
			return r.arrivals.observe(pod, r.Clock.Now())
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			r.learned.ObservePod(before, after)
			r.arrivals.observe(after, r.Clock.Now())
			return world.BecameUnschedulable(before, after) || world.BecameMisfit(before, after)
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			r.arrivals.gone(world.PodName(e.Object.(*corev1.Pod)))
			return false
		},
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
	p := r.paceOf(req.Name)
	if wait := p.wait(r.Clock.Now(), r.due(p)); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	p.begin(r.Clock.Now())
	again, err := r.round(ctx, req.Name, p)
	p.ended = r.Clock.Now()
	if err != nil || again == 0 {
		return reconcile.Result{}, err
	}
	if due := r.due(p); due.After(p.began) {
		again = min(again, due.Sub(p.ended))
	}
	return reconcile.Result{RequeueAfter: max(again, 1)}, nil
}

// round runs one round for a fleet, and returns after what time the next is due; 0 if the fleet is
// no more.
func (r *Reconciler) round(ctx context.Context, name string, p *pace) (time.Duration, error) {
	var list v1alpha1.NodeFleetList
	if err := r.Live.List(ctx, &list); err != nil {
		return 0, fmt.Errorf("list NodeFleets: %w", err)
	}
	slices.SortFunc(list.Items, seniority)
	defer r.uncordonAbandoned(ctx)
	at := slices.IndexFunc(list.Items, func(f v1alpha1.NodeFleet) bool { return f.Name == name })
	if at < 0 {
		r.forget(name, p)
		return 0, nil
	}
	fleet := list.Items[at].DeepCopy()
	switch p.fleet {
	case fleet.UID:
	case "":
		p.fleet = fleet.UID
	default: // another had that name
		r.forget(name, p)
		return settling, nil
	}
	round := &round{Reconciler: r, fleet: fleet, before: fleet.Status.DeepCopy(), now: r.Clock.Now(), memory: r.remember(fleet), pace: p}
	fleet.Status.Flavors = append(fleet.Status.Flavors, round.memory.unlisted...)
	err := round.run(ctx, list.Items)
	metricConditions.Publish(fleet.Status.Conditions, fleet.Name)
	if statusErr := round.writeStatus(ctx); err == nil {
		err = statusErr
	}
	return round.again, err
}

// forget drops what is known of a fleet that is no more.
func (r *Reconciler) forget(name string, p *pace) {
	forget(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memory, p.fleet)
	delete(r.known, p.fleet)
	delete(r.pace, name)
}

// seniority orders fleets by who has a first claim to a MachineDeployment: the one
// that was made first, ties by name.
func seniority(a, b v1alpha1.NodeFleet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// remember returns the memory of a fleet, anew when its spec has changed.
func (r *Reconciler) remember(fleet *v1alpha1.NodeFleet) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
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
