package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/world"
)

// round is one round of one fleet.
type round struct {
	*Reconciler
	fleet  *v1alpha1.NodeFleet
	before *v1alpha1.NodeFleetStatus // as on the API server
	world  *world.World
	now    time.Time
	memory *memory
	pace   *pace
	paused bool                     // the cluster is
	podsOn map[string][]*corev1.Pod // see podsOf
	rows   map[string]int           // the last index of a flavor's status, by flavor name

	provider provider.Provider
	listed   *Prices
	self     *stock
	seen     *observation
	plainly  *fleetdecide.Observation // the input of the decision
	actions  fleetdecide.Actions
	// emptying evicts or migrates pods. leaving are the pods on drained nodes, by node.
	emptying *drain.Emptying
	leaving  map[string][]leaver
	// failure is the reason of the first failed operation, and failures are the messages of all. They are retried.
	failure  string
	failures []string
	// fresh are the pods that arrived since the last purchase decision. gathered is the time at which their gathering
	// ends; zero if there are none.
	fresh    map[string]bool
	gathered time.Time
	least    int64         // lower bound of the price of machines for all pods
	again    time.Duration // when the next round is due
}

// waiting is why a fleet is not scaled for now; it becomes the fleet's Ready condition.
type waiting struct{ reason, message string }

// Error returns the message.
func (w *waiting) Error() string { return w.message }

// run does one round. Permanent problems of the fleet become conditions; an error is one that a retry may solve.
func (r *round) run(ctx context.Context, fleets []v1alpha1.NodeFleet) error {
	r.again = r.fleet.Spec.Scaling.Interval.Duration
	r.fleet.Status.ObservedGeneration = r.fleet.Generation
	if err := r.heed(ctx); err != nil {
		return err
	}
	err := r.steps(ctx, fleets)
	if refused := (*provider.Refused)(nil); errors.As(err, &refused) {
		r.condition(v1alpha1.FleetDegraded, true, refused.Reason, refused.Message)
		err = &waiting{refused.Reason, refused.Message}
	}
	var w *waiting
	switch {
	case err == nil:
		r.condition(v1alpha1.FleetReady, true, "Reconciled", r.summary())
	case errors.Is(err, errPending):
		return nil // the answer starts the next round
	case errors.Is(err, errOutdated):
		r.again = settling
		return nil
	case errors.As(err, &w):
		r.condition(v1alpha1.FleetReady, false, w.reason, w.message)
		r.tell(corev1.EventTypeWarning, w.reason, "Hold", w.message)
		return nil
	case errors.Is(err, provider.ErrChanged):
		r.condition(v1alpha1.FleetReady, true, "Retrying", err.Error())
		r.again = settling
		r.pace.changed()
		return nil
	default:
		r.condition(v1alpha1.FleetReady, false, "Failed", err.Error())
	}
	return err
}

// heed makes the round only report its decisions while the cluster is paused.
func (r *round) heed(ctx context.Context) (err error) {
	r.paused, err = r.Pause.Heed(ctx, &r.fleet.Status.Conditions, r.fleet.Generation, r.now, r.memory.said, r.tell)
	return err
}

func (r *round) steps(ctx context.Context, fleets []v1alpha1.NodeFleet) error {
	defer r.letGo()
	if err := templatesTaken(r.fleet, fleets); err != nil {
		return err
	}
	others, err := r.look(ctx, fleets)
	if err != nil {
		return err
	}
	if err := r.choose(others); err != nil {
		return err
	}
	err = r.act(ctx)
	return cmp.Or(err, r.clean(ctx))
}

// templatesTaken refuses a fleet that shares a template with an older fleet: both would buy for the same pods, and only
// the owner may change the template. fleets are ordered by seniority.
func templatesTaken(fleet *v1alpha1.NodeFleet, fleets []v1alpha1.NodeFleet) error {
	own := templatesOf(fleet)
	for i := range fleets {
		f := &fleets[i]
		if f.Name == fleet.Name {
			return nil
		}
		for template := range templatesOf(f) {
			if own[template] {
				return &provider.Refused{Reason: "TemplateInUse", Message: fmt.Sprintf(
					"spec.clusterAPI.templates: MachineDeployment %s is already a template of NodeFleet %s: create another for this fleet", template, f.Name)}
			}
		}
	}
	return nil
}

