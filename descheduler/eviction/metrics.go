package eviction

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/descheduler/eviction/decide"
)

// subsystem begins the names of all metrics of evictions.
const subsystem = "supercargo_eviction"

// Metrics of evictions.
var (
	metricAnswers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "answers_total", Help: "Evictions that were answered, by how, and whether they were dry runs.",
	}, []string{"outcome", "dry_run"})
	metricSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: subsystem, Name: "answer_seconds", Help: "Time to answer an eviction.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 13),
	})
	metricErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "errors_total", Help: "Evictions that were not answered: the failurePolicy of the webhook says what became of them.",
	})
	metricUnserved = prometheus.NewGauge(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "webhook_unserved", Help: "1 while the webhook is installed and this descheduler was told not to serve it.",
	})
)

func init() {
	metrics.Registry.MustRegister(metricAnswers, metricSeconds, metricErrors, metricUnserved)
}

func count(a decide.Answer, dryRun bool, took time.Duration) {
	metricAnswers.WithLabelValues(string(a.Outcome), strconv.FormatBool(dryRun)).Inc()
	metricSeconds.Observe(took.Seconds())
}
