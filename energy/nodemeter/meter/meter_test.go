package meter

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/util/wait"

	"supercargo.dev/supercargo/energy"
)

func TestPackagesAndMemoryAreAddedUpAndNothingElse(t *testing.T) {
	d := newTree(t)
	d.server()
	m, clock := d.meter(Options{})
	m.read(t.Context())
	if r, ok := m.Last(); ok {
		t.Fatalf("one reading of counters gives %+v", r)
	}
	clock.Step(2 * time.Second)
	for id, watts := range map[string]uint64{
		"intel-rapl:0": 100, "intel-rapl:0:2": 7, "intel-rapl:1": 50, "intel-rapl:1:0": 3,
		// None of these must count.
		"intel-rapl:0:0": 60, "intel-rapl:0:1": 20, "intel-rapl:2": 190, "intel-rapl-mmio:0": 100, "intel-rapl-mmio:0:0": 7, "dtpm:0": 11,
	} {
		d.counter(id, 1_000_000+2*watts*1_000_000)
	}
	m.read(t.Context())
	wantReading(t, m, energy.SourceRAPL, 160)
	if rated := m.now.rated(); rated != 2*(200+40+200+40) {
		t.Errorf("rated at %v W, want twice the limits of what is counted", rated)
	}
}

// TestACounterThatGoesBack: a wrap counts, and anything else is dropped, reported and
// interpolated.
func TestACounterThatGoesBack(t *testing.T) {
	d := newTree(t)
	d.zone("intel-rapl:0", "package-0", 100)
	m, clock := d.meter(Options{})
	steps := []struct {
		name    string
		counter uint64
		watts   energy.Watts // 0 if dropped
		fault   energy.Fault
	}{
		{"first evaluation", wrapAt - 150_000_000, 0, energy.Sound},
		{"it continues", wrapAt - 50_000_000, 100, energy.Sound},
		{"it wraps around", 30_000_000, 80, energy.Sound},
		{"it continues", 110_000_000, 80, energy.Sound},
		{"more than anything draws", 1_110_000_000, 0, energy.AboveRated},
		{"it continues from there", 1_190_000_000, 80, energy.Sound},
		{"it began again", 10_000_000, 0, energy.CounterReset},
		{"it continues from there", 90_000_000, 80, energy.Sound},
	}
	for i, s := range steps {
		if i > 0 {
			clock.Step(time.Second)
		}
		d.counter("intel-rapl:0", s.counter)
		before := m.dropsOf(energy.SourceRAPL, s.fault)
		m.read(t.Context())
		if s.watts > 0 {
			wantReading(t, m, energy.SourceRAPL, s.watts)
		} else if s.fault != energy.Sound && m.dropsOf(energy.SourceRAPL, s.fault) != before+1 {
			t.Errorf("%s: %v is not counted", s.name, s.fault)
		}
	}
	// 80 + 80 + two interpolated seconds and the one after each, of 80.
	if j, ok := m.Energy(noon.Add(1*time.Second), noon.Add(7*time.Second)); !ok || math.Abs(float64(j-480)) > 1e-6 {
		t.Errorf("six seconds used %v J, %t; want 480", j, ok)
	}
}

func (m *Meter) dropsOf(s energy.Source, f energy.Fault) int {
	if m.dropped[s] == nil {
		return 0
	}
	return m.dropped[s].Of(f)
}

func TestWhatIsNotKnownIsNotFilledIn(t *testing.T) {
	d := newTree(t)
	d.zone("intel-rapl:0", "package-0", 100)
	m, clock := d.meter(Options{})
	energyAt := func(second int, joules uint64) {
		t.Helper()
		clock.SetTime(noon.Add(time.Duration(second) * time.Second))
		d.counter("intel-rapl:0", joules*1_000_000)
		m.read(t.Context())
	}
	energyAt(0, 100)
	energyAt(1, 150)
	energyAt(2, 200)
	energyAt(90, 300) // longer since the last reading than a counter may take to wrap
	if n := m.dropsOf(energy.SourceRAPL, energy.Stale); n != 1 {
		t.Errorf("%d readings are stale, want 1", n)
	}
	if r, ok := m.Last(); ok {
		t.Errorf("%+v counts as what the node draws now", r)
	}
	energyAt(91, 350)
	energyAt(92, 400)
	tests := []struct {
		from, to float64
		want     energy.Joules // negative if unknown
	}{
		{1, 2, 50}, {1.25, 1.75, 25}, {91, 92, 50}, {3, 4, -1}, {89, 91, -1}, {1, 91, -1}, {1, 92, -1}, {2, 3, -1}, {0, 2, -1}, {91, 93, -1}, {91.5, 91.5, -1}, {92, 91, -1},
	}
	for _, tc := range tests {
		at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
		j, ok := m.Energy(at(tc.from), at(tc.to))
		if ok != (tc.want >= 0) || ok && math.Abs(float64(j-tc.want)) > 1e-9 {
			t.Errorf("from %v s to %v s: %v J, %t; want %v", tc.from, tc.to, j, ok, tc.want)
		}
	}
}

