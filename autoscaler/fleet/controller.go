// Package fleet reconciles NodeFleets: it buys machines for unschedulable pods, and releases machines that are no
// longer worth their price.
//
// A round runs through these files and packages in this order: controller.go (what starts a round), round.go (its steps),
// inputs.go (what it reads), autoscaler/fleet/fleetobserve (the observation, and the same without API objects),
// autoscaler/fleet/fleetdecide (the decision, see [fleetdecide.Round]), act.go and drain.go (its execution), decision.go
// and status.go (its explanation).
//
// One round is for one fleet. Rounds of several fleets run concurrently, so that a slow provider delays no other fleet,
// but only one of them decides at a time: a fleet counts on the machines that others have on order, including those
// that they have just decided to buy. pace.go decides when a round begins, outage.go how it continues without an answer
// of a provider. Numbers of machines are read from the API server, and it refuses every write if what the write is
// based on has changed. Before the first machine is touched, the fleet's status contains what the round is about to do,
// so that a crash of the process at any time leaves nothing bought twice or forgotten.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
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
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// Reconciler reconciles all NodeFleets of a cluster.
type Reconciler struct {
	// Client reads pods, nodes and related objects from a cache, and writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// NewProvider returns the provider of a fleet's machines. nodes are those of the cluster, by name.
	NewProvider func(fleet *v1alpha1.NodeFleet, nodes map[string]*corev1.Node) (provider.Provider, error)
	// Events records Events on fleets.
	Events events.EventRecorder
	// Clock returns the current time.
	Clock clock.PassiveClock
	// DryRun only logs decisions: it writes nothing, no status and no Event.
	DryRun bool
	// Pause suspends the execution of decisions; nil never does.
	Pause *pause.Switch
	// Migrations reports that the kind Migration is installed: pods that opt in are moved with their state.
	Migrations bool

	learned  *runtimes.Learner
	daemons  world.DaemonSizes
	facts    world.Facts
	arrivals arrivals
	reported reported
	deciding sync.Mutex // held from reading the other fleets until the orders are known to them

	mu     sync.Mutex // protects the maps below
	memory map[types.UID]*memory
	pace   map[string]*pace // by fleet
	known  map[types.UID]known
	wake   func(fleet string) // starts a round of a fleet, once the controller runs
}

// memory is what is remembered of a fleet between rounds. All of it may be lost: then machines stay a little longer.
type memory struct {
	generation int64
	*fleetdecide.Memory
	// unlisted are the flavors that did not fit into the status.
	unlisted []v1alpha1.FlavorStatus
	// bounded is when the lower bound of the status was computed.
	bounded time.Time
	// events is the last Event of each reason, to avoid repeating it.
	events map[string]string
}

// rounds is the maximum number of concurrent rounds. A round mostly waits.
const rounds = 64

// SetupWithManager registers the reconciler. machines are further objects whose changes start rounds.
func (r *Reconciler) SetupWithManager(m ctrl.Manager, machines ...Changes) error {
	r.learned, r.memory = runtimes.NewLearner(), map[types.UID]*memory{}
	b := ctrl.NewControllerManagedBy(m).Named("nodefleet").
		For(&v1alpha1.NodeFleet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, r.everyFleet(), builder.WithPredicates(r.podMatters())).
		Watches(&corev1.Node{}, r.everyFleet(), builder.WithPredicates(nodeMatters())).
		Watches(&appsv1.DaemonSet{}, r.everyFleet(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, r.everyFleet()). // of pause.Switch
		WatchesRawSource(source.Func(r.begin)).
		WithOptions(controller.Options{MaxConcurrentReconciles: rounds})
	for _, object := range world.Kinds(r.Migrations) { // read in a round, so they must be in the cache
		if _, err := m.GetCache().GetInformer(context.Background(), object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("set up the controller of NodeFleets: cache %T: %w", object, err)
		}
	}
	for _, of := range machines {
		for _, object := range of.Kinds {
			if of.Apart {
				b = b.WatchesRawSource(r.follow(of.In, object))
			} else {
				b = b.WatchesRawSource(source.Kind(of.In, object, r.everyFleet()))
			}
		}
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the controller of NodeFleets: %w", err)
	}
	return nil
}

// begin receives the queue when the controller starts, before the first round.
func (r *Reconciler) begin(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.wake = func(fleet string) { q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: fleet}}) }
	return nil
}

// queue has the fleets whose rounds are due.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueueEvery starts a round for every fleet after events have settled.
func (r *Reconciler) enqueueEvery(ctx context.Context, q queue) {
	var fleets v1alpha1.NodeFleetList
	if err := r.Client.List(ctx, &fleets); err != nil {
		return // the cache is not ready: fleets get a first round anyway
	}
	for i := range fleets.Items {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: fleets.Items[i].Name}}, settling)
	}
}

