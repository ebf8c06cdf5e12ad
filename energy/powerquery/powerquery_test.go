package powerquery

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/platform/promql"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// server answers the expressions for which it has answers, and no others.
type server map[string][]promql.Sample

func (s server) Query(_ context.Context, expression string, at time.Time) ([]promql.Sample, error) {
	samples, ok := s[expression]
	if !ok {
		return nil, errors.New("nobody expected " + expression)
	}
	for i := range samples {
		samples[i].At = at
	}
	return samples, nil
}

// one returns a sample with labels given as name, value, name, value.
func one(value float64, labels ...string) promql.Sample {
	s := promql.Sample{Labels: map[string]string{}, Value: value}
	for i := 0; i < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	return s
}

func preset(t *testing.T, name string) Preset {
	t.Helper()
	p, err := ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func unix(t time.Time) float64 { return float64(t.Unix()) }

func TestReadingsHaveSourceAndAge(t *testing.T) {
	kepler := preset(t, Kepler)
	m := Meter{Preset: kepler, Limits: energy.Limits{MaxAge: time.Minute, Rated: 400}, Querier: server{
		kepler.Watts: {one(100, "node_name", "a"), one(120, "node_name", "b"), one(-3, "node_name", "c"), one(900, "node_name", "d"), one(math.NaN(), "node_name", "e"),
			one(80, "node_name", "f"), one(55)},
		kepler.Stamp: {one(unix(noon.Add(-5*time.Second)), "node_name", "a"), one(unix(noon.Add(-2*time.Minute)), "node_name", "b"),
			one(unix(noon), "node_name", "c"), one(unix(noon), "node_name", "d"), one(unix(noon), "node_name", "e")},
	}}
	nodes, tally, err := m.Read(t.Context(), noon)
	if err != nil {
		t.Fatal(err)
	}
	if a := nodes["a"]; len(nodes) != 1 || a.Source != energy.SourceKepler || a.Watts != 100 || a.Age(noon) != 5*time.Second {
		t.Errorf("%+v; want 100 W of node a, five seconds old, and no other", nodes)
	}
	want := energy.Counts{}
	// Node f has power without a timestamp: it counts as stale, like b.
	want[energy.Sound], want[energy.Stale], want[energy.Negative], want[energy.AboveRated], want[energy.NotANumber] = 1, 2, 1, 1, 1
	if tally.Counts != want || tally.Nameless != 1 {
		t.Errorf("%+v, want %v and one without a name", tally, want)
	}
}

func TestAQueryOfOnesOwnIsAsNewAsItsAnswer(t *testing.T) {
	m := Meter{Preset: Own("pdu_watts"), Limits: energy.Limits{MaxAge: time.Minute}, Querier: server{"pdu_watts": {one(300, "instance", "rack-1:9100"), one(200, "node", "n2", "instance", "x:1")}}}
	nodes, _, err := m.Read(t.Context(), noon)
	if err != nil || nodes["rack-1"].Watts != 300 || nodes["n2"].Watts != 200 || nodes["n2"].Source != energy.SourceQuery || !nodes["n2"].At.Equal(noon) {
		t.Errorf("%+v, %v", nodes, err)
	}
}

// TestWhatMayOverlapIsNotAddedUp checks that two samples of one node and source are rejected, and that a measured
// source takes precedence over a modelled one.
func TestWhatMayOverlapIsNotAddedUp(t *testing.T) {
	m := Meter{Preset: Own("q"), Querier: server{"q": {one(1, "node", "a", "zone", "package"), one(2, "node", "a", "zone", "core")}}}
	if _, _, err := m.Read(t.Context(), noon); err == nil || !strings.Contains(err.Error(), "node a") {
		t.Errorf("error %v, want one that names the node", err)
	}
	own := preset(t, Supercargo)
	m = Meter{Preset: own, Querier: server{
		own.Watts: {one(50, "node", "a", "source", "rapl"), one(70, "node", "a", "source", "model"), one(9, "node", "b", "source", "crystal-ball")},
		own.Stamp: {one(unix(noon), "node", "a", "source", "rapl"), one(unix(noon), "node", "a", "source", "model"), one(unix(noon), "node", "b", "source", "crystal-ball")},
	}}
	nodes, _, err := m.Read(t.Context(), noon)
	if err != nil || nodes["a"].Watts != 50 || nodes["a"].Source != energy.SourceRAPL || nodes["b"].Source != energy.SourceQuery {
		t.Errorf("%+v, %v", nodes, err)
	}
}

func TestEnergyIsMeanPowerForAsLongAsItIsKnown(t *testing.T) {
	mean, count := "avg_over_time(((q) >= 0)[300s:30s])", "count_over_time(((q) >= 0)[300s:30s])"
	m := Meter{Preset: Own("q"), Limits: energy.Limits{Rated: 1000}, Querier: server{
		mean: {one(100, "node", "whole", "source", "rapl"), one(100, "node", "both-ends", "source", "rapl"), one(100, "node", "half", "source", "model"),
			one(60, "node", "changed", "source", "model"), one(40, "node", "changed", "source", "hwmon"), one(2000, "node", "impossible", "source", "rapl"), one(5, "node", "uncounted", "source", "rapl")},
		count: {one(10, "node", "whole", "source", "rapl"), one(11, "node", "both-ends", "source", "rapl"), one(5, "node", "half", "source", "model"),
			one(4, "node", "changed", "source", "model"), one(7, "node", "changed", "source", "hwmon"), one(10, "node", "impossible", "source", "rapl"), one(math.NaN(), "node", "uncounted", "source", "rapl")},
	}}
	nodes, tally, err := m.Used(t.Context(), noon.Add(-5*time.Minute), noon)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]energy.Usage{
		"whole":     {Measured: 30_000, Covered: 300 * time.Second},
		"both-ends": {Measured: 30_000, Covered: 300 * time.Second},
		"half":      {Modelled: 15_000, Covered: 150 * time.Second, Gaps: 150 * time.Second},
		// Together the two have samples for longer than the period.
		"changed": {Measured: 40 * 210, Modelled: 60 * 120, Covered: 300 * time.Second},
	}
	if len(nodes) != len(want) {
		t.Errorf("%v, want %d nodes", nodes, len(want))
	}
	for name, u := range want {
		if nodes[name] != u {
			t.Errorf("%s used %+v, want %+v", name, nodes[name], u)
		}
	}
	if tally.Counts.Of(energy.AboveRated) != 1 {
		t.Errorf("%+v, want one above the rated power", tally)
	}
	if _, _, err := m.Used(t.Context(), noon, noon.Add(time.Second)); err == nil {
		t.Error("the energy of a second can be asked for")
	}
}