func TestAMeterThatGoesAwayIsSearchedAgain(t *testing.T) {
	d := newTree(t)
	d.zone("intel-rapl:0", "package-0", 100)
	d.stat(0, 0)
	m, clock := d.meter(Options{})
	m.Know(Machine{Type: "m5.large"}) // 4.4 W idle, 20 W at full load
	second := func(joules, ticks uint64) {
		clock.Step(time.Second)
		if joules > 0 {
			d.counter("intel-rapl:0", joules*1_000_000)
		}
		d.stat(ticks, 0)
		m.read(t.Context())
	}
	second(10, 200)
	second(60, 400)
	wantReading(t, m, energy.SourceRAPL, 50)
	if err := os.RemoveAll(filepath.Join(d.root, powercap)); err != nil {
		t.Fatal(err)
	}
	second(0, 600)
	if n := m.dropsOf(energy.SourceRAPL, energy.Unreadable); n != 1 {
		t.Errorf("%d readings are unreadable, want 1", n)
	}
	clock.Step(time.Minute)
	second(0, 6000) // the look for a meter finds none: first reading of the CPU time
	second(0, 6200)
	wantReading(t, m, energy.SourceModel, 20)
	d.zone("intel-rapl:0", "package-0", 100)
	clock.Step(time.Minute)
	second(10, 20000)
	second(70, 20200)
	wantReading(t, m, energy.SourceRAPL, 60)
}

func TestTheModelFollowsHowBusyTheNodeIs(t *testing.T) {
	d := newTree(t)
	d.stat(1000, 1000)
	m, clock := d.meter(Options{})
	m.Know(Machine{Type: "m5.large"})
	m.read(t.Context())
	busy, idle := uint64(1000), uint64(1000)
	for _, s := range []struct {
		busy, idle uint64
		want       energy.Watts
	}{{0, 200, 4.4}, {20, 180, 7}, {100, 100, 14.1}, {200, 0, 20}} {
		busy, idle = busy+s.busy, idle+s.idle
		clock.Step(time.Second)
		d.stat(busy, idle)
		m.read(t.Context())
		wantReading(t, m, energy.SourceModel, s.want)
	}
	// The API server's description may come late, or change.
	m.Know(Machine{Type: "a1.2xlarge"})
	clock.Step(time.Second)
	d.stat(busy, idle+200)
	m.read(t.Context())
	wantReading(t, m, energy.SourceModel, 9.5)
	// The profile takes precedence over the table.
	m.SetModel(&energy.Model{Idle: 3, Full: 30})
	clock.Step(time.Second)
	d.stat(busy, idle+400)
	m.read(t.Context())
	wantReading(t, m, energy.SourceModel, 3)
	if m.origin != originOwn {
		t.Errorf("the model is of %q", m.origin)
	}
	m.SetModel(nil)
	u, ok := m.Usage(noon.Add(time.Second), noon.Add(5*time.Second))
	if want := energy.Joules(7 + 14.1 + 20 + 9.5); !ok || u.Measured != 0 || math.Abs(float64(u.Modelled-want)) > 1e-6 {
		t.Errorf("four seconds used %+v, %t; want %v J, all of them modelled", u, ok, want)
	}
	// The kernel's counter stops, then restarts.
	clock.Step(time.Second)
	m.read(t.Context())
	clock.Step(time.Second)
	d.stat(1, 1)
	m.read(t.Context())
	if a, b := m.dropsOf(energy.SourceModel, energy.NoTimePassed), m.dropsOf(energy.SourceModel, energy.CounterReset); a != 1 || b != 1 {
		t.Errorf("%d and %d readings are dropped, want 1 and 1", a, b)
	}
}

func TestReadingsOverTheRatedPowerAreDropped(t *testing.T) {
	d := newTree(t)
	d.sensor("hwmon0", "power_meter", "power1_average", "", 250_000_000)
	m, clock := d.meter(Options{Rated: 400})
	m.read(t.Context())
	wantReading(t, m, energy.SourceHwmon, 250)
	for _, bad := range []struct {
		microwatts int64
		fault      energy.Fault
	}{{401_000_000, energy.AboveRated}, {-1, energy.Negative}} {
		clock.Step(time.Second)
		d.sensor("hwmon0", "power_meter", "power1_average", "", bad.microwatts)
		m.read(t.Context())
		if n := m.dropsOf(energy.SourceHwmon, bad.fault); n != 1 {
			t.Errorf("%d µW: %d readings are %v, want 1", bad.microwatts, n, bad.fault)
		}
	}
	clock.Step(time.Second)
	d.sensor("hwmon0", "power_meter", "power1_average", "", 350_000_000)
	m.read(t.Context())
	if j, ok := m.Energy(noon, noon.Add(3*time.Second)); !ok || j != 900 {
		t.Errorf("three seconds used %v J, %t; want 900 by the trapezoidal rule", j, ok)
	}
}