// everyFleet starts a round for every fleet after events have settled.
func (r *Reconciler) everyFleet() handler.EventHandler {
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, _ event.CreateEvent, q queue) { r.enqueueEvery(ctx, q) },
		UpdateFunc:  func(ctx context.Context, _ event.UpdateEvent, q queue) { r.enqueueEvery(ctx, q) },
		DeleteFunc:  func(ctx context.Context, _ event.DeleteEvent, q queue) { r.enqueueEvery(ctx, q) },
		GenericFunc: func(ctx context.Context, _ event.GenericEvent, q queue) { r.enqueueEvery(ctx, q) },
	}
}

// podMatters passes pods that become unschedulable, or that show that an image does not run on the architecture of
// their node. It also learns from finished pods, even before the reconciler has started. Deleted pods are noticed in
// the next round.
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

// nodeMatters passes nodes that are created, deleted, become ready or unready, or are cordoned or uncordoned.
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

// round runs one round for a fleet, and returns the time until the next one is due; 0 if the fleet no longer exists.
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
	default: // a previous fleet had that name
		r.forget(name, p)
		return settling, nil
	}
	if err := r.finalize(ctx, fleet); err != nil {
		return 0, err
	}
	if gone(fleet) {
		return settling, nil
	}
	round := &round{Reconciler: r, fleet: fleet, before: fleet.Status.DeepCopy(), now: r.Clock.Now(), memory: r.remember(fleet), pace: p}
	round.report = &conditions.Reporter{
		Object: fleet, Conditions: &fleet.Status.Conditions, Now: round.now, Events: r.Events, DryRun: r.DryRun, Last: round.memory.events,
	}
	fleet.Status.Flavors = append(fleet.Status.Flavors, round.memory.unlisted...)
	err := round.run(ctx, list.Items)
	if gone(fleet) {
		return settling, err
	}
	metricConditions.Publish(fleet.Status.Conditions, fleet.Name)
	if statusErr := round.writeStatus(ctx); err == nil {
		err = statusErr
	}
	return round.again, err
}

// forget drops the state of a fleet that no longer exists.
func (r *Reconciler) forget(name string, p *pace) {
	forget(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported.forget(name)
	delete(r.memory, p.fleet)
	delete(r.known, p.fleet)
	delete(r.pace, name)
}

// seniority orders fleets by their priority in claiming a MachineDeployment: by creation time, ties by name.
func seniority(a, b v1alpha1.NodeFleet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// remember returns the memory of a fleet. A change of the spec resets it.
func (r *Reconciler) remember(fleet *v1alpha1.NodeFleet) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memory[fleet.UID]
	if m == nil || m.generation != fleet.Generation {
		c := fleetdecide.ConfigOf(&fleet.Spec)
		m = &memory{
			generation: fleet.Generation, events: map[string]string{},
			Memory: fleetdecide.NewMemory(c.Moves(), c.BackOff, r.Clock.Now()),
		}
		if d := fleet.Status.LastDecision; d != nil && d.Mode == v1alpha1.FleetAct && d.Measured == nil && len(d.Buys) > 0 {
			m.Inherit(d.Time.Time, d.Time.Add(fleetdecide.NominatedFor(fleetdecide.FleetLag(fleet))))
		}
		if old := r.memory[fleet.UID]; old != nil {
			m.unlisted = old.unlisted
		}
		r.memory[fleet.UID] = m
	}
	return m
}

// Changes are the changes of objects that start rounds.
type Changes struct {
	// In is the cache that has the objects of these kinds.
	In    cache.Cache
	Kinds []client.Object
	// Apart reports whether the cache is of another cluster, which may be unreachable or lack the kinds for some time.
	// Until the cache watches them, only the interval of a fleet starts its rounds.
	Apart bool
}

// follow returns a source of the changes of objects of a kind in another cluster. source.Kind would stop the controller
// if that cluster is unreachable or lacks the kind. This source retries with exponential back-off from firstRetry to
// lastRetry.
func (r *Reconciler) follow(in cache.Cache, object client.Object) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		again := wait.Backoff{Duration: firstRetry, Factor: 2, Cap: lastRetry, Steps: math.MaxInt}
		go func() {
			_ = again.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
				err := r.watch(ctx, in, object, q)
				if err != nil {
					log.FromContext(ctx).Info("Cannot watch the cluster that has the MachineDeployments; trying again", "reason", err.Error())
				}
				return err == nil, nil
			}) // Until fails only when ctx ends
		}()
		return nil
	})
}

// watch starts rounds at every change of objects of a kind. It does not wait until the cache has read them.
func (r *Reconciler) watch(ctx context.Context, in cache.Cache, object client.Object, q queue) error {
	informer, err := in.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.enqueueEvery(ctx, q) }, UpdateFunc: func(any, any) { r.enqueueEvery(ctx, q) }, DeleteFunc: func(any) { r.enqueueEvery(ctx, q) },
	})
	return err
}
