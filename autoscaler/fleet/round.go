package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/world"
)

// round is one look at one fleet.
type round struct {
	*Reconciler
	fleet  *v1alpha1.NodeFleet
	before *v1alpha1.NodeFleetStatus // as the API server has it
	world  *world.World
	now    time.Time
	memory *memory
	podsOn map[string][]*corev1.Pod // see podsOf
	rows   map[string]int           // where the status of a flavor was last found, by its name

	provider provider.Provider
	self     *stock
	seen     *observation
	plainly  *decide.Observation // what the round decides on
	actions  decide.Actions
	// emptying has pods leave, and leaving are those on nodes that are drained, by node.
	emptying *drain.Emptying
	leaving  map[string][]leaver
	// failures are what went wrong and is tried again.
	failures []string
	least    int64         // what machines for all pods must cost at least
	again    time.Duration // when the next round is due
}

// waiting says why a fleet is left alone for now; it becomes its Ready condition.
type waiting struct{ reason, message string }

func (w *waiting) Error() string { return w.message }

// run does one round. What keeps the fleet from being looked after is in its
// conditions; an error is what the next try may not meet.
func (r *round) run(ctx context.Context, fleets []v1alpha1.NodeFleet) error {
	r.again = r.fleet.Spec.Scaling.Interval.Duration
	r.fleet.Status.ObservedGeneration = r.fleet.Generation
	err := r.steps(ctx, fleets)
	if refused := (*provider.Refused)(nil); errors.As(err, &refused) {
		r.condition(v1alpha1.FleetDegraded, true, refused.Reason, refused.Message)
		err = &waiting{refused.Reason, refused.Message}
	}
	var w *waiting
	switch {
	case err == nil:
		r.condition(v1alpha1.FleetReady, true, "LookedAfter", r.summary())
	case errors.Is(err, errPending):
		return nil // the answer starts the next round
	case errors.As(err, &w):
		r.condition(v1alpha1.FleetReady, false, w.reason, w.message)
		r.tell(corev1.EventTypeWarning, w.reason, "Hold", w.message)
		return nil
	case errors.Is(err, provider.ErrChanged):
		r.condition(v1alpha1.FleetReady, true, "DecidesAnew", err.Error())
		r.again = settling
		return nil
	default:
		r.condition(v1alpha1.FleetReady, false, "Failed", err.Error())
	}
	return err
}

func (r *round) steps(ctx context.Context, fleets []v1alpha1.NodeFleet) error {
	if err := r.besideClusterAutoscaler(ctx); err != nil {
		return err
	}
	all, err := r.takeStock(ctx, fleets)
	if err != nil {
		return err
	}
	r.seen = observe(r.world, all, r.self, r.lag, r.learned, r.now)
	r.plainly = r.plain()
	r.count()
	if err := errUnpriced(r.self.inventory.Flavors, r.self.prices); err != nil {
		r.condition(v1alpha1.FleetPriced, false, "PriceUnknown", err.Error())
		return &waiting{"PriceUnknown", err.Error()}
	}
	r.condition(v1alpha1.FleetPriced, true, "PricesKnown", "every flavor has a price")
	if err := r.clean(ctx); err != nil {
		return err
	}
	r.decide()
	return r.act(ctx)
}

// clean has removed what was left behind.
func (r *round) clean(ctx context.Context) error {
	c, ok := r.provider.(provider.Cleaner)
	if !ok || !r.mayAct() {
		return nil
	}
	if err := r.asking(ctx, c.Clean); err != nil {
		return fmt.Errorf("remove what was left behind: %w", err)
	}
	return nil
}

// lastUpdated is how cluster-autoscaler writes the time of its status.
const lastUpdated = "2006-01-02 15:04:05.999999999 -0700 MST"

// besideClusterAutoscaler holds while a cluster-autoscaler runs in the cluster: both
// would answer to the same pods.
func (r *round) besideClusterAutoscaler(ctx context.Context) error {
	const alive = 10 * time.Minute
	var status corev1.ConfigMap
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, &status)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("look for a cluster-autoscaler: %w", err)
	}
	text := status.Annotations["cluster-autoscaler.kubernetes.io/last-updated"]
	if at, err := time.Parse(lastUpdated, text); err != nil || r.now.Sub(at) > alive {
		return nil // it has gone
	}
	return &waiting{"ClusterAutoscalerRuns", "a cluster-autoscaler runs in this cluster (ConfigMap kube-system/cluster-autoscaler-status was written at " +
		text + "); stop it, and the fleet takes over"}
}

