package powerquery

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Placeholder stands for the node's name in a query for one node.
const Placeholder = "$node"

var (
	placeholder = regexp.MustCompile(`\$node\b`)
	// pattern stands for the node's name in a regular expression in the presets.
	pattern = regexp.MustCompile(`\$pattern\b`)
	// nodeName matches names of nodes in Kubernetes. They contain no special characters of PromQL strings.
	nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
)

// NodeMeter reads the power of one node with queries for the series of that node only. It is for programs that run on
// each node.
type NodeMeter struct {
	querier promql.Querier
	limits  energy.Limits
	preset  Preset
	node    string
}

// Of returns the meter of one node. It rejects queries for all nodes, and queries for what node agents export, because
// they would read back their own values.
func (m Meter) Of(node string) (NodeMeter, error) {
	p := m.Preset
	switch {
	case !nodeName.MatchString(node):
		return NodeMeter{}, fmt.Errorf("%q is not the name of a node", node)
	case p.WattsOf == "":
		return NodeMeter{}, fmt.Errorf("preset %s reads the metrics of node meters themselves: must be one of %s, or your own query", p.Name, strings.Join(NodePresets(), ", "))
	case strings.Contains(p.WattsOf, "supercargo_node_power_") || strings.Contains(p.WattsOf, "supercargo_node_energy_"):
		return NodeMeter{}, fmt.Errorf("query %s reads the metrics of node meters themselves: query metrics of other exporters", p.WattsOf)
	case !placeholder.MatchString(p.WattsOf):
		return NodeMeter{}, fmt.Errorf("query %s selects all nodes: use %[2]s for the node's name, as in pdu_outlet_watts{node=\"%[2]s\"}", p.WattsOf, Placeholder)
	}
	p.WattsOf, p.StampOf = narrowed(p.WattsOf, node), narrowed(p.StampOf, node)
	return NodeMeter{querier: m.Querier, limits: m.Limits, preset: p, node: node}, nil
}

// narrowed inserts the node's name into an expression.
func narrowed(expression, node string) string {
	expression = placeholder.ReplaceAllLiteralString(expression, node)
	return pattern.ReplaceAllLiteralString(expression, strings.ReplaceAll(node, ".", "[.]"))
}

// NodePresets returns the names of the presets that can be queried for one node.
func NodePresets() []string {
	var names []string
	for _, p := range Presets() {
		if p.WattsOf != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// Source returns the default source of readings.
func (m NodeMeter) Source() energy.Source { return m.preset.Source }

// MeanOf returns the maximum time before a reading over which it may be a mean, back to the previous reading; 0 if it
// is an instantaneous power.
func (m NodeMeter) MeanOf() time.Duration { return m.preset.MeanOf }

// Read returns the power of the node, with the time of the oldest sample behind it, and its fault. All results of the
// query count as the node's, whatever their labels, because those of a power distribution unit name the unit. A result
// of several samples, or of none, is therefore an error. Cost: two queries, or one for a preset without StampOf.
func (m NodeMeter) Read(ctx context.Context, at time.Time) (energy.Reading, energy.Fault, error) {
	watts, err := m.one(ctx, m.preset.WattsOf, at)
	if err != nil {
		return energy.Reading{}, energy.Unreadable, err
	}
	r := energy.Reading{Source: m.preset.sourceOf(watts.Labels), At: at, Watts: energy.Watts(watts.Value)}
	if m.preset.StampOf != "" {
		stamp, err := m.one(ctx, m.preset.StampOf, at)
		if err != nil {
			return energy.Reading{}, energy.Unreadable, err
		}
		r.At = moment(stamp.Value)
	}
	return r, m.limits.Check(r, at), nil
}

// one evaluates an expression that must have exactly one sample.
func (m NodeMeter) one(ctx context.Context, expression string, at time.Time) (promql.Sample, error) {
	found, err := m.querier.Query(ctx, expression, at)
	switch {
	case err != nil:
		err = fmt.Errorf("read power of node %s by preset %s: %w", m.node, m.preset.Name, err)
	case len(found) == 0:
		err = fmt.Errorf("read power of node %s by preset %s: there is no sample for %s: check the name of the node on the server", m.node, m.preset.Name, expression)
	case len(found) > 1:
		err = fmt.Errorf("read power of node %s by preset %s: several samples for %s: aggregate the query, without samples that overlap", m.node, m.preset.Name, expression)
	default:
		return found[0], nil
	}
	return promql.Sample{}, err
}
