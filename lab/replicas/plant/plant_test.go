package plant

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

func newPlant(t testing.TB, c Config, lambda float64) *Plant {
	t.Helper()
	p, err := New(c, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SetRate(lambda); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestInBalanceItIsTheQueueOfTheTextbook(t *testing.T) {
	for _, tc := range []struct {
		replicas int
		lambda   float64
	}{{1, 0.7}, {2, 1.5}, {5, 4}, {12, 10}, {40, 37}} {
		c := Config{Model: queueing.Model{MuB: 1}, Replicas: tc.replicas}
		p := newPlant(t, c, tc.lambda)
		p.RunTo(2000)
		w := p.RunTo(2000 + 2e6/tc.lambda)
		want := queueing.System{Servers: tc.replicas, ArrivalRate: tc.lambda, ServiceRate: 1}.Response()
		if got := w.Response(); !(math.Abs(got-want) <= 0.03*want) {
			t.Errorf("%d replicas at %v/s: mean response %v s, want %v within 3 %%", tc.replicas, tc.lambda, got, want)
		}
		if busy := w.BusySeconds / w.Seconds; !(math.Abs(busy-tc.lambda) <= 0.01*tc.lambda) {
			t.Errorf("%v replicas are busy on average, want %v", busy, tc.lambda)
		}
	}
}

func TestTheServiceRateFallsWithTheArrivalRate(t *testing.T) {
	p := newPlant(t, Config{Model: queueing.PaperModel(), Replicas: 1000}, 100)
	quick := p.RunTo(200).Response()
	if err := p.SetRate(600); err != nil {
		t.Fatal(err)
	}
	p.RunTo(220)
	slow := p.RunTo(420).Response()
	// 1/(7.771 + 1574.51/lambda)
	if !(math.Abs(quick-0.04252) < 0.0008) || !(math.Abs(slow-0.09621) < 0.0008) {
		t.Errorf("alone a request takes %v s at 100/s and %v s at 600/s, want 0.0425 and 0.0962", quick, slow)
	}
}

func TestReplicasStartAllAtOnceOrOneByOne(t *testing.T) {
	for _, tc := range []struct {
		name     string
		oneByOne bool
		stop     time.Duration
		readyAt  map[float64]int // after requesting 4 at 0 s and 2 at 20 s
	}{
		{"at once", false, 0, map[float64]int{4.9: 1, 5: 4, 20: 2}},
		{"one by one", true, 5 * time.Second, map[float64]int{4.9: 1, 5: 2, 10: 3, 15: 4, 24.9: 4, 25: 3, 30: 2, 40: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for at, want := range tc.readyAt {
				c := Config{Model: queueing.Model{MuB: 1}, Replicas: 1, Start: 5 * time.Second, Stop: tc.stop, OneByOne: tc.oneByOne}
				p := newPlant(t, c, 0)
				p.Scale(4)
				p.RunTo(min(at, 20))
				if at >= 20 {
					p.Scale(2)
					p.RunTo(at)
				}
				if p.Ready() != want {
					t.Errorf("%d Ready at %v s, want %d", p.Ready(), at, want)
				}
			}
		})
	}
}

func TestAChangeOfMindCallsOffWhatIsUnderWay(t *testing.T) {
	c := Config{Model: queueing.Model{MuB: 1}, Replicas: 2, Start: 5 * time.Second, Stop: 5 * time.Second, OneByOne: true}
	p := newPlant(t, c, 0)
	p.Scale(6)
	p.RunTo(6) // the third is Ready
	p.Scale(4)
	p.RunTo(11)
	if p.Ready() != 4 || p.Desired() != 4 {
		t.Errorf("%d Ready of %d wanted, want 4 of 4 at 10 s", p.Ready(), p.Desired())
	}
	p.Scale(1)
	p.Scale(4)
	p.RunTo(60)
	if p.Ready() != 4 {
		t.Errorf("%d Ready, want 4: none had begun to stop", p.Ready())
	}
}

func TestWithoutEnoughReplicasRequestsAreRejectedAndTimeOut(t *testing.T) {
	c := Config{Model: queueing.Model{MuB: 1}, Replicas: 1, Connections: 50, Timeout: 10 * time.Second}
	p := newPlant(t, c, 100)
	w := p.RunTo(100)
	if p.Inside() > 50 || w.Rejected < 9000 || w.TimedOut == 0 || w.OverloadSeconds != 100 || w.PeakUtilization != 10_000 {
		t.Errorf("%d inside, window %+v; want at most 50 inside, most rejected, some timed out, overload throughout", p.Inside(), w)
	}
	if r := w.Response(); !(r > 9 && r < 10.5) {
		t.Errorf("mean response %v s, want nearly the time-out", r)
	}
}

func TestWithoutReplicasAllWait(t *testing.T) {
	c := Config{Model: queueing.Model{MuB: 1}, Replicas: 0, Start: 5 * time.Second}
	p := newPlant(t, c, 2)
	if w := p.RunTo(20); w.Answered != 0 || !math.IsNaN(w.Response()) || p.Inside() != int(w.Arrived) || !math.IsInf(p.Utilization(), 1) {
		t.Errorf("window %+v with %d inside, want all to wait and no response time", w, p.Inside())
	}
	p.Scale(100)
	p.RunTo(40)
	if p.Inside() > 20 {
		t.Errorf("%d are inside with a hundred replicas, want the line to be gone", p.Inside())
	}
}

// TestNoRequestIsLostOrMadeUp: in any case, arrived requests are answered, rejected, timed out, or
// still in the system.
func TestNoRequestIsLostOrMadeUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Model: queueing.Model{MuB: 3, C: rapid.Float64Range(0, 20).Draw(t, "c")}, Replicas: rapid.IntRange(0, 5).Draw(t, "replicas"),
			Start: time.Duration(rapid.IntRange(0, 8).Draw(t, "start")) * time.Second, Stop: time.Duration(rapid.IntRange(0, 8).Draw(t, "stop")) * time.Second,
			OneByOne: rapid.Bool().Draw(t, "oneByOne"), Connections: rapid.SampledFrom([]int{0, 5, 40}).Draw(t, "connections"), Timeout: 3 * time.Second}
		p, err := New(c, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		if err != nil {
			t.Fatal(err)
		}
		var all Window
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			if err := p.SetRate(rapid.Float64Range(0, 40).Draw(t, "rate")); err != nil {
				t.Fatal(err)
			}
			p.Scale(rapid.IntRange(0, 12).Draw(t, "wanted"))
			all = all.Add(p.RunTo(p.Now() + rapid.Float64Range(0, 10).Draw(t, "time")))
			if got := all.Answered + all.Rejected + all.TimedOut + int64(p.Inside()); got != all.Arrived {
				t.Fatalf("%d arrived, and %d are accounted for: %+v", all.Arrived, got, all)
			}
			if all.Started-all.Answered != int64(p.busy) {
				t.Fatalf("%d are being served, and %d have begun and not ended", p.busy, all.Started-all.Answered)
			}
			if c.Connections > 0 && p.Inside() > 40*12 {
				t.Fatalf("%d are inside", p.Inside())
			}
		}
		// Time is a sum of many random steps; differences are rounding errors.
		if !(math.Abs(all.Seconds-p.Now()) < 1e-6) || all.ReplicaSeconds < 0 || all.BusySeconds < 0 {
			t.Fatalf("window %+v at %v s", all, p.Now())
		}
	})
}

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	run := func() Window { return newPlant(t, Default(), 50).RunTo(100) }
	if a, b := run(), run(); a != b {
		t.Errorf("%+v and %+v from one seed", a, b)
	}
}

func TestTheLineIsFirstComeFirstServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l line
		var want []float64
		for i := range rapid.IntRange(1, 200).Draw(t, "operations") {
			switch x := float64(i); rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				l.pushFront(x)
				want = append([]float64{x}, want...)
			case 1, 2:
				l.push(x)
				want = append(want, x)
			default:
				if len(want) > 0 {
					if l.first() != want[0] || l.pop() != want[0] {
						t.Fatal("another comes first")
					}
					want = want[1:]
				}
			}
			if l.length() != len(want) {
				t.Fatalf("%d wait, want %d", l.length(), len(want))
			}
		}
	})
}

func TestWhatCannotBePlayedIsRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"no service rate":        {},
		"negative start":         {Model: queueing.PaperModel(), Start: -1},
		"negative replicas":      {Model: queueing.PaperModel(), Replicas: -1},
		"a bound and no timeout": {Model: queueing.PaperModel(), Connections: 5},
	} {
		if _, err := New(c, rand.New(rand.NewPCG(1, 1))); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	p := newPlant(t, Default(), 1)
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		if p.SetRate(rate) == nil {
			t.Errorf("a rate of %v is accepted", rate)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	p := newPlant(b, Config{Model: queueing.Model{MuB: 10}, Replicas: 50}, 470)
	b.ReportAllocs()
	for b.Loop() {
		p.RunTo(p.Now() + 1.0/470)
	}
}
