// Package mover empties nodes that are not worth their price, and that no NodeFleet has.
//
// What is to be emptied is decided by internal/moves, the planner that NodeFleets and the
// simulator use too. The mover shows it the cluster, cordons the nodes that it names, and
// has their pods leave (package drain): with their state by Migrations, which the
// controller of those carries out, or by eviction. An emptied node stays cordoned, for
// whoever releases machines, until a pod waits that has room there.
//
// It also moves single pods to machines where the rest of their work takes less energy or
// time, which internal/moves decides as well.
//
// config.go has the flags, mover.go what starts a round, round.go its steps, improve.go
// those for single pods, observe.go what there is, report.go says what was decided and why.
package mover

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
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

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/moves"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/platform/tarifffile"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// Mover empties nodes.
type Mover struct {
	// Client reads what concerns nodes and pods from a cache, and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Events takes what is worth telling.
	Events events.EventRecorder
	// Clock says what time it is.
	Clock clock.PassiveClock
	// Config says which nodes are emptied, and when.
	Config Config
	// Fleets and Profiles say that the kinds NodeFleet and MachineProfile are installed.
	Fleets, Profiles bool
	// DryRun only logs what would be done.
	DryRun bool
	// Pause keeps nodes from being emptied; nil never does.
	Pause *pause.Switch

	selector labels.Selector
	learned  *runtimes.Learner
	planner  *moves.Planner
	tariff   *tarifffile.File // nil where joules count the same everywhere
	memory   memory
}

// memory is what is remembered between rounds. All of it can be lost: then nodes stay a
// little longer.
type memory struct {
	// busy is when a batch pod was last seen to wait.
	busy time.Time
	// spared is until when nodes that could not be emptied are not to be emptied again, and how often
	// that was so.
	spared map[string]spared
	// decision is the last one.
	decision *Decision
	// said is when Events were made last.
	said map[said]time.Time
	// next is when the next plan is due, and improves when it is looked next which pods
	// suit other machines better.
	next, improves time.Time
	// unpriced is why the tariff is of no use, as said last.
	unpriced string
}

// said is an Event on a node or a pod.
type said struct{ object, reason string }

type spared struct {
	until time.Time
	times int
	why   string
}

// the one request there is: a round is about all nodes.
var everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "nodes"}}

// settling is how long events are gathered before a round.
const settling = 200 * time.Millisecond

// New returns a Mover that has seen nothing yet. The configuration must be valid.
func New(m Mover) (*Mover, error) {
	if err := m.Config.Validate(); err != nil {
		return nil, err
	}
	var err error
	if m.selector, err = labels.Parse(m.Config.NodeSelector); err != nil {
		return nil, fmt.Errorf("--consolidation-node-selector: %w", err)
	}
	m.learned, m.planner = runtimes.NewLearner(), moves.NewPlanner(m.Config.planner())
	m.tariff = openTariff(m.Config.Energy.Tariff)
	m.memory = memory{busy: m.Clock.Now(), spared: map[string]spared{}, said: map[said]time.Time{}}
	return &m, nil
}

// SetupWithManager registers the mover.
func (m *Mover) SetupWithManager(ctx context.Context, manager ctrl.Manager) error {
	kinds := world.Kinds(true)
	if m.Fleets {
		kinds = append(kinds, &v1alpha1.NodeFleet{})
	}
	if m.Profiles {
		kinds = append(kinds, &v1alpha1.MachineProfile{})
	}
	for _, kind := range kinds { // read in a round, and so to be in the cache
		if _, err := manager.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("set up the mover: cache %T: %w", kind, err)
		}
	}
	err := ctrl.NewControllerManagedBy(manager).Named("mover").
		Watches(&corev1.Node{}, soon(), builder.WithPredicates(nodeMatters())).
		Watches(&corev1.Pod{}, soon(), builder.WithPredicates(m.podMatters())).
		Watches(&v1alpha1.Migration{}, soon(), builder.WithPredicates(migrationEnds())).
		Watches(&corev1.ConfigMap{}, soon()). // of the switch
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(m)
	if err != nil {
		return fmt.Errorf("set up the mover: %w", err)
	}
	return nil
}

// soon starts a round once things have settled.
func soon() handler.EventHandler { return operator.Settled(everything, settling) }

func nodeMatters() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return world.AvailabilityChanged(e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node))
		},
	}
}

// podMatters is for pods that have just been found to have no room, and learns from those
// that have finished, also before the mover has started.
func (m *Mover) podMatters() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			m.learned.ObservePod(nil, e.Object.(*corev1.Pod))
			return false
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			m.learned.ObservePod(before, after)
			return world.BecameUnschedulable(before, after)
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func migrationEnds() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !world.Ended(e.ObjectOld.(*v1alpha1.Migration)) && world.Ended(e.ObjectNew.(*v1alpha1.Migration))
		},
	}
}

// Reconcile implements reconcile.Reconciler: it runs one round.
func (m *Mover) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	r, err := m.look(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.run(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: max(r.again, settling)}, nil
}
