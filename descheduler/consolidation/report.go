package consolidation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
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
	d := &v1alpha1.ConsolidationStatus{
		Time: new(metav1.NewTime(r.now)), Mode: string(r.Config.Mode), Policy: string(r.Config.Policy), Nodes: int32(len(r.state.Nodes)),
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

func (r *round) decided(drain *cluster.Drain) v1alpha1.ConsolidationDrain {
	d := v1alpha1.ConsolidationDrain{
		Node: drain.Node, Time: metav1.NewTime(r.now), Reason: clip.Bytes(drain.Reason, mostText), UntilSeconds: int64(drain.Until / time.Second),
	}
	if drain.Saves != 0 || drain.Costs != 0 {
		d.SavesDollars, d.CostsDollars = dollars.Format(drain.Saves), dollars.Format(drain.Costs)
	}
	for _, m := range drain.Moves {
		d.Pods = append(d.Pods, v1alpha1.ConsolidationMove{Pod: m.Pod, Method: m.Method.String(), Target: m.Target, Reason: clip.Bytes(m.Reason, mostText)})
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

// report writes the decision to the status of the Consolidation. It only logs a failed write, because nothing depends on it.
func (r *round) report(ctx context.Context) error {
	if r.DryRun {
		return nil
	}
	text, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": cut(*r.memory.decision)}})
	if err != nil {
		return fmt.Errorf("encode the decision: %w", err)
	}
	object := &v1alpha1.Consolidation{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ConsolidationName}}
	switch err := r.Client.Status().Patch(ctx, object, client.RawPatch(types.JSONPatchType, text)); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		log.FromContext(ctx).Error(err, "The last decision cannot be reported: install the kinds, and create the Consolidation as the manifests of the descheduler do",
			"consolidation", object.Name)
	case err != nil:
		log.FromContext(ctx).Error(err, "Failed to write the decision to the status of the Consolidation", "consolidation", object.Name)
	}
	return nil
}

// An object in etcd must be small: mostListed is the maximum length of a list in the status, and mostMoves the maximum number
// of pods that all drains together list.
const (
	mostListed = 200
	mostMoves  = 1000
)

// cut returns a decision with the first entries of each list, and in Omitted the number of the others. It does not change the
// lists of its argument.
func cut(d v1alpha1.ConsolidationStatus) v1alpha1.ConsolidationStatus {
	d.Omitted = 0
	d.Emptying, d.Emptied = head(d.Emptying, mostListed, &d.Omitted), head(d.Emptied, mostListed, &d.Omitted)
	d.Kept, d.Energy = head(d.Kept, mostListed, &d.Omitted), head(d.Energy, mostListed, &d.Omitted)
	d.Drains = slices.Clone(head(d.Drains, mostListed, &d.Omitted))
	room := mostMoves
	for i := range d.Drains {
		pods := head(d.Drains[i].Pods, room, &d.Omitted)
		d.Drains[i].Pods = pods
		room -= len(pods)
	}
	return d
}

// head returns the first n entries of a list, and adds the number of the others to omitted.
func head[E any](list []E, n int, omitted *int32) []E {
	n = min(len(list), n)
	*omitted += int32(len(list) - n)
	return list[:n]
}
