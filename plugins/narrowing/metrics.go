package narrowing

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Results of the supercargo_scheduler_narrowing_total metric.
const (
	resultNarrowed = "narrowed"   // narrowed to one proven node
	resultProfile  = "profile"    // the profile or an extender prevents narrowing
	resultPod      = "pod"        // the pod has volumes, claims or requests that are not supported, or tolerates taints
	resultCluster  = "cluster"    // the tightest nodes, up to the limit, do not fit the pod
	resultTie      = "tie"        // soft preferences choose among nodes that fit equally well
	resultPaused   = "paused"     // a proven node was rejected recently
	resultNoFit    = "no_fit"     // no node has room: the full scan reports why
	resultRescued  = "rescued"    // the proven node was rejected after all
	resultScanAll  = "scan_again" // the attempt after a rescue
)

var attempts = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "supercargo",
	Subsystem:      "scheduler",
	Name:           "narrowing_total",
	Help:           "Scheduling attempts, by packing plugin and by whether they were narrowed to one node, or the reason why not.",
	StabilityLevel: metrics.ALPHA,
}, []string{"plugin", "result"})

var register sync.Once

// RegisterMetrics registers the metrics of the package. It may be called repeatedly. New calls it.
func RegisterMetrics() {
	register.Do(func() { legacyregistry.MustRegister(attempts) })
}
