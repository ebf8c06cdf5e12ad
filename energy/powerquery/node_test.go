package powerquery_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// listening records the queries.
type listening struct {
	promql.Querier
	asked []string
}

func (l *listening) Query(ctx context.Context, expression string, at time.Time) ([]promql.Sample, error) {
	l.asked = append(l.asked, expression)
	return l.Querier.Query(ctx, expression, at)
}

func of(t *testing.T, q promql.Querier, p powerquery.Preset, node string) powerquery.NodeMeter {
	t.Helper()
	m, err := powerquery.Meter{Querier: q, Preset: p, Limits: energy.Limits{MaxAge: 30 * time.Second, Rated: 1000}}.Of(node)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func named(t *testing.T, name string) powerquery.Preset {
	t.Helper()
	p, err := powerquery.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOneNodeIsAskedForByItself checks that each selector of each query names the node, and that the result equals that
// of the meter of all nodes.
func TestOneNodeIsAskedForByItself(t *testing.T) {
	h := open(t)
	for _, name := range []string{"a", "b", "x.lan", "xylan"} {
		for zone, watts := range map[string]float64{"package": 50, "core": 30, "psys": 120} {
			for _, socket := range []string{"0", "1"} {
				h.put(-30, 0, always(watts), "__name__", "kepler_node_cpu_watts", "node_name", name, "zone", zone, "path", "/sys/"+zone+socket, "instance", name+":28282")
			}
		}
		h.put(-30, 0, counting(70), "__name__", "node_rapl_package_joules_total", "index", "0", "path", "/sys/class/powercap/intel-rapl:0", "instance", name+":9100")
		h.put(-30, 0, counting(60), "__name__", "node_rapl_package_joules_total", "index", "1", "path", "/sys/class/powercap/intel-rapl:1", "instance", name+":9100")
		h.put(-30, 0, counting(70), "__name__", "node_rapl_package_joules_total", "index", "0", "path", "/sys/class/powercap/intel-rapl-mmio:0", "instance", name+":9100")
		h.put(-30, 0, counting(9), "__name__", "node_rapl_dram_joules_total", "index", "0", "path", "/sys/class/powercap/intel-rapl:0:2", "instance", name+":9100")
	}
	h.put(-30, 0, counting(40), "__name__", "node_rapl_package_joules_total", "index", "0", "path", "/sys/class/powercap/intel-rapl:0", "node", "c", "instance", "10.0.0.7:9100")
	for _, tc := range []struct {
		preset, node string
		watts        energy.Watts
	}{
		{powerquery.Kepler, "a", 100}, {powerquery.Kepler, "x.lan", 100},
		{powerquery.NodeExporter, "a", 139}, {powerquery.NodeExporter, "x.lan", 139}, {powerquery.NodeExporter, "c", 40},
	} {
		l := &listening{Querier: h}
		r, fault, err := of(t, l, named(t, tc.preset), tc.node).Read(t.Context(), noon.Add(7*time.Second))
		if err != nil || fault != energy.Sound || !near(float64(r.Watts), float64(tc.watts)) || string(r.Source) != tc.preset || !r.At.Equal(noon) {
			t.Errorf("%s of %s: %+v, %v, %v; want %v W of noon", tc.preset, tc.node, r, fault, err, tc.watts)
		}
		for _, q := range l.asked {
			if selectors, names := strings.Count(q, "{"), strings.Count(q, tc.node)+strings.Count(q, strings.ReplaceAll(tc.node, ".", "[.]")); selectors == 0 || names < selectors || strings.Contains(q, "$") {
				t.Errorf("%s of %s: %s asks for more", tc.preset, tc.node, q)
			}
		}
	}
}

// TestPowerFromCountersIsTheMeanOfTheLastScrape checks that a machine that begins to work is seen at the next scrape.
func TestPowerFromCountersIsTheMeanOfTheLastScrape(t *testing.T) {
	h := open(t)
	h.put(-30, 0, func(second float64) float64 { return 100_000 + 20*second + 50*max(0, second+15) },
		"__name__", "node_rapl_package_joules_total", "path", "/sys/class/powercap/intel-rapl:0", "node", "a")
	m := of(t, h, named(t, powerquery.NodeExporter), "a")
	for _, tc := range []struct {
		at    time.Duration
		watts float64
	}{{-15 * time.Second, 20}, {0, 70}} {
		if r, _, err := m.Read(t.Context(), noon.Add(tc.at)); err != nil || !near(float64(r.Watts), tc.watts) {
			t.Errorf("%v after noon: %+v, %v; want %v W", tc.at, r, err, tc.watts)
		}
	}
	if m.MeanOf() < time.Minute || of(t, h, named(t, powerquery.Kepler), "a").MeanOf() != 0 {
		t.Error("it is not said that power from counters is a mean, or it is of others")
	}
}

// TestAQueryOfOnesOwnIsOfTheNodeThatItNames uses labels that name the meter instead of the node.
func TestAQueryOfOnesOwnIsOfTheNodeThatItNames(t *testing.T) {
	h := open(t)
	for outlet, host := range map[string]string{"1": "a", "2": "b", "3": "b"} {
		h.put(-1, 0, always(200), "__name__", "pdu_outlet_watts", "instance", "pdu-7:9116", "outlet", outlet, "host", host)
	}
	h.put(-1, 0, always(33), "__name__", "mirror", "host", "a", "source", "model")
	tests := []struct {
		query, node string
		want        energy.Reading // zero: an error
	}{
		{`pdu_outlet_watts{host="$node"}`, "a", energy.Reading{Source: energy.SourceQuery, Watts: 200}},
		{`pdu_outlet_watts{host="$node"}`, "b", energy.Reading{}}, // two outlets, which may overlap
		{`sum(pdu_outlet_watts{host="$node"})`, "b", energy.Reading{Source: energy.SourceQuery, Watts: 400}},
		{`sum(pdu_outlet_watts{host=~"$node"}) / 2`, "b", energy.Reading{Source: energy.SourceQuery, Watts: 200}},
		{`scalar(pdu_outlet_watts{host="$node"})`, "a", energy.Reading{Source: energy.SourceQuery, Watts: 200}},
		{`mirror{host="$node"}`, "a", energy.Reading{Source: energy.SourceModel, Watts: 33}},
		{`pdu_outlet_watts{host="$node"}`, "c", energy.Reading{}}, // no samples
		{`pdu_outlet_watts{host="$node"`, "a", energy.Reading{}},
	}
	for _, tc := range tests {
		r, fault, err := of(t, h, powerquery.Own(tc.query), tc.node).Read(t.Context(), noon)
		if tc.want.Watts == 0 {
			if err == nil || fault != energy.Unreadable || !strings.Contains(err.Error(), "node "+tc.node) {
				t.Errorf("%s of %s: %+v, %v, %v; want an error that names the node", tc.query, tc.node, r, fault, err)
			}
			continue
		}
		if tc.want.At = noon; err != nil || fault != energy.Sound || r != tc.want {
			t.Errorf("%s of %s: %+v, %v, %v; want %+v", tc.query, tc.node, r, fault, err, tc.want)
		}
	}
}

func TestWhatCannotBeIsSaidOfOneNode(t *testing.T) {
	h := open(t)
	for name, watts := range map[string]float64{"hot": 1001, "cold": -1, "odd": math.NaN()} {
		h.put(-1, 0, always(watts), "__name__", "kepler_node_cpu_watts", "node_name", name, "zone", "package")
	}
	h.put(-2, -0.75, always(50), "__name__", "kepler_node_cpu_watts", "node_name", "old", "zone", "package")
	for name, want := range map[string]energy.Fault{"hot": energy.AboveRated, "cold": energy.Negative, "odd": energy.NotANumber, "old": energy.Stale} {
		if _, fault, err := of(t, h, named(t, powerquery.Kepler), name).Read(t.Context(), noon); fault != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", name, fault, err, want)
		}
	}
	// Scraped twice, for example by an old and a new configuration.
	for _, job := range []string{"kepler", "pods"} {
		h.put(0.25, 0.5, always(50), "__name__", "kepler_node_cpu_watts", "node_name", "twice", "zone", "package", "job", job)
	}
	if r, fault, err := of(t, h, named(t, powerquery.Kepler), "twice").Read(t.Context(), noon.Add(30*time.Second)); err == nil || fault != energy.Unreadable {
		t.Errorf("twice: %+v, %v, %v; want an error", r, fault, err)
	}
}

func TestWhatCannotBeAskedForOneNodeIsRefused(t *testing.T) {
	tests := []struct {
		preset     powerquery.Preset
		node, says string
	}{
		{powerquery.Own(`pdu_outlet_watts{host="a"}`), "a", powerquery.Placeholder},
		{powerquery.Own(`pdu_outlet_watts{host="$nodename"}`), "a", powerquery.Placeholder},
		{powerquery.Own(`supercargo_node_power_watts{node="$node"}`), "a", "node meters"},
		{powerquery.Own(`rate(supercargo_node_energy_joules_total{node="$node"}[1m])`), "a", "node meters"},
		{named(t, powerquery.Supercargo), "a", "kepler, node-exporter"},
		{named(t, powerquery.Kepler), `a"} or vector(1) #`, "not the name"},
		{named(t, powerquery.Kepler), "", "not the name"},
		{named(t, powerquery.Kepler), "a\n", "not the name"},
	}
	for _, tc := range tests {
		if _, err := (powerquery.Meter{Preset: tc.preset}).Of(tc.node); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s of %q: %v, want an error that says %q", tc.preset.Name, tc.node, err, tc.says)
		}
	}
	if names := powerquery.NodePresets(); !slices.Equal(names, []string{powerquery.Kepler, powerquery.NodeExporter}) {
		t.Errorf("presets of one node are %v", names)
	}
}

// nobody returns empty results.
type nobody struct{}

func (nobody) Query(context.Context, string, time.Time) ([]promql.Sample, error) {
	return nil, errors.New("out of order")
}

func TestAServerThatFailsIsNamedWithTheNode(t *testing.T) {
	if _, fault, err := of(t, nobody{}, named(t, powerquery.Kepler), "a").Read(t.Context(), noon); fault != energy.Unreadable || err == nil ||
		!strings.Contains(err.Error(), "node a") || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("%v, %v", fault, err)
	}
}
