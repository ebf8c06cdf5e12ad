package eviction

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
)

// subsystem is the prefix of the names of all metrics of evictions.
const subsystem = "supercargo_eviction"

// Metrics of evictions.
var (
	metricAnswers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "answers_total", Help: "Answered eviction requests, by outcome and by whether they were dry runs.",
	}, []string{"outcome", "dry_run"})
	metricRefusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "refusals_total", Help: "Reasons for which pods that were to be evicted could not be moved, by reason, by whether it lasts as long as the pod, and by whether the request was a dry run. One request may count several reasons.",
	}, []string{"reason", "lasting", "dry_run"})
	metricSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: subsystem, Name: "answer_seconds", Help: "Time to answer an eviction request.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 13),
	})
	metricErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "errors_total", Help: "Eviction requests that failed; the failurePolicy of the webhook applied to them.",
	})
	metricUnserved = prometheus.NewGauge(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "webhook_unserved", Help: "1 while the webhook is installed and no pod that serves it is ready.",
	})
)

func init() {
	metrics.Registry.MustRegister(metricAnswers, metricRefusals, metricSeconds, metricErrors, metricUnserved)
}

func count(a evictiondecide.Answer, dryRun bool, took time.Duration) {
	metricAnswers.WithLabelValues(string(a.Outcome), strconv.FormatBool(dryRun)).Inc()
	for _, r := range a.Refusals {
		metricRefusals.WithLabelValues(r.Reason, strconv.FormatBool(r.Lasts()), strconv.FormatBool(dryRun)).Inc()
	}
	metricSeconds.Observe(took.Seconds())
}
