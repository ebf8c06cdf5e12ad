package powerquery

import (
	"context"
	"fmt"
	"time"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Modelled is the name of what [Model] gives, beside those of the presets.
const Modelled = "model"

// Series that tell how busy nodes are, in cores: as the kubelets measured it where the
// metrics adapter scrapes them, else what pods request there, and 0 of nodes without pods.
const (
	capacityNow = `max by (node) (supercargo_node_capacity{resource="cpu"}) or max by (node) (kube_node_status_capacity{resource="cpu"})`
	busyNow     = `sum by (node) (rate(pod_cpu_usage_seconds_total{node!="", pod!=""}[2m])) or sum by (node) (` + requestsNow + `) or 0 * (` + capacityNow + `)`
)

// Model tells what nodes used where nobody has measured it: by their machine types and by
// how busy their pods kept them.
type Model struct {
	Querier promql.Querier
	// Power returns what machines of a type with so many cores draw.
	Power func(machineType string, cores float64) energy.Model
}

// Used returns what the nodes used from one moment to another, which are at least
// [LookEvery] apart: the power that the model gives at their mean utilisation, for as long
// as they were there. All of it is modelled. It costs six queries.
func (m Model) Used(ctx context.Context, from, to time.Time) (map[string]energy.Usage, Tally, error) {
	whole := to.Sub(from)
	span := whole.Truncate(LookEvery)
	if span < LookEvery {
		return nil, Tally{}, fmt.Errorf("ask for use from %s to %s: want at least %v", from.Format(time.RFC3339), to.Format(time.RFC3339), LookEvery)
	}
	over := func(function, expression string) (map[string]float64, error) {
		return m.ask(ctx, fmt.Sprintf("%s((%s)[%ds:%ds])", function, expression, int(span.Seconds()), int(LookEvery.Seconds())), to)
	}
	looks, err := over("count_over_time", capacityNow)
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
		covered := min(time.Duration(min(looks[name], 1e9))*LookEvery, whole)
		power := m.Power(known[name].MachineType, cores).At(busy[name] / cores)
		fault := energy.Limits{}.Check(energy.Reading{Source: energy.SourceModel, At: to, Watts: power}, to)
		tally.Counts[fault]++
		if fault == energy.Sound && covered > 0 {
			nodes[name] = energy.Usage{Modelled: energy.Joules(float64(power) * covered.Seconds()), Covered: covered, Gaps: whole - covered}
		}
	}
	return nodes, tally, nil
}

// ask evaluates an expression with one value for each node; what is no amount is left out.
func (m Model) ask(ctx context.Context, expression string, at time.Time) (map[string]float64, error) {
	samples, err := m.Querier.Query(ctx, expression, at)
	if err != nil {
		return nil, fmt.Errorf("read how busy nodes are: %w", err)
	}
	values := map[string]float64{}
	for _, s := range samples {
		if name := s.Labels["node"]; name != "" && s.Value >= 0 && s.Value < 1e9 { // NaN is not
			values[name] = s.Value
		}
	}
	return values, nil
}
