package probe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// switchboard simulates governors, and records calls.
type switchboard struct {
	now       string
	available []string
	did       []string
	err       error
}

func (*switchboard) Home() string { return "schedutil" }

func (s *switchboard) Available(wanted ...string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(g string) bool { return !slices.Contains(s.available, g) })
}

func (s *switchboard) Set(g string) error {
	s.now, s.did = g, append(s.did, g)
	return s.err
}

func (s *switchboard) Restore() error { s.now = "schedutil"; return nil }

// steady is the meter of a machine with constant power.
type steady energy.Watts

func (w steady) Energy(_ context.Context, from, to time.Time) (energy.Joules, bool, bool) {
	return energy.Joules(float64(w) * to.Sub(from).Seconds()), true, true
}

func options(t *testing.T) Options {
	t.Helper()
	return Options{
		Sizes: Sizes{MilliCPU: []int64{1000, 2000}, MemoryBytes: []int64{1 << 20, 2 << 20}}, Seed: 1, Amount: 1, Unlimited: true, Idle: time.Millisecond,
		Journal: filepath.Join(t.TempDir(), "state", "journal"), Machine: "abc", Clock: clock.RealClock{}, Log: logr.Discard(),
		Try: []string{"powersave", "performance"},
	}
}

func TestAProbeDoesEachTaskAtEachSizeUnderEachGovernor(t *testing.T) {
	o := options(t)
	governors := &switchboard{available: []string{"performance", "powersave"}}
	o.Governors, o.Meter = governors, steady(50)
	r, err := Start(t.Context(), o)
	if err != nil || !r.Complete || !r.Switched || r.Home != "schedutil" {
		t.Fatalf("%v, complete: %t, switched: %t, home: %s", err, r.Complete, r.Switched, r.Home)
	}
	if len(r.Runs) != 3*4*2 || len(r.Idle) != 3 {
		t.Errorf("%d runs and %d idle times, want 24 and 3", len(r.Runs), len(r.Idle))
	}
	if governors.now != "schedutil" || strings.Join(governors.did, " ") != "powersave performance" {
		t.Errorf("governors were %q, and now %q", governors.did, governors.now)
	}
	for _, run := range r.Runs {
		if run.Runtime <= 0 || !run.Measured || run.Machine <= 0 || run.Checksum == 0 {
			t.Errorf("%+v", run)
		}
	}
}

func TestWithoutGovernorsTheMachineIsProbedAsItIs(t *testing.T) {
	o := options(t)
	governors := &switchboard{}
	o.Governors = governors
	r, err := Start(t.Context(), o)
	if err != nil || r.Switched || len(r.Runs) != 8 || r.Runs[0].Governor != "schedutil" || len(governors.did) != 0 {
		t.Errorf("%v: %+v, switched %q", err, r, governors.did)
	}
}

func TestAGovernorThatCannotBeSetEndsTheProbe(t *testing.T) {
	o := options(t)
	o.Governors = &switchboard{available: []string{"powersave"}, err: errors.New("no")}
	if r, err := Start(t.Context(), o); err == nil || r.Complete || r.Failure == "" || len(r.Runs) != 8 {
		t.Errorf("%v: complete %t, failure %q, %d runs", err, r.Complete, r.Failure, len(r.Runs))
	}
}

// meterThatStops cancels a probe after a number of runs.
type meterThatStops struct {
	steady
	left   int
	cancel func()
}

func (m *meterThatStops) Energy(ctx context.Context, from, to time.Time) (energy.Joules, bool, bool) {
	if m.left--; m.left < 0 {
		m.cancel()
	}
	return m.steady.Energy(ctx, from, to)
}

// slow is a meter that does not know intervals shorter than least.
type slow struct {
	steady
	least time.Duration
	asked int
}

func (m *slow) Energy(ctx context.Context, from, to time.Time) (energy.Joules, bool, bool) {
	m.asked++
	if to.Sub(from) < m.least {
		return 0, false, false
	}
	return m.steady.Energy(ctx, from, to)
}

// leaping is a clock on which a wait takes exactly its duration, and anything else a microsecond.
type leaping struct {
	clock.RealClock
	now time.Time
}

func (c *leaping) Now() time.Time {
	c.now = c.now.Add(time.Microsecond)
	return c.now
}

