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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
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

// StatusName is the name of the ConfigMap with the last decision.
const StatusName = "supercargo-consolidation"

// statusKey is the key in it.
const statusKey = "decision"

// mostListed is the maximum length of a decision's lists, since objects in etcd must be small.
const mostListed = 200

// Decision is the last decision, as the ConfigMap [StatusName] holds it in JSON.
type Decision struct {
	// Time is when it was made, Mode whether it is carried out, and Policy how it was made.
	Time   metav1.Time `json:"time"`
	Mode   Mode        `json:"mode"`
	Policy Policy      `json:"policy"`
	// Paused is why the cluster is paused, so that the mode is Observe; empty if it is not.
	Paused string `json:"paused,omitempty"`
	// DollarsPerHour is the price of all nodes that are not emptied, and ExpectedDollarsPerHour
	// that after the decision has been carried out.
	DollarsPerHour         string `json:"dollarsPerHour"`
	ExpectedDollarsPerHour string `json:"expectedDollarsPerHour"`
	// Nodes is the number of nodes. Emptying and Emptied are those that the mover has cordoned.
	Nodes    int      `json:"nodes"`
	Emptying []string `json:"emptying,omitempty"`
	Emptied  []string `json:"emptied,omitempty"`
	// Drains are the selected nodes, of the last round that selected any.
	Drains []DecidedDrain `json:"drains,omitempty"`
	// Kept are under-used nodes that stay, with the reasons.
	Kept []v1alpha1.Rejection `json:"kept,omitempty"`
	// Energy are the pods that other machines suit better, of the last decision that found any.
	Energy []DecidedTransfer `json:"energy,omitempty"`
	// Omitted is the number of nodes and pods left out of lists that were too long.
	Omitted int `json:"omitted,omitempty"`
}

// DecidedDrain is a node to empty.
type DecidedDrain struct {
	Node   string      `json:"node"`
	Time   metav1.Time `json:"time"`
	Reason string      `json:"reason"`
	// SavesDollars and CostsDollars are the expected savings and costs. UntilSeconds is the
	// expected time until the last pod has left.
	SavesDollars string `json:"savesDollars,omitempty"`
	CostsDollars string `json:"costsDollars,omitempty"`
	UntilSeconds int64  `json:"untilSeconds"`
	// Pods are the moves of its pods.
	Pods []DecidedMove `json:"pods,omitempty"`
}

// DecidedMove is how one pod leaves a node.
type DecidedMove struct {
	Pod    string `json:"pod"`
	Method string `json:"method"`
	// Target is a node with room for it; the scheduler decides.
	Target string `json:"target,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// DecidedTransfer is a pod that another machine suits better.
type DecidedTransfer struct {
	Time   metav1.Time `json:"time"`
	Pod    string      `json:"pod"`
	From   string      `json:"from"`
	Target string      `json:"target"`
	// Method is Checkpoint or Restart.
	Method string `json:"method"`
	// Joules and SoonerSeconds are the expected savings of energy and time for the rest of its
	// work.
	Joules        float64 `json:"joules"`
	SoonerSeconds float64 `json:"soonerSeconds"`
	// Dollars or CO2Grams is the expected saving of cost or emissions, if there is a tariff.
	Dollars  *float64 `json:"dollars,omitempty"`
	CO2Grams *float64 `json:"co2Grams,omitempty"`
	Reason   string   `json:"reason"`
}

// paid returns the price of all nodes that are not emptied, in micro-dollars per hour.
func (r *round) paid() (sum int64) {
	for i := range r.state.Nodes {
		if n := &r.state.Nodes[i]; !slices.Contains(r.emptied, n.Name) {
			sum += n.MicroDollarsPerHour
		}
	}
	return sum
}

// decide records the decision.
func (r *round) decide(plan cluster.Plan) {
	d := &Decision{
		Time: metav1.NewTime(r.now), Mode: r.Config.Mode, Policy: r.Config.Policy, Nodes: len(r.state.Nodes),
		Emptying: r.draining, Emptied: r.emptied, DollarsPerHour: dollars.Format(r.paid()),
	}
	if r.DryRun || r.paused.Paused {
		d.Mode = Observe
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

func (r *round) decided(drain *cluster.Drain) DecidedDrain {
	d := DecidedDrain{
		Node: drain.Node, Time: metav1.NewTime(r.now), Reason: clip.Bytes(drain.Reason, mostText), UntilSeconds: int64(drain.Until / time.Second),
	}
	if drain.Saves != 0 || drain.Costs != 0 {
		d.SavesDollars, d.CostsDollars = dollars.Format(drain.Saves), dollars.Format(drain.Costs)
	}
	for _, m := range drain.Moves {
		d.Pods = append(d.Pods, DecidedMove{Pod: m.Pod, Method: m.Method.String(), Target: m.Target, Reason: clip.Bytes(m.Reason, mostText)})
	}
	return d
}

// mostText is the maximum length of a text in a list, in bytes.
const mostText = 512

// shortened returns the decision with its lists truncated to mostListed. The decision in memory has
// all entries, since a later one takes over lists of this.
func (d Decision) shortened() Decision {
	d.Omitted = 0
	d.Emptying, d.Emptied = head(d.Emptying, &d.Omitted), head(d.Emptied, &d.Omitted)
	d.Drains, d.Kept, d.Energy = head(d.Drains, &d.Omitted), head(d.Kept, &d.Omitted), head(d.Energy, &d.Omitted)
	return d
}

// head returns the first mostListed entries of a list, and adds the number of others to omitted.
func head[E any](list []E, omitted *int) []E {
	n := min(len(list), mostListed)
	*omitted += len(list) - n
	return list[:n]
}

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
	text, err := json.Marshal(r.memory.decision.shortened())
	if err != nil {
		return fmt.Errorf("encode the decision: %w", err)
	}
	object := applycorev1.ConfigMap(StatusName, r.Config.StatusNamespace).WithData(map[string]string{statusKey: string(text)})
	if err := r.Client.Apply(ctx, object, client.FieldOwner("supercargo-descheduler"), client.ForceOwnership); err != nil {
		log.FromContext(ctx).Error(err, "Failed to write the decision to its ConfigMap", "configMap", r.Config.StatusNamespace+"/"+StatusName)
	}
	return nil
}

// ReadDecision returns the decision in a ConfigMap.
func ReadDecision(object *corev1.ConfigMap) (*Decision, error) {
	d := &Decision{}
	if err := json.Unmarshal([]byte(object.Data[statusKey]), d); err != nil {
		return nil, fmt.Errorf("read key %s of ConfigMap %s/%s: %w", statusKey, object.Namespace, object.Name, err)
	}
	return d, nil
}
