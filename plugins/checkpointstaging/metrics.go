package checkpointstaging

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"supercargo.dev/supercargo/plugins/checkpointstaging/stagingdecide"
)

var holds = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Namespace: "supercargo",
	Subsystem: "scheduler",
	Name:      "checkpoint_hold_seconds",
	Help: "Time for which new pods of migrations were held on their reserved nodes, by result: " +
		"Bind, the reason to release the reservation, or Error.",
	Buckets:        metrics.ExponentialBuckets(0.1, 2, 14), // 0.1 s to 14 min
	StabilityLevel: metrics.ALPHA,
}, []string{"result"})

var register sync.Once

// RegisterMetrics registers the metrics of the plugin. It may be called repeatedly. New calls it.
func RegisterMetrics() {
	register.Do(func() { legacyregistry.MustRegister(holds) })
}

func observeHold(outcome stagingdecide.Next, err error, took time.Duration) {
	result := cmp.Or(outcome.Reason, string(outcome.Step))
	if err != nil {
		result = "Error"
	}
	holds.WithLabelValues(result).Observe(took.Seconds())
}
