package replica

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/internal/platform/conditions"
)

// Metrics of ReplicaPolicies. The labels namespace and name identify the policy, source the queried source.
var (
	// metricDesired is the metric that HorizontalPodAutoscalers follow. Only policies in mode ViaHPA have it.
	metricDesired = auto.NewGaugeVec(prometheus.GaugeOpts{Name: replicadecide.DesiredMetric,
		Help: "Desired replicas of a ReplicaPolicy in mode ViaHPA."}, policyLabels)

	metricSpec            = gauge("spec_replicas", "Replicas in the spec of the target.")
	metricReady           = gauge("ready_replicas", "Ready pods of the target.")
	metricRate            = gauge("arrival_rate", "Last measured requests per second.")
	metricResponse        = gauge("response_seconds", "Last measured mean response time.")
	metricEvaluations     = counter("evaluations_total", "Evaluations of a law, by their result: decided, held, missing (not measured), conflict.", "namespace", "name", "result")
	metricScalings        = counter("scalings_total", "Changes of the replicas of a target.", "namespace", "name", "direction")
	metricQueryFaults     = counter("query_faults_total", "Queries that failed.", "source")
	metricQuerySeconds    = histogram("query_seconds", "Time to measure the metrics for an evaluation.", prometheus.ExponentialBuckets(0.001, 2, 15), "source")
	metricDecisionSeconds = auto.NewHistogram(prometheus.HistogramOpts{Subsystem: subsystem, Name: "decision_seconds",
		Help: "Time to make a decision.", Buckets: prometheus.ExponentialBuckets(1e-6, 4, 12)})
	metricStatusWrites = auto.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: "status_writes_total",
		Help: "Writes of the status of ReplicaPolicies."})
	metricConditions = conditions.New("supercargo_replicapolicy_condition", "1 for each condition in the status, with its status and reason.", policyLabels...)
)

func init() { metrics.Registry.MustRegister(metricConditions) }

const subsystem = "supercargo_replicapolicy"

var policyLabels = []string{"namespace", "name"}

// auto registers the metrics that it makes.
var auto = promauto.With(metrics.Registry)

func gauge(name, help string) *prometheus.GaugeVec {
	return auto.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, policyLabels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return auto.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return auto.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
}

// publish sets the gauges of a policy after an evaluation. A policy in conflict does not publish its desired replicas,
// because a HorizontalPodAutoscaler follows the policy that takes precedence.
func (e *evaluation) publish(others *replicadecide.OtherScalers) {
	namespace, name, out := e.key.Namespace, e.key.Name, e.last
	if !e.DryRun && e.sound.Mode == v1alpha1.ReplicasViaHPA && others.Conflict(e.sound.Mode) == "" && !out.Off {
		metricDesired.WithLabelValues(namespace, name).Set(float64(out.Replicas))
	} else {
		forgetWanted(e.key)
	}
	metricSpec.WithLabelValues(namespace, name).Set(float64(e.status.SpecReplicas))
	metricReady.WithLabelValues(namespace, name).Set(float64(e.status.ReadyReplicas))
	for gauge, value := range map[*prometheus.GaugeVec]float64{metricRate: out.Observation.ArrivalRate, metricResponse: out.Observation.ResponseTime} {
		if math.IsNaN(value) {
			gauge.DeleteLabelValues(namespace, name)
		} else {
			gauge.WithLabelValues(namespace, name).Set(value)
		}
	}
}

// forgetWanted deletes the desired replicas of a policy.
func forgetWanted(key types.NamespacedName) { metricDesired.DeleteLabelValues(key.Namespace, key.Name) }

// forgetMetrics deletes the metrics of a deleted policy.
func forgetMetrics(key types.NamespacedName) {
	metricConditions.Forget(key.Namespace, key.Name)
	for _, v := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{metricDesired, metricSpec, metricReady, metricRate, metricResponse, metricEvaluations, metricScalings} {
		v.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, "name": key.Name})
	}
}
