package meter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	testclock "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/internal/platform/promql"
	"supercargo.dev/supercargo/test/kit/promserver"
)

// asking is the meter of node n1 that may query a server. Its clock stands at noon.
type asking struct {
	*Meter
	t     *testing.T
	clock *testclock.FakeClock
	said  []string
}

func newAsking(t *testing.T, d tree, kind Kind, s Server) *asking {
	t.Helper()
	a := &asking{t: t, clock: testclock.NewFakeClock(noon)}
	m, err := New(Options{
		Node: "n1", Root: d.root, Kind: kind, Server: &s, Rated: 1000, Clock: a.clock,
		Log: funcr.New(func(_, text string) { a.said = append(a.said, text) }, funcr.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Meter = m
	return a
}

// after advances the time, reads, and reads again once the server has responded.
func (a *asking) after(d time.Duration) {
	a.clock.Step(d)
	a.read(a.t.Context())
	a.query.asking.Wait()
	a.read(a.t.Context())
}

// saidOf counts the log lines that contain a text.
func (a *asking) saidOf(what string) int {
	n := 0
	for _, line := range a.said {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}

func preset(t *testing.T, name string) powerquery.Preset {
	t.Helper()
	p, err := powerquery.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kepler stores Kepler's series of a node with two sockets.
func kepler(s *promserver.Server, at time.Time, node string, watts float64) {
	for _, path := range []string{"/0", "/1"} {
		for zone, of := range map[string]float64{"package": watts / 2, "core": watts / 4} {
			s.Put(at, of, "__name__", "kepler_node_cpu_watts", "node_name", node, "zone", zone, "path", path, "job", "kepler")
		}
	}
}

func TestAServerIsAMeter(t *testing.T) {
	s := promserver.Start(t)
	kepler(s, noon, "n1", 100)
	kepler(s, noon, "n2", 300)
	a := newAsking(t, newTree(t), Query, Server{Querier: s.Client(), Preset: preset(t, powerquery.Kepler), Every: time.Second, MaxAge: 50 * time.Second})
	if a.after(0); len(a.said) == 0 {
		t.Error("nothing is said")
	}
	wantReading(t, a.Meter, energy.SourceKepler, 100)
	for _, q := range s.Asked() {
		if !strings.Contains(q, `"n1"`) {
			t.Errorf("%s asks for other nodes", q)
		}
	}
	kepler(s, noon.Add(15*time.Second), "n1", 140)
	a.after(15 * time.Second)
	wantReading(t, a.Meter, energy.SourceKepler, 140)
	// There are no more scrapes.
	for range 5 {
		a.after(8 * time.Second)
	}
	r, ok := a.Last()
	if !ok || r.Watts != 140 || r.Age(a.clock.Now()) != 40*time.Second {
		t.Errorf("%+v, %t; want 140 W, 40 s old", r, ok)
	}
	got := scrape(t, a.Meter)
	for _, want := range []string{
		`supercargo_node_power_watts{kind="measured",node="n1",source="kepler"} 140`,
		`supercargo_node_energy_joules_total{kind="measured",node="n1",source="kepler"} 1800`,
		`supercargo_node_power_reading_timestamp_seconds{kind="measured",node="n1",source="kepler"} 1.767268815e+09`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
	a.after(13 * time.Second) // too old, but still the newest on the server
	if r, ok := a.Last(); ok {
		t.Errorf("%+v counts as what the node draws now", r)
	}
	if n := a.dropsOf(energy.SourceKepler, energy.Stale); n != 1 {
		t.Errorf("%d readings are stale, want 1", n)
	}
	if n := a.dropsOf(energy.SourceKepler, energy.Sound); n != 2 {
		t.Errorf("%d readings were kept, want 2: what is read again is not new", n)
	}
}

func TestWhatAServerSaysIsJudged(t *testing.T) {
	s := promserver.Start(t)
	a := newAsking(t, newTree(t), Query, Server{Querier: s.Client(), Preset: powerquery.Own(`pdu_watts{host="$node"}`), Every: time.Second, MaxAge: time.Minute})
	for i, tc := range []struct {
		watts float64
		fault energy.Fault
	}{{1001, energy.AboveRated}, {-1, energy.Negative}, {math.NaN(), energy.NotANumber}, {math.Inf(1), energy.NotANumber}} {
		at := noon.Add(time.Duration(i+1) * time.Second)
		s.Put(at, tc.watts, "__name__", "pdu_watts", "host", "n1", "instance", "pdu-7:9116")
		before := a.dropsOf(energy.SourceQuery, tc.fault)
		a.after(time.Second)
		if n := a.dropsOf(energy.SourceQuery, tc.fault) - before; n != 1 {
			t.Errorf("%v W: %d readings are %v, want 1", tc.watts, n, tc.fault)
		}
	}
	s.Put(noon.Add(5*time.Second), 1000, "__name__", "pdu_watts", "host", "n1", "instance", "pdu-7:9116")
	a.after(time.Second)
	wantReading(t, a.Meter, energy.SourceQuery, 1000)
	// A second sample is not added, and neither of the two is used.
	s.Put(noon.Add(6*time.Second), 1, "__name__", "pdu_watts", "host", "n1", "instance", "pdu-8:9116")
	a.after(time.Second)
	if r, _ := a.Last(); r.Watts != 1000 || a.dropsOf(energy.SourceQuery, energy.Unreadable) != 1 || a.saidOf("several samples") != 1 {
		t.Errorf("two samples of the node give %+v: %v", r, a.said)
	}
	// A modelled value stays modelled.
	s.Put(noon.Add(7*time.Second), 30, "__name__", "guess_watts", "node", "n1", "source", "model")
	a = newAsking(t, newTree(t), Query, Server{Querier: s.Client(), Preset: powerquery.Own(`guess_watts{node="$node"}`), Every: time.Second, MaxAge: time.Minute})
	a.after(8 * time.Second)
	a.after(2 * time.Second)
	if u, ok := a.Usage(noon.Add(8*time.Second), noon.Add(10*time.Second)); !ok || u.Measured != 0 || u.Modelled != 60 {
		t.Errorf("two seconds of 30 W by a model are %+v, %t", u, ok)
	}
	if got := scrape(t, a.Meter); !strings.Contains(got, `joules_total{kind="modelled",node="n1",source="model"} 60`) || strings.Contains(got, `source="query"`) {
		t.Errorf("what a model has said is shown as measured:\n%s", got)
	}
}

// TestAServerOfTheUsersOwnQueryGoesFirst: and while it does not respond, the node's own meter is
// read.
func TestAServerOfTheUsersOwnQueryGoesFirst(t *testing.T) {
	d := newTree(t)
	d.sensor("hwmon0", "power_meter", "power1_average", "", 150_000_000)
	s := promserver.Start(t)
	pdu := func(at time.Time, watts float64) { s.Put(at, watts, "__name__", "pdu_watts", "host", "n1") }
	a := newAsking(t, d, Auto, Server{Querier: s.Client(), Preset: powerquery.Own(`pdu_watts{host="$node"}`), Every: 5 * time.Second, MaxAge: 30 * time.Second})
	pdu(noon, 200)
	a.read(t.Context())
	wantReading(t, a.Meter, energy.SourceHwmon, 150) // it has not responded yet
	a.query.asking.Wait()
	a.after(5 * time.Second)
	wantReading(t, a.Meter, energy.SourceQuery, 200)
	s.Down.Store(true)
	for range 5 {
		a.after(5 * time.Second)
	}
	if r, ok := a.Last(); !ok || r.Source != energy.SourceQuery {
		t.Errorf("after 25 s without an answer: %+v, %t; want the last one", r, ok)
	}
	a.after(6 * time.Second)
	wantReading(t, a.Meter, energy.SourceHwmon, 150)
	if n := a.saidOf("503"); n != 1 {
		t.Errorf("that the server fails is said %d times, want once:\n%s", n, strings.Join(a.said, "\n"))
	}
	failed := a.dropsOf(energy.SourceQuery, energy.Unreadable)
	if failed != 5 {
		t.Errorf("%d readings are unreadable, want 5", failed)
	}
	for range 60 {
		a.after(5 * time.Second)
	}
	if n := a.dropsOf(energy.SourceQuery, energy.Unreadable); n != failed+5 {
		t.Errorf("a server that is not used was asked %d times in five minutes, want once a minute", n-failed)
	}
	if n := a.saidOf("503"); n != 1 {
		t.Errorf("five minutes later it was said %d times", n)
	}
	s.Down.Store(false)
	back := a.clock.Now().Add(65 * time.Second)
	pdu(back.Add(-5*time.Second), 210)
	a.after(time.Minute)
	for range 2 { // queried as often as before
		a.after(5 * time.Second)
		wantReading(t, a.Meter, energy.SourceQuery, 210)
	}
	if n := a.saidOf("503"); n != 1 || a.saidOf(`"answers"=true`) != 1 {
		t.Errorf("it is not said that the server answers again:\n%s", strings.Join(a.said, "\n"))
	}
	// Two meters see different parts of the machine: the energy between their readings is
	// unknown.
	if u, ok := a.Usage(back.Add(-5*time.Second), back.Add(5*time.Second)); ok {
		t.Errorf("ten seconds, half of them by each, are %+v", u)
	}
	if _, ok := a.Usage(back, back.Add(5*time.Second)); !ok {
		t.Error("nothing is known of the time since")
	}
}

// TestAServerThatSaysWhatCannotBeIsNotBetter: and the meter does not switch to it.
func TestAServerThatSaysWhatCannotBeIsNotBetter(t *testing.T) {
	d := newTree(t)
	d.sensor("hwmon0", "power_meter", "power1_average", "", 150_000_000)
	s := promserver.Start(t)
	s.Put(noon, 5000, "__name__", "pdu_watts", "host", "n1")
	a := newAsking(t, d, Auto, Server{Querier: s.Client(), Preset: powerquery.Own(`pdu_watts{host="$node"}`), Every: 5 * time.Second, MaxAge: 30 * time.Second})
	for range 4 {
		a.after(10 * time.Second)
		wantReading(t, a.Meter, energy.SourceHwmon, 150)
	}
	if n := a.dropsOf(energy.SourceQuery, energy.AboveRated); n != 1 {
		t.Errorf("%d readings are above what the machine can draw, want 1", n)
	}
}

// TestAServerWithAPresetGoesBeforeTheModel: but not before the node's own meters.
func TestAServerWithAPresetGoesBeforeTheModel(t *testing.T) {
	d := newTree(t)
	d.stat(0, 0)
	s := promserver.Start(t)
	a := newAsking(t, d, Auto, Server{Querier: s.Client(), Preset: preset(t, powerquery.Kepler), Every: 5 * time.Second, MaxAge: 30 * time.Second})
	ticks := uint64(0)
	step := func(d2 time.Duration) {
		t.Helper()
		ticks += uint64(2 * d2 / (10 * time.Millisecond))
		d.stat(ticks, 0)
		a.after(d2)
	}
	a.Know(Machine{Type: "m5.large"}) // 20 W at full load
	step(0)
	step(time.Second)
	wantReading(t, a.Meter, energy.SourceModel, 20)
	if a.saidOf("no sample") != 1 {
		t.Errorf("it is not said that the server does not know the node: %v", a.said)
	}
	kepler(s, noon.Add(time.Minute), "n1", 90)
	step(59 * time.Second)
	kepler(s, noon.Add(65*time.Second), "n1", 90)
	step(5 * time.Second)
	wantReading(t, a.Meter, energy.SourceKepler, 90)
	s.Down.Store(true)
	for range 8 {
		step(15 * time.Second)
	}
	wantReading(t, a.Meter, energy.SourceModel, 20)
	// The module of the board's sensors is loaded.
	s.Down.Store(false)
	d.sensor("hwmon0", "power_meter", "power1_average", "", 150_000_000)
	step(time.Minute)
	wantReading(t, a.Meter, energy.SourceHwmon, 150)
	step(time.Second) // receives the response to an earlier query
	asked := len(s.Asked())
	for range 5 {
		kepler(s, a.clock.Now().Add(time.Minute), "n1", 90)
		step(time.Minute)
		wantReading(t, a.Meter, energy.SourceHwmon, 150)
	}
	if n := len(s.Asked()); n != asked {
		t.Errorf("a node with a meter of its own asks the server: %v", s.Asked()[asked:])
	}
}

// TestAnEarlyTickIsNoReasonToWaitForTheNext: a server that is queried every second stays so,
// though its ticks come a little early or late.
func TestAnEarlyTickIsNoReasonToWaitForTheNext(t *testing.T) {
	s := promserver.Start(t)
	kepler(s, noon, "n1", 90)
	a := newAsking(t, newTree(t), Query, Server{Querier: s.Client(), Preset: preset(t, powerquery.Kepler), Every: time.Second, MaxAge: time.Minute})
	for i := range 10 {
		a.after(time.Second + time.Duration(i%2*2-1)*time.Millisecond)
	}
	if n := len(s.Asked()); n != 2*10 {
		t.Errorf("%d queries in ten seconds, want two each second", n)
	}
}

func TestAServerThatWasAskedForHasNoOtherBehindIt(t *testing.T) {
	d := newTree(t)
	d.sensor("hwmon0", "power_meter", "power1_average", "", 150_000_000)
	s := promserver.Start(t)
	s.Down.Store(true)
	a := newAsking(t, d, Query, Server{Querier: s.Client(), Preset: preset(t, powerquery.Kepler), Every: 15 * time.Second, MaxAge: 30 * time.Second})
	for range 20 {
		a.after(15 * time.Second)
	}
	if r, ok := a.Last(); ok {
		t.Errorf("%+v: want nothing", r)
	}
	if n := a.dropsOf(energy.SourceKepler, energy.Unreadable); n != 20 || a.saidOf("503") != 1 {
		t.Errorf("%d readings are unreadable, want 20; said:\n%s", n, strings.Join(a.said, "\n"))
	}
	s.Down.Store(false)
	kepler(s, a.clock.Now(), "n1", 90)
	a.after(15 * time.Second)
	if r, ok := a.Last(); !ok || r.Watts != 90 {
		t.Errorf("the server is back: %+v, %t", r, ok)
	}
}

// silent is a server that does not respond before it is released.
type silent struct {
	asked, left atomic.Int64
	let         chan struct{}
}

func (s *silent) Query(ctx context.Context, _ string, _ time.Time) ([]promql.Sample, error) {
	s.asked.Add(1)
	defer s.left.Add(1)
	select {
	case <-s.let:
	case <-ctx.Done():
		<-time.After(time.Second) // closing a connection takes a while
	}
	return nil, errors.New("too late")
}

// TestASilentServerKeepsUpNobody: neither readings of other meters, nor scrapes.
func TestASilentServerKeepsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTree(t)
		d.sensor("hwmon0", "power_meter", "power1_average", "", 150_000_000)
		s := &silent{let: make(chan struct{})}
		a := newAsking(t, d, Auto, Server{Querier: s, Preset: powerquery.Own(`pdu_watts{host="$node"}`), Every: time.Second, MaxAge: time.Minute})
		for range 300 {
			a.clock.Step(time.Second)
			a.read(t.Context()) // would block forever if it waited for the server
			wantReading(t, a.Meter, energy.SourceHwmon, 150)
		}
		if got := scrape(t, a.Meter); !strings.Contains(got, "supercargo_node_power_watts{") {
			t.Errorf("no power in\n%s", got)
		}
		synctest.Wait()
		if n := s.asked.Load(); n != 1 {
			t.Errorf("%d questions are open, want one", n)
		}
		close(s.let)
		synctest.Wait()
		a.read(t.Context()) // receives that, and queries again
		a.query.asking.Wait()
		if a.saidOf("too late") != 1 || a.dropsOf(energy.SourceQuery, energy.Unreadable) != 1 {
			t.Errorf("said: %v", a.said)
		}
	})
}

// TestAMeterThatEndsLeavesNoQuestionOpen: whatever the server does.
func TestAMeterThatEndsLeavesNoQuestionOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{let: make(chan struct{})}
		a := newAsking(t, newTree(t), Query, Server{Querier: s, Preset: powerquery.Own(`pdu_watts{host="$node"}`), Every: time.Second, MaxAge: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		synctest.Wait()
		if s.asked.Load() != 1 {
			t.Error("the server was not asked")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || s.left.Load() != 1 {
			t.Errorf("the meter ended with %v, and %d of 1 question", err, s.left.Load())
		}
	})
}

// TestTheEnergyOfALoadIsKnownThroughAServer: the machine draws 20 W, and 70 W while something
// runs on it.
func TestTheEnergyOfALoadIsKnownThroughAServer(t *testing.T) {
	tests := []struct {
		name            string
		preset          powerquery.Preset
		scrape, every   int // seconds
		from, to, until int // seconds after noon
		off             float64
		known           int // the energy of a shorter load is unknown
	}{
		{"Kepler, scraped each second", preset(t, powerquery.Kepler), 1, 1, 60, 90, 100, 0.02, 0},
		{"Kepler, scraped every 5 s", preset(t, powerquery.Kepler), 5, 5, 62, 132, 150, 0.05, 0},
		{"counters, scraped every 15 s", preset(t, powerquery.NodeExporter), 15, 5, 67, 367, 400, 0.05, 150},
		{"a query of one's own, scraped every 15 s", powerquery.Own(`pdu_watts{host="$node"}`), 15, 15, 67, 367, 400, 0.1, 150},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := promserver.Start(t)
			a := newAsking(t, newTree(t), Query, Server{Querier: s.Client(), Preset: tc.preset, Every: time.Duration(tc.every) * time.Second, MaxAge: 2 * time.Minute})
			drawn := func(second int) float64 { return float64(20*second + 50*max(0, min(second, tc.to)-tc.from)) }
			for second := 0; second <= tc.until; second++ {
				at := noon.Add(time.Duration(second) * time.Second)
				if second%tc.scrape == 0 {
					watts := drawn(second+1) - drawn(second)
					kepler(s, at, "n1", watts)
					s.Put(at, watts, "__name__", "pdu_watts", "host", "n1")
					s.Put(at, 1000+drawn(second), "__name__", "node_rapl_package_joules_total", "path", "/0", "node", "n1")
				}
				a.clock.SetTime(at)
				a.after(0)
			}
			used := func(from, to int) (float64, bool) {
				u, ok := a.Usage(noon.Add(time.Duration(from)*time.Second), noon.Add(time.Duration(to)*time.Second))
				if u.Modelled != 0 {
					t.Errorf("%v J count as modelled", u.Modelled)
				}
				return float64(u.Measured), ok
			}
			whole, ok := used(tc.from, tc.to)
			idle := float64(20 * (tc.to - tc.from))
			if task := drawn(tc.to) - drawn(tc.from) - idle; !ok || math.Abs(whole-idle-task) > tc.off*task {
				t.Errorf("the task took %.1f J, %t; want %.1f within %v", whole-idle, ok, task, tc.off)
			} else {
				t.Logf("the task took %.1f J of %.1f", whole-idle, task)
			}
			// The increase of counters between scrapes does not depend on when the load was in
			// between.
			if exact, ok := used(60, 375); tc.preset.MeanOf > 0 && (!ok || math.Abs(exact-(drawn(375)-drawn(60))) > 1e-3) {
				t.Errorf("from one scrape to another %v J, %t; want %v", exact, ok, drawn(375)-drawn(60))
			}
			if tc.known == 0 {
				if part, ok := used(tc.from+1, tc.from+8); !ok || math.Abs(part-7*70) > 0.2*7*70 {
					t.Errorf("seven seconds of it took %v J, %t", part, ok)
				}
				return
			}
			if part, ok := used(tc.from, tc.from+tc.known-1); ok {
				t.Errorf("a load of %d s, which may be anywhere between two readings, took %v J", tc.known-1, part)
			}
		})
	}
}

func TestAServerThatCannotBeAskedIsRefused(t *testing.T) {
	s := Server{Querier: &silent{}, Preset: preset(t, powerquery.Kepler), Every: time.Second, MaxAge: time.Minute}
	for says, change := range map[string]func(*Options, *Server){
		"a server is required":                 func(o *Options, _ *Server) { o.Server = nil },
		"query interval 0s":                    func(_ *Options, s *Server) { s.Every = 0 },
		"maximum age 1ms":                      func(_ *Options, s *Server) { s.MaxAge = time.Millisecond },
		"the client of the server is required": func(_ *Options, s *Server) { s.Querier = nil },
		"all nodes":                            func(_ *Options, s *Server) { s.Preset = powerquery.Own("pdu_watts") },
		"node meters":                          func(_ *Options, s *Server) { s.Preset = preset(t, powerquery.Supercargo) },
	} {
		server := s
		o := Options{Node: "n1", Root: "/", Kind: Query, Server: &server}
		if change(&o, &server); o.Server != nil {
			o.Server = &server
		}
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error that says %q", err, says)
		}
	}
	// Other meters do not use it.
	s.Preset = powerquery.Own("pdu_watts")
	if m, err := New(Options{Node: "n1", Root: "/", Kind: Model, Server: &s}); err != nil || m.query != nil {
		t.Errorf("%v", err)
	}
}

func ExampleKinds() {
	fmt.Println(Kinds())
	// Output: [auto rapl hwmon query model none]
}
