// Package powerquery reads the power of nodes from a PromQL server: the metrics of Supercargo's node meters, Kepler or
// node-exporter, or the result of a user-defined query.
//
// It returns readings like those of a meter on the node: with their source, and dropped and counted if implausible. Two
// samples for one node are rejected instead of added, because they may overlap.
package powerquery

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Meter reads the power of nodes with queries.
type Meter struct {
	Querier promql.Querier
	Preset  Preset
	// Limits define which readings are plausible.
	Limits energy.Limits
}

// Tally counts the samples of one query.
type Tally struct {
	// Counts counts the samples by fault.
	Counts energy.Counts
	// Nameless is the number of samples without a node name: the query has lost the label.
	Nameless int
}

// Read returns the power of the nodes at a time. Each reading has the time of the oldest sample behind it. If a node
// has power from several sources, measured takes precedence over modelled. Cost: two queries, or one for a preset
// without Stamp.
func (m Meter) Read(ctx context.Context, at time.Time) (map[string]energy.Reading, Tally, error) {
	watts, err := m.ask(ctx, m.Preset.Watts, at)
	if err != nil {
		return nil, Tally{}, err
	}
	stamps := answers{}
	if m.Preset.Stamp != "" {
		if stamps, err = m.ask(ctx, m.Preset.Stamp, at); err != nil {
			return nil, Tally{}, err
		}
	}
	taken := map[key]time.Time{}
	for _, s := range stamps.samples {
		taken[s.key] = moment(s.value)
	}
	nodes, tally := map[string]energy.Reading{}, Tally{Nameless: watts.nameless}
	for _, s := range watts.samples { // the best source of a node comes last
		r := energy.Reading{Source: s.source, At: at, Watts: energy.Watts(s.value)}
		if m.Preset.Stamp != "" {
			r.At = taken[s.key] // a sample without a timestamp counts as stale
		}
		fault := m.Limits.Check(r, at)
		tally.Counts[fault]++
		if fault == energy.Sound {
			nodes[s.node] = r
		}
	}
	return nodes, tally, nil
}

// moment converts seconds since 1970 to a time, and invalid values to the zero time.
func moment(seconds float64) time.Time {
	if seconds > 0 && seconds < math.MaxUint32 {
		return time.UnixMilli(int64(seconds * 1e3))
	}
	return time.Time{}
}

// SampleEvery is the sampling interval of power for the calculation of energy.
const SampleEvery = 30 * time.Second

// Used returns the energy that the nodes used between two times, which must be at least [SampleEvery] apart: the increase
// of their counters if the preset has some, else the mean of the power sampled at [SampleEvery], for the time with
// samples. It skips negative power, which no meter can have measured. For a node whose source changed, it adds up the
// energy of each source. Cost: two queries.
func (m Meter) Used(ctx context.Context, from, to time.Time) (map[string]energy.Usage, Tally, error) {
	whole := to.Sub(from)
	span := whole.Truncate(SampleEvery)
	if span < SampleEvery {
		return nil, Tally{}, fmt.Errorf("read energy from %s to %s: the period must be at least %v", from.Format(time.RFC3339), to.Format(time.RFC3339), SampleEvery)
	}
	over := func(function string) string {
		return fmt.Sprintf("%s(((%s) >= 0)[%ds:%ds])", function, m.Preset.Watts, int(span.Seconds()), int(SampleEvery.Seconds()))
	}
	counts, err := m.ask(ctx, over("count_over_time"), to)
	if err != nil {
		return nil, Tally{}, err
	}
	expression := over("avg_over_time")
	if m.Preset.Joules != "" {
		expression = fmt.Sprintf(m.Preset.Joules, int(whole.Seconds()))
	}
	amounts, err := m.ask(ctx, expression, to)
	if err != nil {
		return nil, Tally{}, err
	}
	seen := map[key]time.Duration{}
	for _, s := range counts.samples {
		if s.value >= 1 {
			// Samples at both ends may make one more than there are intervals.
			seen[s.key] = min(time.Duration(min(s.value, 1e9))*SampleEvery, whole)
		}
	}
	nodes, tally := map[string]energy.Usage{}, Tally{Nameless: amounts.nameless}
	for _, s := range amounts.samples {
		known := seen[s.key]
		if known == 0 {
			continue
		}
		joules, watts := s.value, s.value/known.Seconds()
		if m.Preset.Joules == "" {
			joules, watts = s.value*known.Seconds(), s.value
		}
		fault := m.Limits.Check(energy.Reading{Source: s.source, At: to, Watts: energy.Watts(watts)}, to)
		tally.Counts[fault]++
		if fault == energy.Sound {
			u := nodes[s.node]
			if s.source.Measured() {
				u.Measured += energy.Joules(joules)
			} else {
				u.Modelled += energy.Joules(joules)
			}
			u.Covered = min(u.Covered+known, whole)
			u.Gaps = whole - u.Covered
			nodes[s.node] = u
		}
	}
	return nodes, tally, nil
}

// key identifies samples.
type key struct {
	node   string
	source energy.Source
}

// sample is the value of one node.
type sample struct {
	key
	value float64
}

type answers struct {
	samples  []sample // sorted by node, measured ones last
	nameless int
}

// ask evaluates an expression and sorts its samples.
func (m Meter) ask(ctx context.Context, expression string, at time.Time) (answers, error) {
	found, err := m.Querier.Query(ctx, expression, at)
	if err != nil {
		return answers{}, fmt.Errorf("read power by preset %s: %w", m.Preset.Name, err)
	}
	a := answers{samples: make([]sample, 0, len(found))}
	seen, twice := map[key]bool{}, map[string]bool{}
	for _, s := range found {
		k := key{nodeOf(s.Labels), m.Preset.sourceOf(s.Labels)}
		if k.node == "" {
			a.nameless++
			continue
		}
		if seen[k] {
			twice[k.node] = true
		}
		seen[k] = true
		a.samples = append(a.samples, sample{k, s.Value})
	}
	if len(twice) > 0 {
		return answers{}, fmt.Errorf("read power by preset %s: several samples for node %s: aggregate the query by node, without samples that overlap",
			m.Preset.Name, strings.Join(slices.Sorted(maps.Keys(twice)), ", "))
	}
	slices.SortFunc(a.samples, func(x, y sample) int {
		switch {
		case x.node != y.node:
			return strings.Compare(x.node, y.node)
		case x.source.Measured() != y.source.Measured():
			if y.source.Measured() {
				return -1
			}
			return 1
		}
		return strings.Compare(string(x.source), string(y.source))
	})
	return a, nil
}