// TestCountersGoBeforeEvaluations checks that the increase of a counter is the energy, and that samples of power determine
// its time.
func TestCountersGoBeforeEvaluations(t *testing.T) {
	p := Preset{Name: "p", Source: energy.SourceRAPL, Watts: "w", Joules: "increase(j[%ds])"}
	m := Meter{Preset: p, Limits: energy.Limits{Rated: 200}, Querier: server{
		"increase(j[310s])":                     {one(29_000, "node", "a"), one(90_000, "node", "impossible"), one(5, "node", "unseen")},
		"count_over_time(((w) >= 0)[300s:30s])": {one(8, "node", "a"), one(10, "node", "impossible")},
	}}
	nodes, tally, err := m.Used(t.Context(), noon.Add(-310*time.Second), noon)
	want := energy.Usage{Measured: 29_000, Covered: 240 * time.Second, Gaps: 70 * time.Second}
	if err != nil || len(nodes) != 1 || nodes["a"] != want || tally.Counts.Of(energy.AboveRated) != 1 {
		t.Errorf("%+v, %+v, %v; want %+v", nodes, tally, err, want)
	}
}

func TestPresetsHaveNames(t *testing.T) {
	for _, p := range Presets() {
		if got, err := ByName(p.Name); err != nil || got != p || p.Watts == "" || p.Stamp == "" || !p.Source.Measured() {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := ByName("sundial"); err == nil || !strings.Contains(err.Error(), Kepler) {
		t.Errorf("error %v, want one that lists the presets", err)
	}
}

func TestNodesAreNamedByTheirLabels(t *testing.T) {
	tests := []struct {
		want   string
		labels []string
	}{
		{"a", []string{"node", "a", "node_name", "b"}}, {"b", []string{"node_name", "b", "instance", "c:1"}}, {"c", []string{"instance", "c:9100"}},
		{"c", []string{"instance", "c"}}, {"::1", []string{"instance", "::1"}}, {"", []string{"pod", "p"}}, {"h", []string{"node", "", "hostname", "h"}},
	}
	for _, tc := range tests {
		if got := nodeOf(one(0, tc.labels...).Labels); got != tc.want {
			t.Errorf("%v name node %q, want %q", tc.labels, got, tc.want)
		}
	}
}

func TestWhoCannotBeAskedIsNamed(t *testing.T) {
	m := Meter{Preset: preset(t, Kepler), Querier: server{}}
	if _, _, err := m.Read(t.Context(), noon); err == nil || !strings.Contains(err.Error(), "preset kepler") {
		t.Errorf("error %v", err)
	}
	if _, _, err := m.Used(t.Context(), noon.Add(-time.Hour), noon); err == nil || !strings.Contains(err.Error(), "preset kepler") {
		t.Errorf("error %v", err)
	}
}
