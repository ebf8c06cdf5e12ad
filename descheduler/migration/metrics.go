package migration

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/migrationdecide"
)

// subsystem is the prefix of the names of all metrics of migrations.
const subsystem = "supercargo_migration"

// Metrics of migrations. The label backend is how the state was taken.
var (
	metricFrozen  = histogram("frozen_seconds", "Time during which no copy of a container ran.", secondsBuckets)
	metricDump    = histogram("dump_seconds", "Time to dump the state of a container.", secondsBuckets)
	metricShip    = histogram("ship_seconds", "Time to ship a checkpoint to its new node.", secondsBuckets)
	metricRestore = histogram("restore_seconds", "Time from the staged checkpoint until the new container runs.", secondsBuckets)
	metricTotal   = histogram("total_seconds", "Time from the start until the old container is dead or continues.", secondsBuckets)
	metricBytes   = histogram("bytes", "Size of checkpoints.", prometheus.ExponentialBuckets(1<<20, 4, 10))

	metricOutcomes = auto.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "outcomes_total", Help: "Finished migrations, by last phase and its reason.",
	}, []string{"phase", "reason"})
	metricInFlight = auto.NewGauge(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "in_flight", Help: "Migrations in progress.",
	})
	metricStuck = auto.NewGauge(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "stuck", Help: "Migrations in progress that wait, without a timeout, for a lost node or a silent agent or kubelet.",
	})
)

// secondsBuckets range from 10 ms to about 11 minutes.
var secondsBuckets = prometheus.ExponentialBuckets(0.01, 2, 17)

func histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	return auto.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, []string{"backend"})
}

// auto registers the metrics that it creates.
var auto = promauto.With(metrics.Registry)

// count records the metrics of a migration that has just ended.
func count(before, after *v1alpha1.MigrationStatus) {
	outcome := migrationdecide.OutcomeOf(before, after)
	if outcome == nil {
		return
	}
	metricOutcomes.WithLabelValues(string(outcome.Phase), outcome.Reason).Inc()
	if after.Plan == nil || after.Measured == nil {
		return
	}
	m, backend := after.Measured, string(after.Plan.Backend)
	for _, took := range []struct {
		metric  *prometheus.HistogramVec
		seconds string
	}{
		{metricFrozen, m.FrozenSeconds}, {metricDump, m.DumpSeconds}, {metricShip, m.ShipSeconds},
		{metricRestore, m.RestoreSeconds}, {metricTotal, m.TotalSeconds},
	} {
		if seconds, err := strconv.ParseFloat(took.seconds, 64); err == nil {
			took.metric.WithLabelValues(backend).Observe(seconds)
		}
	}
	if m.CheckpointBytes > 0 {
		metricBytes.WithLabelValues(backend).Observe(float64(m.CheckpointBytes))
	}
}
