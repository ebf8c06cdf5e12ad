package consolidation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/consolidation/report"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/text/clip"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// Metrics of the mover.
var (
	metricNodes = auto.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "nodes", Help: "Nodes that the descheduler has cordoned, by state of the drain.",
	}, []string{"state"})
	metricDollars = auto.NewGauge(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "dollars_per_hour", Help: "Total price of all nodes that have not been drained, in dollars per hour.",
	})
	metricDrains = auto.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: "drains_total", Help: "Nodes cordoned for a drain."})
	metricMoves  = auto.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "moves_total", Help: "Pods moved, by method.",
	}, []string{"method"})
	metricExpectedJoules = auto.NewCounter(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "expected_savings_joules_total", Help: "Expected energy savings of energy moves, in joules. Moves with negative savings do not count.",
	})
	metricExpectedEnergy = auto.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "expected_energy_savings_total", Help: "Expected savings from energy moves, in the unit of the tariff. Moves with negative savings do not count.",
	}, []string{"unit"})
	metricTariffZones = auto.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "tariff_zones", Help: "Zones of the tariff, by whether they have a current price: Priced or Without. None if the file cannot be read.",
	}, []string{"state"})
	metricExpectedSavings = auto.NewCounter(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "expected_savings_dollars_total", Help: "Expected net savings of decisions, in dollars.",
	})
)

const subsystem = "supercargo_mover"

// auto registers the metrics that it creates.
var auto = promauto.With(metrics.Registry)

// paid returns the price of all nodes that are not emptied, in micro-dollars per hour.
func (r *round) paid() (sum int64) {
	for i := range r.state.Nodes {
		if n := &r.state.Nodes[i]; !slices.Contains(r.emptied, n.Name) {
			sum += n.MicroDollarsPerHour
		}
	}
	return sum
}

// decide records the decision. The one in memory has all entries of its lists, since a later one takes over lists of it.
func (r *round) decide(plan cluster.Plan) {
	d := &report.Decision{
		Time: metav1.NewTime(r.now), Mode: string(r.Config.Mode), Policy: string(r.Config.Policy), Nodes: len(r.state.Nodes),
		Emptying: r.draining, Emptied: r.emptied, DollarsPerHour: dollars.Format(r.paid()),
	}
	if r.DryRun || r.paused.Paused {
		d.Mode = string(Observe)
	}
	if r.paused.Paused {
		d.Paused = r.paused.Message()
	}
	expected := r.paid()
	prices := map[string]int64{}
	for i := range r.state.Nodes {
		prices[r.state.Nodes[i].Name] = r.state.Nodes[i].MicroDollarsPerHour
	}
	for _, name := range r.draining {
		expected -= prices[name]
	}
	for i := range plan.Drains {
		expected -= prices[plan.Drains[i].Node]
		d.Drains = append(d.Drains, r.decided(&plan.Drains[i]))
	}
	d.ExpectedDollarsPerHour = dollars.Format(expected)
	if last := r.memory.decision; last != nil {
		d.Energy = last.Energy
		if len(d.Drains) == 0 {
			d.Drains = last.Drains
		}
	}
	for _, stay := range plan.Kept {
		d.Kept = append(d.Kept, v1alpha1.Rejection{Name: stay.Node, Reason: clip.Bytes(stay.Reason, mostText)})
	}
	for name, s := range r.memory.spared {
		if r.world.Nodes[name] == nil {
			delete(r.memory.spared, name)
		} else if s.until.After(r.now) {
			d.Kept = append(d.Kept, v1alpha1.Rejection{Name: name, Reason: clip.Bytes(fmt.Sprintf("in back-off until %s: %s", s.until.UTC().Format(time.RFC3339), s.why), mostText)})
		}
	}
	slices.SortStableFunc(d.Kept, func(a, b v1alpha1.Rejection) int { return strings.Compare(a.Name, b.Name) })
	r.memory.decision = d
}

func (r *round) decided(drain *cluster.Drain) report.Drain {
	d := report.Drain{
		Node: drain.Node, Time: metav1.NewTime(r.now), Reason: clip.Bytes(drain.Reason, mostText), UntilSeconds: int64(drain.Until / time.Second),
	}
	if drain.Saves != 0 || drain.Costs != 0 {
		d.SavesDollars, d.CostsDollars = dollars.Format(drain.Saves), dollars.Format(drain.Costs)
	}
	for _, m := range drain.Moves {
		d.Pods = append(d.Pods, report.Move{Pod: m.Pod, Method: m.Method.String(), Target: m.Target, Reason: clip.Bytes(m.Reason, mostText)})
	}
	return d
}

// mostText is the maximum length of a text in a list, in bytes.
const mostText = 512

// publish sets the gauges.
func (r *round) publish() {
	metricNodes.WithLabelValues("emptying").Set(float64(len(r.draining)))
	metricNodes.WithLabelValues("emptied").Set(float64(len(r.emptied)))
	metricDollars.Set(float64(r.paid()) / 1e6)
}

// report writes the decision to the ConfigMap. It only logs a failed write, because nothing
// depends on it.
func (r *round) report(ctx context.Context) error {
	if r.Config.StatusNamespace == "" || r.DryRun {
		return nil
	}
	data, err := r.memory.decision.Data()
	if err != nil {
		return err
	}
	object := applycorev1.ConfigMap(report.Name, r.Config.StatusNamespace).WithData(data)
	if err := r.Client.Apply(ctx, object, client.FieldOwner("supercargo-descheduler"), client.ForceOwnership); err != nil {
		log.FromContext(ctx).Error(err, "Failed to write the decision to its ConfigMap", "configMap", r.Config.StatusNamespace+"/"+report.Name)
	}
	return nil
}
