// Package consolidation empties nodes that cost more than they are worth and belong to no NodeFleet.
//
// moves, the planner of NodeFleets and the simulator, decides which nodes to empty. The
// mover gives it the state of the cluster, cordons the nodes that it selects, and moves their
// pods away (package drain): with their state by Migrations, which have a controller of their
// own, or by eviction. An emptied node stays cordoned, so that it can be released, until a pod is
// pending that has room there.
//
// It also moves single pods to machines where the rest of their work takes less energy or time.
// moves decides these moves too.
//
// Files: config.go has the flags, mover.go starts rounds, round.go has their steps, improve.go
// moves single pods, observe.go reads the cluster, tariff.go prices energy, and report.go reports
// decisions.
package consolidation

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
	"supercargo.dev/supercargo/energy/tarifffile"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/moves"
)

// Mover empties nodes.
type Mover struct {
	// Client reads nodes, pods and related objects from a cache, and writes.
	Client client.Client
	// Live reads without the cache.
	Live client.Reader
	// Events receives Events.
	Events events.EventRecorder
	// Clock is the current time.
	Clock clock.PassiveClock
	// Config configures which nodes are emptied, and when.
	Config Config
	// Fleets and Profiles are whether the kinds NodeFleet and MachineProfile are installed.
	Fleets, Profiles bool
	// DryRun only logs what would be done.
	DryRun bool
	// ReadOnly writes nothing but Events and the report. Nodes that were cordoned before stay so. No mode may be Act.
	ReadOnly bool
	// Pause keeps nodes from being emptied; nil never pauses.
	Pause *pause.Switch

	selector labels.Selector
	learned  *runtimes.Learner
	facts    *world.Facts // of the pods of earlier rounds
	planner  *moves.Planner
	tariff   *tarifffile.File // nil if joules count the same everywhere
	memory   memory
}

// memory is the state between rounds. If it is lost, nodes only stay a little longer.
type memory struct {
	// busy is when a batch pod was last pending.
	busy time.Time
	// spared holds the back-off of nodes that could not be emptied.
	spared map[string]spared
	// decision is the last one.
	decision *v1alpha1.ConsolidationStatus
	// reported is when each Event was last created.
	reported map[reported]time.Time
	// next is when the next consolidation plan is due, and improves the next decision about
	// single pods.
	next, improves time.Time
	// unpriced is why the tariff is unusable, as last reported.
	unpriced string
}

// reported is an Event on a node or a pod.
type reported struct{ object, reason string }

type spared struct {
	until time.Time
	times int
	why   string
}

// everything is the only request: a round is about all nodes.
var everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "nodes"}}

// settling is how long events are collected before a round.
const settling = 200 * time.Millisecond

// New returns a Mover. The configuration must be valid.
func New(m Mover) (*Mover, error) {
	if err := m.Config.Validate(); err != nil {
		return nil, err
	}
	var err error
	if m.selector, err = labels.Parse(m.Config.NodeSelector); err != nil {
		return nil, fmt.Errorf("--consolidation-node-selector: %w", err)
	}
	m.learned, m.facts, m.planner = runtimes.NewLearner(), &world.Facts{}, moves.NewPlanner(m.Config.planner())
	m.tariff = openTariff(m.Config.Energy.Tariff)
	m.memory = memory{busy: m.Clock.Now(), spared: map[string]spared{}, reported: map[reported]time.Time{}}
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
	for _, kind := range kinds { // rounds read these kinds from the cache
		if _, err := manager.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("set up the mover: cache %T: %w", kind, err)
		}
	}
	err := ctrl.NewControllerManagedBy(manager).Named("mover").
		Watches(&corev1.Node{}, soon(), builder.WithPredicates(nodeMatters())).
		Watches(&corev1.Pod{}, soon(), builder.WithPredicates(m.podMatters())).
		Watches(&v1alpha1.Migration{}, soon(), builder.WithPredicates(migrationEnds())).
		Watches(&corev1.ConfigMap{}, soon()). // of the pause switch
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(m)
	if err != nil {
		return fmt.Errorf("set up the mover: %w", err)
	}
	return nil
}

// soon starts a round after settling.
func soon() handler.EventHandler { return operator.Settled(everything, settling) }

func nodeMatters() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return world.AvailabilityChanged(e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node))
		},
	}
}

// podMatters selects pods that have just become unschedulable. It also learns runtimes from
// finished pods, even before the mover has started.
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

// Reconcile implements reconcile.Reconciler. It runs one round.
func (m *Mover) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	r, err := m.observe(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.run(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: max(r.again, settling)}, nil
}
