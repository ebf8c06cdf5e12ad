package powerquery

import (
	"context"
	"fmt"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Modelled is the name of [Model] where a preset is named.
const Modelled = "model"

// Series of the load of nodes in cores: as measured by the kubelets where the metrics adapter scrapes them, else the
// requests of the pods, and 0 for nodes without pods.
const (
	capacityNow = `max by (node) (supercargo_node_capacity{resource="cpu"}) or max by (node) (kube_node_status_capacity{resource="cpu"})`
	busyNow     = `sum by (node) (max by (node, namespace, pod) (rate(pod_cpu_usage_seconds_total{node!="", pod!=""}[2m]))) or sum by (node) (` + requestsNow + `) or 0 * (` + capacityNow + `)`
)

// Model estimates the energy of nodes without a meter from their machine types and the load of their pods.
type Model struct {
	Querier promql.Querier
	// Power returns the power model of a machine type with the given number of cores.
	Power func(machineType string, cores float64) energy.Model
}

// Used returns the energy that the nodes used between two times, which must be at least [SampleEvery] apart: the power of
// the model at their mean utilisation, for as long as they existed. All of it is modelled. Cost: seven queries.
func (m Model) Used(ctx context.Context, from, to time.Time) (map[string]energy.Usage, Tally, error) {
	whole := to.Sub(from)
	span := whole.Truncate(SampleEvery)
	if span < SampleEvery {
		return nil, Tally{}, fmt.Errorf("read usage from %s to %s: the period must be at least %v", from.Format(time.RFC3339), to.Format(time.RFC3339), SampleEvery)
	}
	over := func(function, expression string) (map[string]float64, error) {
		return m.ask(ctx, fmt.Sprintf("%s((%s)[%ds:%ds])", function, expression, int(span.Seconds()), int(SampleEvery.Seconds())), to)
	}
	samples, err := over("count_over_time", capacityNow)
	if err != nil {
		return nil, Tally{}, err
	}
	capacities, err := over("avg_over_time", capacityNow)
	if err != nil {
		return nil, Tally{}, err
	}
	busy, err := over("avg_over_time", busyNow)
	if err != nil {
		return nil, Tally{}, err
	}
	known, err := Observer{Querier: m.Querier}.nodes(ctx, from, to)
	if err != nil {
		return nil, Tally{}, err
	}
	nodes, tally := map[string]energy.Usage{}, Tally{}
	for name, cores := range capacities {
		covered := min(time.Duration(min(samples[name], 1e9))*SampleEvery, whole)
		power := m.Power(known[name].MachineType, cores).At(busy[name] / cores)
		fault := energy.Limits{}.Check(energy.Reading{Source: energy.SourceModel, At: to, Watts: power}, to)
		tally.Counts[fault]++
		if fault == energy.Sound && covered > 0 {
			nodes[name] = energy.Usage{Modelled: energy.Joules(float64(power) * covered.Seconds()), Covered: covered, Gaps: whole - covered}
		}
	}
	return nodes, tally, nil
}

// ask evaluates an expression with one value per node. It omits values that are not valid amounts.
func (m Model) ask(ctx context.Context, expression string, at time.Time) (map[string]float64, error) {
	samples, err := m.Querier.Query(ctx, expression, at)
	if err != nil {
		return nil, fmt.Errorf("read the load of nodes: %w", err)
	}
	values := map[string]float64{}
	for _, s := range samples {
		if name := s.Labels["node"]; name != "" && s.Value >= 0 && s.Value < 1e9 { // false for NaN
			values[name] = s.Value
		}
	}
	return values, nil
}