// templatesOf returns the MachineDeployments that a fleet copies.
func templatesOf(fleet *v1alpha1.NodeFleet) map[types.NamespacedName]bool {
	found := map[types.NamespacedName]bool{}
	if from := fleet.Spec.ClusterAPI; from != nil && fleet.Spec.Provider != v1alpha1.FleetOpenStack {
		for i := range from.Templates {
			found[types.NamespacedName{Namespace: from.Namespace, Name: from.Templates[i].MachineDeployment}] = true
		}
	}
	return found
}

// look reads all input of the round concurrently, and returns the other fleets that may have machines.
func (r *round) look(ctx context.Context, fleets []v1alpha1.NodeFleet) ([]*v1alpha1.NodeFleet, error) {
	var err error
	if r.world, err = world.Read(ctx, r.Client, r.Migrations); err != nil {
		return nil, err
	}
	own, err := r.NewProvider(r.fleet, r.world.Nodes)
	if err != nil {
		return nil, &waiting{"ProviderRefused", err.Error()}
	}
	var wg sync.WaitGroup
	var beside, unread error
	wg.Go(func() { beside = r.besideClusterAutoscaler(ctx) })
	wg.Go(func() { r.listed, unread = ReadPrices(ctx, r.Live, &r.fleet.Spec.Pricing) })
	all := make([]*v1alpha1.NodeFleet, 0, len(fleets))
	for i := range fleets {
		f := &fleets[i]
		if f.Name == r.fleet.Name {
			all = append(all, r.fleet)
			continue
		}
		p, err := r.NewProvider(f, r.world.Nodes)
		if err != nil {
			continue // it can have no machines
		}
		all = append(all, f)
		wg.Go(func() {
			_, _, _ = r.inventory(ctx, f, p) // see choose: the last answer counts
		})
	}
	inventory, p, unknown := r.inventory(ctx, r.fleet, own)
	wg.Wait()
	switch {
	case beside != nil:
		return nil, beside
	case unread != nil:
		return nil, r.unpriced(unread)
	case unknown != nil:
		return nil, unknown
	case ctx.Err() != nil:
		return nil, fmt.Errorf("list the machines of all fleets: %w", ctx.Err())
	}
	r.provider, r.self = p, stockOf(r.fleet, inventory)
	return all, nil
}

// unpriced suspends the fleet because its prices cannot be read.
func (r *round) unpriced(err error) error {
	if refused := (*provider.Refused)(nil); errors.As(err, &refused) {
		r.condition(v1alpha1.FleetPriced, false, refused.Reason, refused.Message)
		return &waiting{refused.Reason, refused.Message}
	}
	return err
}

// errOutdated is returned if the round's observation is too old to decide on.
var errOutdated = errors.New("the observation is outdated because other fleets took long to decide: the fleet observes again")

// choose decides what to do. Only one fleet decides at a time, and the next one knows what this one is about to order.
func (r *round) choose(fleets []*v1alpha1.NodeFleet) error {
	const most = time.Second
	began := r.Clock.Now()
	r.deciding.Lock()
	defer r.deciding.Unlock()
	if r.Clock.Since(began) > most && !r.pace.followed {
		r.pace.changed()
		return errOutdated
	}
	all, err := r.takeStock(fleets)
	if err != nil {
		return err
	}
	without := withoutPrices(r.self.inventory.Flavors, r.self.prices)
	r.arrivals.prune(r.world.Pods, r.now)
	r.seen = observe(r.world, all, r.self, r.lag, r.learned, r.now)
	r.plainly = r.plain()
	r.count()
	if err := r.priced(without); err != nil {
		return err
	}
	r.decide()
	for _, o := range r.actions.Orders {
		if r.mayAct() {
			r.ordered(o.Flavor, o.To)
		}
	}
	return nil
}

