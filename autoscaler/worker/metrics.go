package worker

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/conditions"
)

// Metrics of WorkerPools. The labels namespace and pool identify the pool. flavor is empty for workers without a
// flavor.
var (
	metricTasks     = gauge("tasks", "Tasks of the manager, by state.", "state")
	metricShortage  = gauge("shortage_cores", "Cores that waiting tasks request.")
	metricWorkers   = gauge("workers", "Workers, by state.", "state")
	metricLost      = gauge("workers_lost", "Workers that the manager reports as lost.")
	metricInit      = gauge("init_seconds", "Time from the request for a worker until it connects.", "flavor")
	metricAdded     = counter("workers_added_total", "Workers created.")
	metricDrained   = counter("workers_drained_total", "Workers drained.")
	metricDecisions = counter("decisions_total", "Decisions that change the number of workers, or would in mode Act.", "kind", "mode")
	metricReadings  = counter("readings_total", "Queries of the manager, by whether it answered.", "answered")

	metricConditions = conditions.New("supercargo_workerpool_condition", "1 for each condition in the status, with its status and reason.", names(nil)...)
)

func init() { metrics.Registry.MustRegister(metricConditions) }

const subsystem = "supercargo_workerpool"

func names(labels []string) []string { return append([]string{"namespace", "pool"}, labels...) }

// auto registers the metrics that it makes.
var auto = promauto.With(metrics.Registry)

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return auto.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, names(labels))
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return auto.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, names(labels))
}

// publish sets the gauges of a pool.
func (rc *reconciliation) publish() {
	s, namespace, name := &rc.pool.Status, rc.pool.Namespace, rc.pool.Name
	if rc.decision.Read { // else those of the last reading stay
		metricShortage.WithLabelValues(namespace, name).Set(float64(rc.decision.ShortageMilliCores) / 1000)
		metricTasks.WithLabelValues(namespace, name, "waiting").Set(float64(rc.decision.TasksWaiting))
		metricTasks.WithLabelValues(namespace, name, "running").Set(float64(rc.decision.TasksRunning))
		metricLost.WithLabelValues(namespace, name).Set(float64(rc.decision.WorkersLost))
	}
	metricWorkers.WithLabelValues(namespace, name, "connected").Set(float64(s.Workers.Connected))
	metricWorkers.WithLabelValues(namespace, name, "starting").Set(float64(s.Workers.Starting))
	metricWorkers.WithLabelValues(namespace, name, "draining").Set(float64(s.Workers.Draining))
	for i := range s.InitTimes {
		metricInit.WithLabelValues(namespace, name, s.InitTimes[i].Flavor).Set(s.InitTimes[i].Mean.Seconds())
	}
}

// count counts a query of the manager.
func count(pool *v1alpha1.WorkerPool, answered bool) {
	text := "no"
	if answered {
		text = "yes"
	}
	metricReadings.WithLabelValues(pool.Namespace, pool.Name, text).Inc()
}

// forgetMetrics deletes the metrics of a deleted pool.
func forgetMetrics(namespace, pool string) {
	metricConditions.Forget(namespace, pool)
	for _, v := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{metricTasks, metricShortage, metricWorkers, metricLost, metricInit, metricAdded, metricDrained, metricDecisions, metricReadings} {
		v.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "pool": pool})
	}
}