func (c *leaping) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *leaping) After(d time.Duration) <-chan time.Time {
	c.now = c.now.Add(d)
	passed := make(chan time.Time, 1)
	passed <- c.now
	return passed
}

// TestASlowMeterIsGivenTimeToKnowIdlePower: under the machine's own governor, under which pods
// run.
func TestASlowMeterIsGivenTimeToKnowIdlePower(t *testing.T) {
	for _, tc := range []struct {
		least time.Duration // in units of Options.Idle
		idle  int
		asked int
	}{{1, 2, 2}, {10, 1, 5 + 1}, {12, 1, 5 + 1}, {1e9, 0, 5 + 1}} {
		o := options(t)
		o.Sizes = Sizes{MilliCPU: []int64{1000}, MemoryBytes: []int64{1 << 20}}
		m := &slow{steady: 50, least: tc.least * o.Idle}
		o.Governors, o.Meter, o.Clock = &switchboard{available: []string{"powersave"}}, m, &leaping{}
		r, err := Start(t.Context(), o)
		if err != nil || len(r.Idle) != tc.idle || tc.idle > 0 && (r.Idle[0].Governor != "schedutil" || r.Idle[0].For < m.least) {
			t.Errorf("a meter that knows %d times as long: %v, idle %+v, want %d", tc.least, err, r.Idle, tc.idle)
		}
		if asked := m.asked - len(r.Runs); asked > tc.asked || tc.idle == 0 && asked != tc.asked {
			t.Errorf("a meter that knows %d times as long is asked %d times, want %d", tc.least, asked, tc.asked)
		}
	}
}

// TestAProbeContinuesWhereItWasStopped: however often it is stopped, each task runs once.
func TestAProbeContinuesWhereItWasStopped(t *testing.T) {
	o := options(t)
	governors := &switchboard{available: []string{"powersave"}}
	o.Governors = governors
	var last Report
	starts := 0
	for ; !last.Complete; starts++ {
		if starts > 30 {
			t.Fatal("it does not come to an end")
		}
		ctx, cancel := context.WithCancel(t.Context())
		o.Meter = &meterThatStops{steady: 50, left: 3, cancel: cancel}
		r, err := Start(ctx, o)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if len(r.Runs) < len(last.Runs) {
			t.Fatalf("%d runs after %d", len(r.Runs), len(last.Runs))
		}
		for i, run := range last.Runs {
			if !run.Started.Equal(r.Runs[i].Started) {
				t.Fatalf("run %d was done again", i)
			}
		}
		if last = r; governors.now == "powersave" {
			t.Fatal("the governor was not put back")
		}
	}
	if len(last.Runs) != 16 || len(last.Idle) != 2 || starts < 4 {
		t.Errorf("%d runs and %d idle times in %d starts", len(last.Runs), len(last.Idle), starts)
	}
	o.Seed = 2 // another probe
	o.Meter = steady(50)
	r, err := Start(t.Context(), o)
	if err != nil || r.Runs[0].Started.Equal(last.Runs[0].Started) {
		t.Errorf("another probe takes what this one did (%v)", err)
	}
}

func TestALineThatWasCutOffIsPassedOver(t *testing.T) {
	o := options(t)
	if _, err := Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	text := testfile.Read(t, o.Journal)
	testfile.Write(t, o.Journal, text[:len(text)-20])
	if done, err := readJournal(o.Journal, o.identity(), time.Time{}); err != nil || len(done.Runs) != 7 {
		t.Errorf("%d runs are known (%v), want 7", len(done.Runs), err)
	}
	if r, err := Start(t.Context(), o); err != nil || len(r.Runs) != 8 {
		t.Errorf("%d runs (%v), want 8", len(r.Runs), err)
	}
}

func TestWhatWasDoneLongAgoIsDoneAgain(t *testing.T) {
	o := options(t)
	before, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, done, err := openJournal(o.Journal, o.identity(), time.Now().Add(journalAge-time.Minute)); err != nil || len(done.Runs) != len(before.Runs) {
		t.Errorf("%d runs are known the next day (%v)", len(done.Runs), err)
	}
	if _, done, err := openJournal(o.Journal, o.identity(), time.Now().Add(journalAge+time.Minute)); err != nil || len(done.Runs) != 0 {
		t.Errorf("%d runs are known later (%v)", len(done.Runs), err)
	}
}

