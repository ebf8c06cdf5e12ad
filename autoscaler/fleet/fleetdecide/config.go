package fleetdecide

import (
	"cmp"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/moves"
)

// MaxFlavors is the maximum number of flavors whose orders and releases the status of a fleet lists.
const MaxFlavors = 1000

// ConfigOf returns the Config of a spec. The caller decides whether the fleet acts at all: Act, SkipDrains and Stop are
// not set.
func ConfigOf(spec *v1alpha1.NodeFleetSpec) Config {
	c := &spec.Consolidation
	return Config{
		Class: ClassOf(spec.Class), Limits: limitsOf(&spec.Limits), MaxUnavailable: intstr.Parse(c.MaxUnavailable), MaxFlavors: MaxFlavors,
		Interval: spec.Scaling.Interval.Duration, BillingPeriod: spec.Pricing.BillingPeriod.Duration,
		ExpectedLag: spec.Scaling.ExpectedLag.Duration, BackOff: spec.Scaling.BackOff.Duration, MaxWait: spec.Scaling.MaxWait.Duration,
		Empty: c.Policy != v1alpha1.ConsolidateNever, UnderUsed: c.Policy == v1alpha1.ConsolidateWhenUnderUsed, MoveServices: movesServices(c),
		Horizon: Horizon(c), Residence: Residence(c), PodResidence: PodResidence(c), DrainTimeout: c.DrainTimeout.Duration, ReleaseDelay: c.ReleaseDelay.Duration,
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

// patienceWithLast is how long a machine may be cordoned while its last pods end. Beyond that, the pods that the
// machine could have run meanwhile are worth more than the moves that waiting saves (docs/benchmarks.md, eviction
// against migration).
const patienceWithLast = 20 * time.Second

// MovesConfig returns which machines a fleet drains, and how.
func MovesConfig(c *v1alpha1.FleetConsolidation) moves.Config {
	threshold := int32(50)
	if c.ThresholdPercent != nil {
		threshold = *c.ThresholdPercent
	}
	return moves.Config{
		Threshold: float64(threshold) / 100, After: c.After.Duration, QueueEmpty: max(c.QueueEmptyFor.Duration, 1), Method: cluster.Evict,
		MoveServices: movesServices(c), EmptyWhileQueued: true, PodResidence: PodResidence(c), Explain: true,
		Worthwhile: true, Margin: moves.DefaultMargin, Horizon: Horizon(c), Patience: patienceWithLast,
	}
}

// movesServices reports whether services may be moved at all. The observer decides which ones.
func movesServices(c *v1alpha1.FleetConsolidation) bool {
	return c.EvictServices == v1alpha1.EvictServicesOptIn || c.EvictServices == v1alpha1.EvictServicesOptOut
}

// Horizon returns how long the cluster is assumed to stay unchanged.
func Horizon(c *v1alpha1.FleetConsolidation) time.Duration {
	return cmp.Or(c.Horizon.Duration, time.Hour)
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