// takeStock reads the machines of all fleets and the prices of this one's.
func (r *round) takeStock(ctx context.Context, fleets []v1alpha1.NodeFleet) ([]*stock, error) {
	var all []*stock
	claimed := map[string]string{}
	for i := range fleets {
		f := &fleets[i]
		p, err := r.NewProvider(f, r.world.Nodes)
		if err != nil {
			if f.Name == r.fleet.Name {
				return nil, &waiting{"ProviderRefused", err.Error()}
			}
			continue // it can have no machines
		}
		inventory, p, err := r.inventory(ctx, f, p)
		if err != nil {
			return nil, err
		}
		if inventory == nil {
			continue // its machines are not known: their nodes are left as they are
		}
		s := &stock{fleet: f, class: decide.ClassOf(f.Spec.Class), inventory: inventory}
		believe(f, inventory)
		disclaim(s, claimed)
		if f.Name == r.fleet.Name {
			r.provider, r.self = p, s
			if err := r.readPrices(ctx); err != nil {
				return nil, err
			}
		}
		all = append(all, s)
	}
	if len(r.self.inventory.Flavors) == 0 {
		return nil, &waiting{"NoFlavors", noFlavors(&r.fleet.Spec)}
	}
	return all, nil
}

// noFlavors says why nothing can be bought.
func noFlavors(spec *v1alpha1.NodeFleetSpec) string {
	if spec.ClusterAPI == nil {
		return "the project sees no flavor: have some made or shared"
	}
	return fmt.Sprintf("no MachineDeployment in namespace %s matches spec.clusterAPI", spec.ClusterAPI.Namespace)
}

func (r *round) readPrices(ctx context.Context) error {
	catalogue, err := readCatalogue(ctx, r.Live, r.fleet.Spec.Pricing.Catalogue)
	if err != nil {
		r.condition(v1alpha1.FleetPriced, false, "CatalogueUnreadable", err.Error())
		return &waiting{"CatalogueUnreadable", err.Error()}
	}
	r.self.prices = pricesOf(r.self.inventory.Flavors, catalogue)
	return nil
}

// disclaim takes from a fleet the MachineDeployments that one before it has. Flavors that
// anybody may buy belong to no fleet.
func disclaim(s *stock, claimed map[string]string) {
	if s.fleet.Spec.ClusterAPI == nil {
		return
	}
	theirs := map[string]bool{}
	flavors := s.inventory.Flavors
	for i := range flavors {
		key := s.fleet.Spec.ClusterAPI.Namespace + "/" + flavors[i].Name
		if owner, ok := claimed[key]; ok {
			flavors[i] = provider.Flavor{Name: flavors[i].Name, Problem: fmt.Sprintf("it belongs to NodeFleet %s", owner)}
			theirs[flavors[i].Name] = true
		} else {
			claimed[key] = s.fleet.Name
		}
	}
	s.inventory.Machines = slices.DeleteFunc(s.inventory.Machines, func(m provider.Machine) bool { return theirs[m.Flavor] })
}

// lag is how long a machine of a flavor of this fleet is expected to take.
func (r *round) lag(flavor string) time.Duration {
	return decide.ExpectedLag(r.status(flavor).Lag, r.fleet.Spec.Scaling.ExpectedLag.Duration)
}

// status returns the status of a flavor, which it makes if there is none.
func (r *round) status(flavor string) *v1alpha1.FlavorStatus {
	all := &r.fleet.Status.Flavors
	if at, ok := r.rows[flavor]; ok && at < len(*all) && (*all)[at].Name == flavor {
		return &(*all)[at]
	}
	at := slices.IndexFunc(*all, func(f v1alpha1.FlavorStatus) bool { return f.Name == flavor })
	if at < 0 {
		at = len(*all)
		*all = append(*all, v1alpha1.FlavorStatus{Name: flavor})
	}
	if r.rows == nil {
		r.rows = map[string]int{}
	}
	r.rows[flavor] = at
	return &(*all)[at]
}

// decide asks what to do.
func (r *round) decide() {
	began := r.Clock.Now()
	r.actions = decide.Round(r.plainly, r.memory.Memory, r.config(), r.now)
	metricPlanningSeconds.WithLabelValues(r.fleet.Name).Observe(r.Clock.Since(began).Seconds())
}

func (r *round) wakeIn(d time.Duration) { r.again = max(min(r.again, d), settling) }

func (r *round) info(ctx context.Context, message string, pairs ...any) {
	log.FromContext(ctx).Info(message, pairs...)
}

func (r *round) flavor(name string) *provider.Flavor {
	flavors := r.self.inventory.Flavors
	at := slices.IndexFunc(flavors, func(f provider.Flavor) bool { return f.Name == name })
	if at < 0 {
		return nil
	}
	return &flavors[at]
}
