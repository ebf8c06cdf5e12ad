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
	resultPod      = "pod"        // the pod has volumes, claims or requests that are not looked into, or tolerates taints
	resultCluster  = "cluster"    // the tightest nodes, as many as are tried, do not take the pod
	resultTie      = "tie"        // soft preferences choose among nodes that fit equally well
	resultPaused   = "paused"     // a proven node was rejected a short while ago
	resultNoFit    = "no_fit"     // no node has room: the full scan says why
	resultRescued  = "rescued"    // the proven node was rejected all the same
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

// RegisterMetrics registers the metrics of the plugin, once however often it is called. New does
// so where the plugin is used.
func RegisterMetrics() {
	register.Do(func() { legacyregistry.MustRegister(attempts) })
}