// priced sets the condition about prices, and suspends a fleet none of whose flavors has a price. without names the
// flavors without one.
func (r *round) priced(without string) error {
	if without == "" {
		r.condition(v1alpha1.FleetPriced, true, "PricesKnown", "every flavor has a price")
		return nil
	}
	r.condition(v1alpha1.FleetPriced, false, "PriceUnknown", without)
	for _, p := range r.self.prices {
		if p.known {
			r.tell(corev1.EventTypeWarning, "PriceUnknown", "Buy", without)
			return nil
		}
	}
	return &waiting{"PriceUnknown", without}
}

// clean removes leftovers of the provider. That is not urgent.
func (r *round) clean(ctx context.Context) error {
	c, ok := r.provider.(provider.Cleaner)
	if !ok || !r.mayAct() || r.pressed() {
		return nil
	}
	if err := r.asking(ctx, c.Clean); err != nil {
		return fmt.Errorf("remove leftovers: %w", err)
	}
	return nil
}

// lastUpdated is the format in which cluster-autoscaler writes the time of its status.
const lastUpdated = "2006-01-02 15:04:05.999999999 -0700 MST"

// besideClusterAutoscaler suspends the fleet while a cluster-autoscaler runs in the cluster: both would respond to the
// same pods.
func (r *round) besideClusterAutoscaler(ctx context.Context) error {
	const alive = 10 * time.Minute
	var status corev1.ConfigMap
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, &status)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("check for a cluster-autoscaler: %w", err)
	}
	text := status.Annotations["cluster-autoscaler.kubernetes.io/last-updated"]
	if at, err := time.Parse(lastUpdated, text); err != nil || r.now.Sub(at) > alive {
		return nil // it no longer runs
	}
	return &waiting{"ClusterAutoscalerRuns", "a cluster-autoscaler runs in this cluster (ConfigMap kube-system/cluster-autoscaler-status was written at " +
		text + "): stop it so that the fleet can take over"}
}

// takeStock collects the last known machines of all fleets, and the prices of this one's flavors.
func (r *round) takeStock(fleets []*v1alpha1.NodeFleet) ([]*stock, error) {
	var all []*stock
	claimed := map[string]string{}
	for _, f := range fleets {
		s := r.self
		if f.Name != r.fleet.Name {
			if s = stockOf(f, r.told(f.UID)); s.inventory == nil {
				continue // its machines are unknown: their nodes are left alone
			}
		}
		limitToSeen(f, s.inventory)
		disclaim(s, claimed)
		if s == r.self {
			s.prices = pricesOf(s.inventory.Flavors, r.listed)
		}
		all = append(all, s)
	}
	if len(r.self.inventory.Flavors) == 0 {
		return nil, &waiting{"NoFlavors", noFlavors(&r.fleet.Spec)}
	}
	return all, nil
}

func stockOf(f *v1alpha1.NodeFleet, inventory *provider.Inventory) *stock {
	return &stock{fleet: f, class: fleetdecide.ClassOf(f.Spec.Class), inventory: inventory}
}

// noFlavors describes why nothing can be bought.
func noFlavors(spec *v1alpha1.NodeFleetSpec) string {
	if spec.ClusterAPI == nil {
		return "the project has access to no flavor: have flavors created or shared"
	}
	if len(spec.ClusterAPI.Templates) > 0 {
		return "spec.pricing contains no instance type"
	}
	return fmt.Sprintf("no MachineDeployment in namespace %s matches spec.clusterAPI", spec.ClusterAPI.Namespace)
}

// disclaim removes from a fleet the MachineDeployments that an older fleet has. Flavors that are not MachineDeployments
// belong to no fleet.
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

// lag returns the expected start-up time of a machine of a flavor of this fleet.
func (r *round) lag(flavor string) time.Duration {
	return fleetdecide.ExpectedLag(r.status(flavor).Lag, r.fleet.Spec.Scaling.ExpectedLag.Duration)
}

// status returns the status of a flavor, and adds one if there is none.
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

// decide makes the decision of the round.
func (r *round) decide() {
	began := r.Clock.Now()
	r.actions = fleetdecide.Round(r.plainly, r.memory.Memory, r.config(), r.now)
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
