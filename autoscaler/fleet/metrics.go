package fleet

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/conditions"
)

// Metrics of NodeFleets. fleet is the name of a NodeFleet, flavor that of a MachineDeployment.
var (
	metricMachines        = gauge("machines", "Machines, including those in flight.", "fleet", "flavor")
	metricInFlight        = gauge("machines_in_flight", "Machines without a ready node.", "fleet")
	metricPendingPods     = gauge("pending_pods", "Pending pods.", "fleet")
	metricDollarsPerHour  = gauge("dollars_per_hour", "Total price of all machines, in dollars per hour.", "fleet")
	metricBoundPerHour    = gauge("lower_bound_dollars_per_hour", "Lower bound on the price of machines for all pods, in dollars per hour, at the last decision or at most ten minutes ago.", "fleet")
	metricOrdered         = counter("machines_ordered_total", "Machines ordered.", "fleet", "flavor")
	metricReleased        = counter("machines_released_total", "Machines deleted.", "fleet", "flavor")
	metricGaveUp          = counter("machines_abandoned_total", "Machines abandoned because their node did not become ready in time.", "fleet", "flavor")
	metricEvictions       = counter("evictions_total", "Pods evicted to drain machines.", "fleet")
	metricMigrations      = counter("migrations_total", "Pods migrated with their state to drain machines.", "fleet")
	metricDecisions       = counter("decisions_total", "Decisions that change machines, or would in mode Act.", "fleet", "kind", "mode")
	metricPlanningSeconds = histogram("planning_seconds", "Time to make a decision.", prometheus.ExponentialBuckets(0.001, 2, 16), "fleet")

	metricOrderSeconds = histogram("order_seconds", "Time from the end of batching until machines for the pods are ordered.",
		prometheus.ExponentialBuckets(0.005, 1.5, 22), "fleet")

	metricAcquisitionSeconds = histogram("acquisition_seconds", "Time from the order of a machine until its node is ready.",
		prometheus.ExponentialBuckets(1, 1.6, 16), "fleet", "flavor")

	metricConditions = conditions.New("supercargo_nodefleet_condition", "1 for each condition in the status, with its status and reason.", "fleet")
)

func init() { metrics.Registry.MustRegister(metricConditions) }

const subsystem = "supercargo_nodefleet"

// auto registers the metrics that it creates.
var auto = promauto.With(metrics.Registry)

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return auto.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return auto.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return auto.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
}

// publish sets the gauges of a fleet. paid is the price of its machines, in micro-dollars per hour.
func publish(fleet *v1alpha1.NodeFleet, paid int64) {
	for _, f := range fleet.Status.Flavors {
		metricMachines.WithLabelValues(fleet.Name, f.Name).Set(float64(f.Machines))
	}
	metricInFlight.WithLabelValues(fleet.Name).Set(float64(fleet.Status.InFlight))
	metricPendingPods.WithLabelValues(fleet.Name).Set(float64(fleet.Status.PendingPods))
	metricDollarsPerHour.WithLabelValues(fleet.Name).Set(float64(paid) / 1e6)
}

// forget drops the metrics of a fleet that no longer exists.
func forget(fleet string) {
	metricConditions.Forget(fleet)
	for _, v := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{metricMachines, metricInFlight, metricPendingPods, metricDollarsPerHour, metricBoundPerHour, metricOrdered, metricReleased, metricGaveUp, metricEvictions, metricMigrations, metricDecisions, metricPlanningSeconds, metricOrderSeconds, metricAcquisitionSeconds} {
		v.DeletePartialMatch(prometheus.Labels{"fleet": fleet})
	}
}