func TestWhichMeterIsUsed(t *testing.T) {
	all := func(d tree) {
		d.zone("intel-rapl:0", "package-0", 100)
		d.sensor("hwmon0", "power_meter", "power1_average", "", 1)
		d.stat(0, 0)
	}
	tests := []struct {
		name    string
		make    func(tree)
		options Options
		want    energy.Source // "" for none
	}{
		{"all there", all, Options{}, energy.SourceRAPL},
		{"sensors asked for", all, Options{Kind: Hwmon}, energy.SourceHwmon},
		{"the model asked for", all, Options{Kind: Model}, energy.SourceModel},
		{"RAPL asked for and not there", func(d tree) { d.stat(0, 0) }, Options{Kind: RAPL}, ""},
		{"a sensor that is not there", func(d tree) { d.stat(0, 0) }, Options{Kind: Hwmon, Sensors: []string{"ina2xx/power1"}}, ""},
		{"the same, and others may be used", func(d tree) { d.stat(0, 0) }, Options{Sensors: []string{"ina2xx/power1"}}, energy.SourceModel},
		{"a counter that is no number", func(d tree) {
			d.zone("intel-rapl:0", "package-0", 100)
			d.write(filepath.Join(powercap, "intel-rapl:0", "energy_uj"), "many")
			d.stat(0, 0)
		}, Options{}, energy.SourceModel},
		{"nothing at all", func(tree) {}, Options{Kind: Hwmon}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d := newTree(t)
			tc.make(d)
			m, _ := d.meter(tc.options)
			m.read(t.Context())
			got := energy.Source("")
			if m.now != nil {
				got = m.now.source()
			}
			if got != tc.want {
				t.Errorf("%q is used, want %q", got, tc.want)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	d := newTree(t)
	d.stat(0, 0)
	m, clock := d.meter(Options{})
	m.Know(Machine{Type: "m5.large", Zone: "eu-1", Architecture: "amd64", Cores: 1.93})
	for busy := range uint64(3) {
		d.stat(busy*200, 0)
		m.read(t.Context())
		clock.Step(time.Second)
	}
	m.read(t.Context()) // the kernel's counter stops
	got := scrape(t, m)
	for _, want := range []string{
		`supercargo_node_power_watts{kind="modelled",node="n1",source="model"} 20`,
		`supercargo_node_energy_joules_total{kind="modelled",node="n1",source="model"} 20`,
		`supercargo_node_power_reading_timestamp_seconds{kind="modelled",node="n1",source="model"} 1.767268802e+09`,
		`supercargo_node_power_readings_dropped_total{fault="no-time-passed",node="n1",source="model"} 1`,
		`supercargo_node_power_readings_dropped_total{fault="negative",node="n1",source="model"} 0`,
		`supercargo_node_info{arch="amd64",machine_type="m5.large",node="n1",power_model="machine-type",zone="eu-1"} 1`,
		`supercargo_node_allocatable_cores{node="n1"} 1.93`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
	clock.Step(time.Minute)
	if got := scrape(t, m); strings.Contains(got, "supercargo_node_power_watts") || !strings.Contains(got, "supercargo_node_energy_joules_total{") {
		t.Errorf("a minute later, want the energy and no power:\n%s", got)
	}
}

// scrape returns the metrics of a scrape.
func scrape(t *testing.T, m *Meter) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.PanicOnError}).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	return answer.Body.String()
}

// TestThisMachineIsRead reads the machine that runs the test, with whatever meter it has.
func TestThisMachineIsRead(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("this system shows no /proc/stat")
	}
	m, err := New(Options{Node: "here", Root: "/", Log: testr.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		_, ok := m.Last()
		return ok, nil
	}); err != nil {
		t.Fatal("no reading was taken")
	}
	r, ok := m.Last()
	if !ok || !(r.Watts > 0) || r.Watts > 10_000 {
		t.Errorf("this machine draws %+v, %t", r, ok)
	}
	t.Logf("this machine draws %.2f W by %s", r.Watts, r.Source)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the meter ended with %v", err)
	}
}

func TestAMeterWithoutANodeIsRefused(t *testing.T) {
	for _, o := range []Options{{}, {Node: "n"}, {Root: "/"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is a meter", o)
		}
	}
}

// BenchmarkRead reads the CPU time of this machine, which is all that a node without a meter
// costs every second.
func BenchmarkRead(b *testing.B) {
	m := &modelled{proc: "/proc", model: func(int) energy.Model { return energy.Model{Idle: 10, Full: 20} }}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.read(time.Now); err != nil {
			b.Fatal(err)
		}
	}
}
