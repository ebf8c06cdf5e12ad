package fleetdecide

import (
	"cmp"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/disruption"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/moves"
)

// MaxFlavors is the maximum number of flavors whose orders and releases the status of a fleet lists.
const MaxFlavors = 1000

// Config is what a fleet may do.
type Config struct {
	// Act allows changes of machines. Without it, late machines are awaited indefinitely, and nodes that are being
	// drained are uncordoned.
	Act bool
	// SkipDrains leaves nodes that are being drained unchanged.
	SkipDrains bool
	// Retire releases all machines, regardless of their pods and minimums: the fleet is being deleted. Nothing is bought.
	Retire bool
	// Class is the class of pods that the machines accept.
	Class class.Class
	// Limits bound the sum of all machines.
	Limits cluster.Limits
	// MaxUnavailable is the maximum number of machines that are drained or released at a time: a number, or a
	// percentage of the machines, rounded up. An invalid value allows none.
	MaxUnavailable intstr.IntOrString
	// Budgets limit that number further for some reasons or at some times.
	Budgets []disruption.Budget
	// Replace says which machines are replaced regardless of what that costs.
	Replace disruption.Policy
	// MaxFlavors is the maximum number of flavors of which machines are ordered in one round, and also of those of
	// which machines are released; 0 means no maximum.
	MaxFlavors int

	// Interval is the time between two rounds when nothing happens.
	Interval time.Duration
	// BillingPeriod is the unit of billing. Every started period is billed in full.
	BillingPeriod time.Duration
	// ExpectedLag is the expected start-up time of a flavor for which none has been learned.
	ExpectedLag time.Duration
	// BackOff is how long a flavor is not ordered after one of its machines did not come. It doubles with each failure
	// in a row, up to sixteen times.
	BackOff time.Duration
	// MaxWait is how much longer than the start-up time of a machine a pod may wait for room that becomes free, if that
	// is cheaper.
	MaxWait time.Duration

	// UnderUsedBelow is the utilisation, from 0 to 1, below which a machine is under-used, UnderUsedFor how long it must
	// have been, and QueueEmptyFor how long no batch pod may have been pending before it is drained.
	UnderUsedBelow              float64
	UnderUsedFor, QueueEmptyFor time.Duration
	// Empty and UnderUsed allow the release of empty machines and the drain of under-used ones.
	Empty, UnderUsed bool
	// MoveServices allows services to be moved like other pods.
	MoveServices bool
	// Horizon is how long the cluster is assumed to stay unchanged.
	Horizon time.Duration
	// Residence is the minimum time that a machine stays before it is exchanged, PodResidence the minimum time that a
	// pod stays on its machine before it is moved.
	Residence, PodResidence time.Duration
	// DrainTimeout is how long pods may take to leave a node beyond the expected time.
	DrainTimeout time.Duration
	// ReleaseDelay is how long a node must have been cordoned before it counts as empty: by then, a pod that the
	// scheduler was binding at the time of the cordon is visible.
	ReleaseDelay time.Duration

	// Stop is polled; once it returns true, the best plan so far is used. nil never stops.
	Stop func() bool
}

// ConfigOf returns the Config of a spec: nothing below it knows the kinds of the API. The caller decides whether the fleet acts at all: Act, SkipDrains and Stop are
// not set.
func ConfigOf(spec *v1alpha1.NodeFleetSpec) Config {
	c := &spec.Consolidation
	return Config{
		Budgets: disruption.Parse(c.Budgets), Replace: disruption.PolicyOf(c),
		Class: ClassOf(spec.Class), Limits: limitsOf(&spec.Limits), MaxUnavailable: intstr.Parse(c.MaxUnavailable), MaxFlavors: MaxFlavors,
		Interval: spec.Scaling.Interval.Duration, BillingPeriod: spec.Pricing.BillingPeriod.Duration,
		ExpectedLag: spec.Scaling.ExpectedLag.Duration, BackOff: spec.Scaling.BackOff.Duration, MaxWait: spec.Scaling.MaxWait.Duration,
		Empty: c.Policy != v1alpha1.ConsolidateNever, UnderUsed: c.Policy == v1alpha1.ConsolidateWhenUnderUsed, MoveServices: movesServices(c),
		UnderUsedBelow: underUsedBelow(c), UnderUsedFor: c.After.Duration, QueueEmptyFor: c.QueueEmptyFor.Duration,
		Horizon: cmp.Or(c.Horizon.Duration, time.Hour), Residence: Residence(c), PodResidence: PodResidence(c), DrainTimeout: c.DrainTimeout.Duration, ReleaseDelay: c.ReleaseDelay.Duration,
	}
}