// TestIdlePowerMeasuredLongAgoIsMeasuredAgain: a probe that ended before its first run leaves only idle times.
func TestIdlePowerMeasuredLongAgoIsMeasuredAgain(t *testing.T) {
	o := options(t)
	o.Meter = steady(50)
	started := time.Now()
	j, _, err := openJournal(o.Journal, o.identity(), started)
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{Options: o, journal: j}
	if err := errors.Join(p.idle(t.Context(), ""), j.close()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		later time.Duration
		idle  int
	}{{"within a day", journalAge - time.Minute, 1}, {"after a day", journalAge + time.Minute, 0}} {
		j, done, err := openJournal(o.Journal, o.identity(), started.Add(tc.later))
		if err != nil || len(done.Idle) != tc.idle {
			t.Errorf("%s: %d idle times are known (%v), want %d", tc.name, len(done.Idle), err, tc.idle)
		}
		if err := j.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAResultThatDiffersIsFound: the same work must give the same result, even after a restart.
func TestAResultThatDiffersIsFound(t *testing.T) {
	o := options(t)
	if _, err := Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	j, done, err := openJournal(o.Journal, o.identity(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.close(), os.Remove(o.Journal)); err != nil {
		t.Fatal(err)
	}
	if j, _, err = openJournal(o.Journal, o.identity(), time.Now()); err != nil {
		t.Fatal(err)
	}
	done.Runs[0].Checksum++
	if err := errors.Join(j.add(entry{Run: &done.Runs[0]}), j.close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), o); !errors.Is(err, ErrWrong) {
		t.Errorf("%v, want ErrWrong", err)
	}
}

func TestAReportComesThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Report{Home: rapid.SampledFrom([]string{"", "schedutil"}).Draw(t, "home"), Switched: rapid.Bool().Draw(t, "switched"), Complete: true}
		for range rapid.IntRange(0, 40).Draw(t, "runs") {
			r.Runs = append(r.Runs, Run{
				Task: rapid.SampledFrom(Tasks()).Draw(t, "task"), Governor: rapid.SampledFrom([]string{"", "powersave"}).Draw(t, "governor"),
				Size:    profile.Size{MilliCPU: rapid.Int64Range(1, 1e6).Draw(t, "cpu"), MemoryBytes: rapid.Int64Range(1, 1e6).Draw(t, "MiB") << 20},
				Runtime: time.Duration(rapid.Int64Range(0, 1e7).Draw(t, "ms")) * time.Millisecond, CPU: time.Second,
				Machine: energy.Joules(rapid.Int64Range(0, 1e7).Draw(t, "J")), Measured: rapid.Bool().Draw(t, "measured"),
			})
		}
		r.Idle = []Idle{{Governor: "powersave", For: time.Minute, Machine: 3, Measured: true}}
		text, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if back.Home != r.Home || back.Switched != r.Switched || !back.Complete || !slices.Equal(back.Idle, r.Idle) || !slices.Equal(back.Runs, r.Runs) {
			t.Fatalf("%+v\nbecame\n%+v", r, back)
		}
	})
}

// TestTheLongestReportFits: all sizes of the largest machines, under three governors.
func TestTheLongestReportFits(t *testing.T) {
	sizes, err := SizesFor(profile.Size{MilliCPU: 960000, MemoryBytes: 24 << 40})
	if err != nil {
		t.Fatal(err)
	}
	r := Report{Home: "conservative", Switched: true, Failure: strings.Repeat("x", 1000)}
	for _, g := range []string{"conservative", "powersave", "performance"} {
		r.Idle = append(r.Idle, Idle{Governor: g, For: time.Hour, Machine: 1e6, Measured: true})
		for _, size := range sizes.Points() {
			for _, task := range Tasks() {
				r.Runs = append(r.Runs, Run{Task: task, Size: size, Governor: g, Runtime: 100 * time.Second, CPU: 100 * time.Second, Machine: 12345, Measured: true})
			}
		}
	}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs take %d bytes", len(r.Runs), len(text))
}

