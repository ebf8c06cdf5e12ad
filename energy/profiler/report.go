package profiler

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/profiler/profilerdecide"
)

var (
	metricProbes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "supercargo_probes_total", Help: "Probes of machine types, by result: started, succeeded, failed or cancelled.",
	}, []string{"result"})
	metricRefits = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "supercargo_profile_refits_total", Help: "Refits of MachineProfiles.",
	})
	metricSpread = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "supercargo_profile_spread_ratio", Help: "Typical relative error of a MachineProfile on sizes that it was not learned from.",
	}, []string{"machine_type", "quantity"})
	metricSamples = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "supercargo_profile_samples", Help: "Samples that a MachineProfile was learned from.",
	}, []string{"machine_type", "quantity"})
)

func init() {
	metrics.Registry.MustRegister(metricProbes, metricRefits, metricSpread, metricSamples)
	for _, result := range []string{"started", "succeeded", "failed", "cancelled"} {
		metricProbes.WithLabelValues(result)
	}
}

// publish sets the metrics of a machine type.
func publish(machineType string, p profile.Profile) {
	for quantity, m := range map[string]profile.Model{"energy": p.Energy, "runtime": p.Runtime} {
		metricSpread.WithLabelValues(machineType, quantity).Set(m.Quality.Spread)
		metricSamples.WithLabelValues(machineType, quantity).Set(float64(m.Quality.Samples))
	}
}

// recordEvent creates an Event on the profile of a type, or on the node if there is none.
func (r *round) recordEvent(s profilerdecide.Step, kind, reason, message string) {
	node := r.world.Nodes[s.Node]
	switch p := r.profiles[s.Type]; {
	case p != nil && node != nil:
		r.Events.Eventf(p, node, kind, reason, v1alpha1.ActionProbe, "%s", message)
	case p != nil:
		r.Events.Eventf(p, nil, kind, reason, v1alpha1.ActionProbe, "%s", message)
	case node != nil:
		r.Events.Eventf(node, nil, kind, reason, v1alpha1.ActionProbe, "machine type %s: %s", s.Type, message)
	}
}

// observeOnly reports once what mode Act would do.
func (r *round) observeOnly(ctx context.Context, s profilerdecide.Step) {
	if s.Reason != v1alpha1.ProfileReasonWouldProbe {
		delete(r.memory.reported, s.Type)
		return
	}
	if r.memory.reported[s.Type] == s.Message {
		return
	}
	r.memory.reported[s.Type] = s.Message
	log.FromContext(ctx).Info("Would probe", "machineType", s.Type, "node", s.Node)
	if !r.DryRun {
		r.recordEvent(s, corev1.EventTypeNormal, s.Reason, s.Message)
	}
}
