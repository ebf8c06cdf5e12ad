package decide

import (
	"cmp"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/moves"
)

// patienceWithLast is for how long a machine may be closed while its last pods end. What
// could have come to it meanwhile is worth more than the moves that are saved by waiting
// (docs/benchmarks.md, eviction against migration).
const patienceWithLast = 20 * time.Second

// MovesConfig says which machines a fleet empties, and how.
func MovesConfig(c *v1alpha1.FleetConsolidation) moves.Config {
	threshold := int32(50)
	if c.ThresholdPercent != nil {
		threshold = *c.ThresholdPercent
	}
	return moves.Config{
		Threshold: float64(threshold) / 100, After: c.After.Duration, QueueEmpty: max(c.QueueEmptyFor.Duration, 1), Method: cluster.Evict,
		EmptyWhileQueued: true, PodResidence: PodResidence(c), Explain: true,
		Worthwhile: true, Margin: moves.DefaultMargin, Horizon: Horizon(c), Patience: patienceWithLast,
	}
}

// Horizon is how long the cluster is taken to stay as it is.
func Horizon(c *v1alpha1.FleetConsolidation) time.Duration {
	return cmp.Or(c.Horizon.Duration, time.Hour)
}

// PodResidence is for how long a pod stays on a machine at least before it is moved.
func PodResidence(c *v1alpha1.FleetConsolidation) time.Duration {
	if c.PodResidence != nil {
		return c.PodResidence.Duration
	}
	return Residence(c)
}

// Residence is for how long a machine stays at least before it is exchanged for others.
func Residence(c *v1alpha1.FleetConsolidation) time.Duration {
	return cmp.Or(c.After.Duration, leastResidence)
}

// leastResidence keeps pods from being moved again and again where empty machines go at once.
const leastResidence = 5 * time.Minute