func FuzzDecode(f *testing.F) {
	text, err := Report{Home: "x", Runs: []Run{{Task: MatMul, Size: profile.Size{MilliCPU: 1, MemoryBytes: 1 << 20}}}}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v":1,"g":["a"],"z":[[1,1]],"r":[[0,0,1,1,1,1,1]]}`))
	f.Add([]byte(`{"v":1,"g":["a"],"i":[[1,1,1,1]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Decode(text)
		if err != nil {
			return
		}
		samples, _ := r.Samples(Power{Model: energy.Model{Idle: 1, Full: 2}, Threads: 1})
		for _, s := range samples {
			if s.Size.MilliCPU < 1 || s.Size.MemoryBytes < 1 || s.Runtime < 0 {
				t.Errorf("sample %+v", s)
			}
		}
	})
}

func TestSamplesAreTheTasksTogetherWithoutIdlePower(t *testing.T) {
	small, large := profile.Size{MilliCPU: 500, MemoryBytes: 1 << 20}, profile.Size{MilliCPU: 1000, MemoryBytes: 1 << 20}
	r := Report{
		Home: "schedutil", Idle: []Idle{{Governor: "schedutil", For: 10 * time.Second, Machine: 300, Measured: true}},
		Runs: []Run{
			{Task: KMeans, Size: small, Governor: "schedutil", Runtime: 10 * time.Second, CPU: 5 * time.Second, Machine: 400, Measured: true},
			{Task: MatMul, Size: small, Governor: "schedutil", Runtime: 20 * time.Second, CPU: 10 * time.Second, Machine: 700, Measured: true},
			{Task: KMeans, Size: small, Governor: "powersave", Runtime: time.Hour},
			{Task: KMeans, Size: large, Governor: "schedutil", Runtime: 5 * time.Second, CPU: 5 * time.Second},
			{Task: MatMul, Size: large, Governor: "schedutil", Runtime: 10 * time.Second, CPU: 10 * time.Second, Machine: 350, Measured: true},
			{Task: KMeans, Size: profile.Size{MilliCPU: 2000, MemoryBytes: 1 << 20}, Governor: "schedutil", Runtime: time.Second},
		},
	}
	samples, modelled := r.Samples(Power{Model: energy.Model{Idle: 30, Full: 70}, Threads: 4})
	want := []profile.Sample{
		{Size: small, Runtime: 30 * time.Second, Energy: 400 - 300 + 700 - 600},
		// One of four threads busy for 5 s is a quarter of 40 W; and 350 J minus 300 J.
		{Size: large, Runtime: 15 * time.Second, Energy: 50 + 50},
	}
	if !slices.Equal(samples, want) || modelled != 1 {
		t.Errorf("%+v, %d modelled; want %+v and 1", samples, modelled, want)
	}
}

func TestSizesFollowTheMachine(t *testing.T) {
	tests := []struct {
		cpu, memory int64
		want        string
	}{
		{1900, 4 << 30, "250m,500m,1 64Mi,256Mi,1008Mi"},
		{4000, 16 << 30, "250m,500m,1,2,4 64Mi,256Mi,1Gi"},
		{7910, 64 << 30, "250m,500m,1,2,4,7 64Mi,256Mi,1Gi"},
		{64000, 64 << 30, "250m,500m,1,4,16,64 64Mi,256Mi,1Gi"},
		{500, 256 << 20, "250m,500m 48Mi"},
		{300, 256 << 20, "250m,300m 48Mi"},
		{100, 256 << 20, ""},
		{1000, 64 << 20, ""},
	}
	for _, tc := range tests {
		s, err := SizesFor(profile.Size{MilliCPU: tc.cpu, MemoryBytes: tc.memory})
		got := ""
		if err == nil {
			cpu, memory := s.Flags()
			got = cpu + " " + memory
			if back, err := ParseSizes(cpu, memory); err != nil || !slices.Equal(back.Points(), s.Points()) {
				t.Errorf("%s is read as %+v (%v)", got, back, err)
			}
			if l := s.Largest(); l.MilliCPU > tc.cpu || l.MemoryBytes > tc.memory {
				t.Errorf("%d m and %d bytes have no room for %+v", tc.cpu, tc.memory, l)
			}
		}
		if got != tc.want {
			t.Errorf("%d m and %d MiB: %q (%v), want %q", tc.cpu, tc.memory>>20, got, err, tc.want)
		}
	}
	for _, wrong := range [][2]string{{"", "1Mi"}, {"1", "x"}, {"2,1", "1Mi"}, {"1", "1"}, {"1,2,3,4,5,6,7", "1Mi"}, {"-1", "1Mi"}} {
		if s, err := ParseSizes(wrong[0], wrong[1]); err == nil {
			t.Errorf("%q is read as %+v", wrong, s)
		}
	}
}
