package narrowing

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Results of the supercargo_scheduler_narrowing_total metric.
const (
	resultNarrowed = "narrowed"   // one proven node was handed on
	resultProfile  = "profile"    // the profile, or an extender, rules narrowing out
	resultPod      = "pod"        // the pod has constraints that the index does not know
	resultCluster  = "cluster"    // pods with required anti-affinity, or nominated ones with constraints, are about
	resultNoFit    = "no_fit"     // no node has room: the full scan says why
	resultRescued  = "rescued"    // the proven node was rejected all the same
	resultScanAll  = "scan_again" // the attempt after a rescue
)

var attempts = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "supercargo",
	Subsystem:      "scheduler",
	Name:           "narrowing_total",
	Help:           "Scheduling attempts by packing plugin and by whether they were narrowed to one proven node, or why not.",
	StabilityLevel: metrics.ALPHA,
}, []string{"plugin", "result"})

var register sync.Once

func registerMetrics() {
	register.Do(func() { legacyregistry.MustRegister(attempts) })
}
