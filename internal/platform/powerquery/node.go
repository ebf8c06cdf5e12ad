package powerquery

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Placeholder stands for the node's name in a query that asks for one node.
const Placeholder = "$node"

var (
	placeholder = regexp.MustCompile(`\$node\b`)
	// pattern stands for the name in a regular expression of our own presets.
	pattern = regexp.MustCompile(`\$pattern\b`)
	// nodeName is what Kubernetes calls nodes. Nothing of it means something in PromQL.
	nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
)

// NodeMeter reads the power of one node, through queries that ask for the series of that
// node alone: it is for programs of which each node has one.
type NodeMeter struct {
	querier promql.Querier
	limits  energy.Limits
	preset  Preset
	node    string
}

// Of returns the meter of one node. It refuses what would ask for all nodes, and what node
// agents show themselves: they would read back what they have said.
func (m Meter) Of(node string) (NodeMeter, error) {
	p := m.Preset
	switch {
	case !nodeName.MatchString(node):
		return NodeMeter{}, fmt.Errorf("%q is no name of a node", node)
	case p.WattsOf == "":
		return NodeMeter{}, fmt.Errorf("preset %s has what node meters show: want one of %s, or a query of your own", p.Name, strings.Join(NodePresets(), ", "))
	case strings.Contains(p.WattsOf, "supercargo_node_power_") || strings.Contains(p.WattsOf, "supercargo_node_energy_"):
		return NodeMeter{}, fmt.Errorf("query %s has what node meters show: ask for what others measure", p.WattsOf)
	case !placeholder.MatchString(p.WattsOf):
		return NodeMeter{}, fmt.Errorf("query %s asks for all nodes: write %[2]s for the node's name, as in pdu_outlet_watts{node=\"%[2]s\"}", p.WattsOf, Placeholder)
	}
	p.WattsOf, p.StampOf = narrowed(p.WattsOf, node), narrowed(p.StampOf, node)
	return NodeMeter{querier: m.Querier, limits: m.Limits, preset: p, node: node}, nil
}

// narrowed puts the node's name into an expression.
func narrowed(expression, node string) string {
	expression = placeholder.ReplaceAllLiteralString(expression, node)
	return pattern.ReplaceAllLiteralString(expression, strings.ReplaceAll(node, ".", "[.]"))
}

// NodePresets returns the names of the presets that can be asked for one node.
func NodePresets() []string {
	var names []string
	for _, p := range Presets() {
		if p.WattsOf != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// Source is where readings come from, if they do not say otherwise.
func (m NodeMeter) Source() energy.Source { return m.preset.Source }

// MeanOf returns for how long before its moment a reading may be the mean, back to the
// reading before; 0 if it is the power of that moment.
func (m NodeMeter) MeanOf() time.Duration { return m.preset.MeanOf }

// Read returns what the node draws, as old as the samples behind it, and what is wrong with
// that. All that the query gives is the node's, whatever its labels: those of a power
// distribution unit name the unit. So an answer of several samples is an error, and not a
// sum; and so is one of none. It costs two queries, or one for a preset without StampOf.
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

// one evaluates an expression that has one sample.
func (m NodeMeter) one(ctx context.Context, expression string, at time.Time) (promql.Sample, error) {
	found, err := m.querier.Query(ctx, expression, at)
	switch {
	case err != nil:
		err = fmt.Errorf("read power of node %s by preset %s: %w", m.node, m.preset.Name, err)
	case len(found) == 0:
		err = fmt.Errorf("read power of node %s by preset %s: there is no sample for %s: look under which name the server knows the node", m.node, m.preset.Name, expression)
	case len(found) > 1:
		err = fmt.Errorf("read power of node %s by preset %s: several samples for %s: aggregate the query, and add up nothing that overlaps", m.node, m.preset.Name, expression)
	default:
		return found[0], nil
	}
	return promql.Sample{}, err
}
