package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/decide"
	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/dollars"
	"supercargo.dev/supercargo/internal/moves"
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
	podsOn map[string][]*corev1.Pod // see remains
	rows   map[string]int           // where the status of a flavor was last found, by its name

	provider provider.Provider
	self     *stock
	seen     *observation
	decision decide.FleetDecision
	// drainErrors are what went wrong with nodes that are being emptied, or are to be.
	drainErrors []string
	least       int64         // what machines for all pods must cost at least
	again       time.Duration // when the next round is due
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
	r.count()
	if err := errUnpriced(r.self.inventory.Flavors, r.self.prices); err != nil {
		r.condition(v1alpha1.FleetPriced, false, "PriceUnknown", err.Error())
		return &waiting{"PriceUnknown", err.Error()}
	}
	r.condition(v1alpha1.FleetPriced, true, "PricesKnown", "every flavor has a price")
	if err := r.clean(ctx); err != nil {
		return err
	}
	r.settle(ctx)
	r.learn()
	if acted, err := r.giveUp(ctx); err != nil || acted {
		return err
	}
	if acted, err := r.proceedWithDrains(ctx); err != nil || acted {
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
	if err := c.Clean(ctx); err != nil {
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
		inventory, err := r.inventory(ctx, f, p)
		if err != nil {
			return nil, err
		}
		if inventory == nil {
			continue // its machines are not known: their nodes are left as they are
		}
		s := &stock{fleet: f, class: machineClass(f.Spec.Class), inventory: inventory}
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

func machineClass(c v1alpha1.FleetClass) class.Class {
	switch c {
	case v1alpha1.FleetBatch:
		return class.Batch
	case v1alpha1.FleetService:
		return class.Service
	}
	return class.Any
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
	return expectedLag(r.status(flavor).Lag, r.fleet.Spec.Scaling.ExpectedLag.Duration)
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
	s := &r.seen.state
	s.ScalingInterval = r.fleet.Spec.Scaling.Interval.Duration
	s.SchedulingInterval = s.ScalingInterval
	s.BillingPeriod = r.fleet.Spec.Pricing.BillingPeriod.Duration
	s.Lag = r.longestLag()
	s.Release = closedFor
	s.Migration = cluster.DefaultMigration
	s.Scaling = true
	s.MaxNodes = math.MaxInt32 // limits say how many
	s.QueueEmpty = r.now.Sub(r.memory.busy)
	r.leaveAlone()
	for i := range s.Nodes {
		s.Nodes[i].Kept = s.Nodes[i].Kept || r.memory.kept[s.Nodes[i].Name].until.After(r.now)
	}
	wait := batch(r.now, r.seen.waited, r.fleet.Spec.Scaling.BatchIdle.Duration, r.fleet.Spec.Scaling.BatchMax.Duration)
	if wait > 0 {
		r.wakeIn(wait)
	}
	c := &r.fleet.Spec.Consolidation
	r.nominate()
	limits, quota := r.limits(), r.quota()
	began := time.Now()
	r.decision = decide.Fleet(s, decide.FleetOptions{
		Buy:       wait == 0,
		Limits:    underQuota(limits, quota),
		Exhausted: cmp.Or(exhausted(limits), exhaustedQuota(quota)),
		Class:     r.self.class,
		Horizon:   cmp.Or(c.Horizon.Duration, time.Hour),
		Residence: c.After.Duration, PodResidence: podResidence(c),
		Empty:     c.Policy != v1alpha1.ConsolidateNever,
		UnderUsed: c.Policy == v1alpha1.ConsolidateWhenUnderUsed,
		Budget:    maxUnavailable(c.MaxUnavailable, r.total()) - r.leaving(),
		Spare:     r.spare(),
		Lessons:   r.memory.lessons,
		Stop:      func() bool { return time.Since(began) > planningTime },
	}, r.memory.planner, r.now)
	metricPlanningSeconds.WithLabelValues(r.fleet.Name).Observe(time.Since(began).Seconds())
	if learned := r.decision.Learned; len(learned) > 0 {
		text := learned[0]
		if more := len(learned) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		r.tell(corev1.EventTypeWarning, "MachineDoesNotHoldPod", "Plan", text)
	}
	r.degraded()
	if r.decision.Queued {
		r.memory.busy = r.now
	}
	if r.decision.Wake > 0 {
		r.wakeIn(r.decision.Wake)
	}
}

// planningTime is how long a plan may take before the best so far is taken.
const planningTime = 20 * time.Second

func (r *round) wakeIn(d time.Duration) { r.again = max(min(r.again, d), settling) }

// longestLag is how long machines that can be bought take at most, as far as that is
// known.
func (r *round) longestLag() time.Duration {
	var longest time.Duration
	for _, f := range r.seen.state.Flavors {
		longest = max(longest, r.lag(f.Name))
	}
	return longest
}

// leaveAlone takes away the flavors of which machines did not come lately.
func (r *round) leaveAlone() {
	r.seen.state.Flavors = slices.DeleteFunc(r.seen.state.Flavors, func(f cluster.Flavor) bool {
		until := r.status(f.Name).LeftAloneUntil
		if until == nil || !until.After(r.now) {
			return false
		}
		r.wakeIn(until.Sub(r.now))
		return true
	})
}

func movesConfig(c *v1alpha1.FleetConsolidation) moves.Config {
	threshold := int32(50)
	if c.ThresholdPercent != nil {
		threshold = *c.ThresholdPercent
	}
	return moves.Config{
		Threshold: float64(threshold) / 100, After: c.After.Duration, QueueEmpty: max(c.QueueEmptyFor.Duration, 1), Method: cluster.Evict,
		PodResidence: podResidence(c), Explain: true,
	}
}

// podResidence is for how long a pod stays on a machine at least.
func podResidence(c *v1alpha1.FleetConsolidation) time.Duration {
	if c.PodResidence != nil {
		return c.PodResidence.Duration
	}
	return c.After.Duration
}

// total is how many machines there are or are to be.
func (r *round) total() int {
	sum := 0
	for _, n := range r.seen.ordered {
		sum += n
	}
	return sum
}

// leaving is how many machines are on their way out.
func (r *round) leaving() int {
	n := len(r.draining())
	for _, m := range r.self.inventory.Machines {
		if m.Leaving {
			n++
		}
	}
	return n
}

// maxUnavailable is a number, or a share of the machines, rounded up.
func maxUnavailable(text string, machines int) int {
	var n int
	if share, ok := strings.CutSuffix(text, "%"); ok {
		if _, err := fmt.Sscanf(share, "%d", &n); err != nil {
			return 0
		}
		return (n*machines + 99) / 100
	}
	if _, err := fmt.Sscanf(text, "%d", &n); err != nil {
		return 0
	}
	return n
}

// spare is how many machines of each flavor there are above its least number.
func (r *round) spare() map[string]int {
	spare := map[string]int{}
	for _, f := range r.self.inventory.Flavors {
		spare[f.Name] = r.seen.ordered[f.Name] - f.Min
	}
	for _, name := range r.draining() {
		spare[r.seen.own[name].Flavor]--
	}
	return spare
}

// limits is what the limits of the fleet still allow for. A limit that is reached
// allows for less than any machine has.
func (r *round) limits() planner.Limits {
	var used planner.Limits
	sizes := map[string]*provider.Flavor{}
	for i := range r.self.inventory.Flavors {
		sizes[r.self.inventory.Flavors[i].Name] = &r.self.inventory.Flavors[i]
	}
	for name, n := range r.seen.ordered {
		f := sizes[name]
		used.Machines += n
		used.MilliCPU += int64(n) * f.Size.MilliCPU
		used.MemoryBytes += int64(n) * f.Size.MemoryBytes
		used.MicroDollarsPerHour += int64(n) * r.self.prices[name].microDollars
	}
	limits := r.fleet.Spec.Limits
	var left planner.Limits
	if limits.Machines != nil {
		left.Machines = int(leftOf(int64(*limits.Machines), int64(used.Machines)))
	}
	if limits.CPU != nil {
		left.MilliCPU = leftOf(limits.CPU.MilliValue(), used.MilliCPU)
	}
	if limits.Memory != nil {
		left.MemoryBytes = leftOf(limits.Memory.Value(), used.MemoryBytes)
	}
	if limits.DollarsPerHour != nil {
		most, err := dollars.Parse(*limits.DollarsPerHour)
		if err != nil {
			most = math.MaxInt64 // above what ParsePrice takes for a price
		}
		left.MicroDollarsPerHour = leftOf(most, used.MicroDollarsPerHour)
	}
	return left
}

// exhausted says which limit allows for nothing more, or returns "".
func exhausted(left planner.Limits) string {
	for _, l := range []struct {
		name string
		left int64
	}{
		{"machines", int64(left.Machines)}, {"cpu", left.MilliCPU}, {"memory", left.MemoryBytes}, {"dollarsPerHour", left.MicroDollarsPerHour},
	} {
		if l.left < 0 {
			return "the limit spec.limits." + l.name + " is reached"
		}
	}
	return ""
}

// leftOf is what is left of a limit; none is -1, since 0 stands for no limit.
func leftOf(limit, used int64) int64 {
	if limit <= used {
		return -1
	}
	return limit - used
}

// learn notes how long machines took that have become ready since the last round.
func (r *round) learn() {
	on := map[string]bool{}
	for name, m := range r.seen.own {
		if strings.HasPrefix(name, "machine ") {
			on[m.Name] = true
			continue
		}
		since, is := world.Ready(r.world.Nodes[name])
		if !is || !r.memory.inFlight[m.Name] {
			continue
		}
		took := since.LastTransitionTime.Sub(m.Ordered)
		if taint, starting := r.memory.starting[m.Name]; starting {
			if r.stillTainted(name, m.Flavor, taint) {
				continue // it has not come in time
			}
			took = r.now.Sub(m.Ordered) // it took pods no sooner
		}
		s := r.status(m.Flavor)
		s.Lag, s.Failures, s.LeftAloneUntil = learnLag(s.Lag, took), 0, nil
		metricAcquisitionSeconds.WithLabelValues(r.fleet.Name, m.Flavor).Observe(took.Seconds())
	}
	r.memory.inFlight, r.memory.starting = on, r.seen.starting
	r.memory.forget(r.self.inventory.Machines, r.world.Nodes)
}

// stillTainted reports whether a node has kept a taint for so long that it counts as one that
// machines of its flavor have, and says so. If no pod has come to it all the same, the
// flavor is left alone as one whose machines do not come: when the node has gone, nothing
// shows any more that the next is going to be tainted, too.
func (r *round) stillTainted(node, flavor string, taint corev1.Taint) bool {
	if !world.HasTaint(r.world.Nodes[node].Spec.Taints, &taint) {
		return false
	}
	r.tell(corev1.EventTypeWarning, "TaintRemains", "Wait", fmt.Sprintf(
		"node %s of %s still has taint %s %v after it was ordered, and counts as tainted from now on: see what was to remove it, or state it among the taints of the flavor",
		node, flavor, taint.ToString(), joinTimeout(r.fleet, r.flavor(flavor))))
	isUsed := func(n cluster.Node) bool { return n.Name == node && len(n.Pods) > 0 }
	if !slices.ContainsFunc(r.seen.state.Nodes, isUsed) {
		r.leaveFlavorAlone(flavor)
		r.memory.nominations = nominations{pods: map[string]bool{}}
	}
	return true
}

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