// ClassOf returns the class of pods that the machines of a fleet accept.
func ClassOf(c v1alpha1.FleetClass) class.Class {
	switch c {
	case v1alpha1.FleetBatch:
		return class.Batch
	case v1alpha1.FleetService:
		return class.Service
	}
	return class.Any
}

// limitsOf returns the limits of a spec. Dollars that cannot be parsed exceed the maximum of [dollars.Parse], so they
// do not limit.
func limitsOf(l *v1alpha1.FleetLimits) cluster.Limits {
	var limits cluster.Limits
	if l.Machines != nil {
		limits.Machines = new(int64(*l.Machines))
	}
	if l.CPU != nil {
		limits.MilliCPU = new(l.CPU.MilliValue())
	}
	if l.Memory != nil {
		limits.MemoryBytes = new(l.Memory.Value())
	}
	if l.DollarsPerHour != nil {
		most, err := dollars.Parse(*l.DollarsPerHour)
		if err != nil {
			most = math.MaxInt64
		}
		limits.MicroDollarsPerHour = &most
	}
	return limits
}

// InterruptionsOf returns how often a spot machine is expected to be interrupted if nothing else is known, in a million
// machine-hours. A value that is not a number above 0 and up to 1, which the API server rejects, counts as the default.
func InterruptionsOf(p *v1alpha1.FleetPricing) int64 {
	n, err := dollars.Parse(p.InterruptionsPerHour)
	if err != nil || n <= 0 || n > capacity.Million {
		return capacity.DefaultInterruptions
	}
	return n
}

// patienceWithLast is how long a machine may be cordoned while its last pods end. Beyond that, the pods that the
// machine could have run meanwhile are worth more than the moves that waiting saves (docs/benchmarks.md, eviction
// against migration).
const patienceWithLast = 20 * time.Second

// Moves returns which machines are drained, and how.
func (c *Config) Moves() moves.DrainConfig {
	return moves.DrainConfig{
		Threshold: c.UnderUsedBelow, After: c.UnderUsedFor, QueueEmpty: max(c.QueueEmptyFor, 1), Method: cluster.Evict,
		MoveServices: c.MoveServices, EmptyWhileQueued: true, PodResidence: c.PodResidence, Explain: true,
		Worthwhile: true, Margin: moves.DefaultMargin, Horizon: c.Horizon, Patience: patienceWithLast,
	}
}

// exchange returns which machines are exchanged for others, and how: at most limit of them, in addition to what is
// planned.
func (c *Config) exchange(limit int, planned cluster.Plan) moves.ExchangeConfig {
	return moves.ExchangeConfig{
		Method: cluster.Evict, MoveServices: c.MoveServices, Residence: c.Residence, PodResidence: c.PodResidence, Horizon: c.Horizon,
		Limit: limit, Patience: patienceWithLast, Planned: planned,
	}
}

// request returns a request for machines of a state, within the limits.
func (c *Config) request(s *cluster.State, pods []purchase.Pod, nodes []purchase.ExistingNode, flavors []cluster.Flavor, options purchase.MixOptions) purchase.Request {
	return purchase.Request{Pods: pods, Nodes: nodes, Flavors: flavors, Zones: machinesByZone(s), Spreads: s.Spreads, Limits: c.Limits, Stop: c.Stop, Options: options}
}

// machinesByZone counts the machines of fleets, the existing and the ordered ones.
func machinesByZone(s *cluster.State) map[string]int {
	counts := map[string]int{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Flavor != "" && n.Host != nil {
			counts[n.Host.Labels[corev1.LabelTopologyZone]]++
		}
	}
	return counts
}

// underUsedBelow returns the utilisation, from 0 to 1, below which a machine is under-used.
func underUsedBelow(c *v1alpha1.FleetConsolidation) float64 {
	if c.ThresholdPercent == nil {
		return 0.5
	}
	return float64(*c.ThresholdPercent) / 100
}

// movesServices reports whether services may be moved at all. The observer decides which ones.
func movesServices(c *v1alpha1.FleetConsolidation) bool {
	return c.EvictServices == v1alpha1.EvictServicesOptIn || c.EvictServices == v1alpha1.EvictServicesOptOut
}

// PodResidence returns the minimum time that a pod stays on a machine before it is moved.
func PodResidence(c *v1alpha1.FleetConsolidation) time.Duration {
	if c.PodResidence != nil {
		return c.PodResidence.Duration
	}
	return Residence(c)
}

// Residence returns the minimum time that a machine stays before it is exchanged for others.
func Residence(c *v1alpha1.FleetConsolidation) time.Duration {
	return cmp.Or(c.After.Duration, leastResidence)
}

// leastResidence keeps pods from being moved repeatedly where empty machines are released at once.
const leastResidence = 5 * time.Minute
