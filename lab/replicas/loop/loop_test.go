package loop

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/replicas/plant"
)

// fixed returns a decider that requests the given numbers in turn.
func fixed(next time.Duration, replicas ...int) law.Law {
	return law.New("fixed", func(k int, _ law.Observation) (int, law.Decision) {
		return k + 1, law.Decision{Replicas: replicas[min(k, len(replicas)-1)], Next: next, Reasons: []string{"told"}}
	})
}

func config(l law.Law, rates ...trace.Rate) Config {
	p := plant.Default()
	p.Model, p.Replicas, p.Start = queueing.Model{MuB: 10}, 2, 0
	return Config{Decider: Bare{l}, Plant: p, Rates: rates, SLO: 200 * time.Millisecond, Interval: 100 * time.Second, Seed: 1}
}

func at(seconds, rate float64) trace.Rate {
	return trace.Rate{At: time.Duration(seconds * float64(time.Second)), PerSecond: rate}
}

func TestCostIsReplicasTimesIntervals(t *testing.T) {
	c := config(fixed(100*time.Second, 2, 4, 4, 1), at(0, 1), at(500, 1)) // 1000 s: ten intervals
	got, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if cost := got.Measured.ReplicaSeconds / 100; !(math.Abs(cost-(2+4+4+7)) < 1e-9) {
		t.Errorf("cost %v, want 17 container intervals", cost)
	}
	if got.Intervals != 10 || got.Violations != 0 || got.Actions != 2 || got.MaxReplicas != 4 || got.EvaluationWriter != 10 {
		t.Errorf("%+v, want ten intervals and looks, two actions, at most 4 replicas", got)
	}
}

func TestIntervalsOverTheSLOAreViolations(t *testing.T) {
	// One replica at 9/s has a mean response time of a second; four have hardly 0.1 s.
	c := config(fixed(100*time.Second, 1, 1, 1, 1, 1, 4), at(0, 9), at(500, 9))
	got, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if got.Violations < 4 || got.Violations > 6 || got.ViolationPercent() != 10*float64(got.Violations) {
		t.Errorf("%+v with %v %%, want about half of the ten intervals broken", got, got.ViolationPercent())
	}
}

func TestTheMostReplicasAreThoseAskedForLast(t *testing.T) {
	got, err := Run(config(fixed(100*time.Second, 2, 2, 2, 2, 9), at(0, 1), at(250, 1))) // the last evaluation is at 400 s
	if err != nil || got.MaxReplicas != 9 {
		t.Errorf("%+v, %v, want 9 replicas at most", got, err)
	}
}

func TestTheWarmupIsLeftOut(t *testing.T) {
	c := config(fixed(100*time.Second, 1, 1, 1, 1, 1, 4), at(0, 9), at(500, 9))
	c.Warmup = 600 * time.Second
	got, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if got.Intervals != 4 || got.Violations != 0 || got.Measured.Seconds != 400 || got.Actions != 0 {
		t.Errorf("%+v, want the last four intervals only", got)
	}
}

func TestRatesHoldOrAreJoined(t *testing.T) {
	for _, tc := range []struct {
		interpolate bool
		want        []float64 // at each of ten evaluations
	}{
		{false, []float64{0, 0, 0, 0, 0, 100, 100, 100, 100, 100}},
		{true, []float64{5, 25, 45, 65, 85, 100, 100, 100, 100, 100}},
	} {
		var seen []float64
		c := config(fixed(20*time.Second, 20), at(0, 0), at(100, 100))
		c.Interpolate = tc.interpolate
		c.OnStep = func(s Step) { seen = append(seen, s.Rate) }
		if _, err := Run(c); err != nil {
			t.Fatal(err)
		}
		for i, want := range tc.want {
			if len(seen) != len(tc.want) || !(math.Abs(seen[i]-want) < 1e-9) {
				t.Fatalf("interpolated %v: rates %v, want %v", tc.interpolate, seen, tc.want)
			}
		}
	}
}

func TestWhatALawIsShown(t *testing.T) {
	var first, last law.Observation
	l := law.New("spy", func(k int, o law.Observation) (int, law.Decision) {
		if k == 0 {
			first = o
		}
		last = o
		return k + 1, law.Decision{Replicas: 2, Next: 50 * time.Second, Reasons: []string{"told"}}
	})
	if _, err := Run(config(l, at(0, 10), at(500, 10))); err != nil {
		t.Fatal(err)
	}
	if !math.IsNaN(first.ArrivalRate) || !math.IsNaN(first.ResponseTime) || first.Utilization != 50 || first.Ready != 2 {
		t.Errorf("at the first evaluation it sees %+v, want nothing measured yet, 50 %% of 2", first)
	}
	if !(math.Abs(last.ArrivalRate-10) < 3) || !(last.ResponseTime > 0.08 && last.ResponseTime < 0.25) || !last.At.Equal(first.At.Add(950*time.Second)) {
		t.Errorf("at the last evaluation it sees %+v, want some 10/s answered in some 0.13 s, 950 s later", last)
	}
}

// TestResponseTimesCanBeThoseOfTheLastSeconds: two replicas of 10/s have a queue while 18 requests
// per second arrive, and almost none in the last tenth of each interval, when 10 arrive.
func TestResponseTimesCanBeThoseOfTheLastSeconds(t *testing.T) {
	for window, want := range map[time.Duration]struct{ from, to float64 }{0: {0.3, 1.5}, 50 * time.Second: {0.11, 0.17}, time.Hour: {0.3, 1.5}} {
		var observations []law.Observation
		l := law.New("spy", func(k int, o law.Observation) (int, law.Decision) {
			observations = append(observations, o)
			return k + 1, law.Decision{Replicas: 2, Next: 1000 * time.Second, Reasons: []string{"told"}}
		})
		c := config(l, at(0, 18), at(900, 10), at(1000, 18), at(1900, 10), at(2000, 18))
		c.ResponseWindow = window
		if _, err := Run(c); err != nil {
			t.Fatal(err)
		}
		for _, o := range observations[1:3] {
			if !(o.ResponseTime > want.from && o.ResponseTime < want.to) || !(math.Abs(o.ArrivalRate-17.2) < 1) {
				t.Errorf("over %v: %v s at %v/s, want between %v and %v s at the 17.2/s of the whole interval", window, o.ResponseTime, o.ArrivalRate, want.from, want.to)
			}
		}
	}
}

func TestItCanBeStopped(t *testing.T) {
	c := config(fixed(time.Second, 1), at(0, 1), at(1e6, 1))
	observations := 0
	c.Stop = func() bool { observations++; return observations > 5 }
	if _, err := Run(c); !errors.Is(err, ErrStopped) {
		t.Errorf("error %v, want that it was stopped", err)
	}
}

func TestRunsThatCannotBeMadeAreRefused(t *testing.T) {
	_, err := Run(Config{Warmup: -1, ResponseWindow: -1})
	for _, field := range []string{"decider", "arrival rates", "SLO", "mu_b", "response window"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want it to name %s", err, field)
		}
	}
	c := config(fixed(time.Second, 1), at(0, 1))
	c.Warmup = time.Hour
	if _, err := Run(c); err == nil || !strings.Contains(err.Error(), "warm-up 1h0m0s") {
		t.Errorf("error %v, want the warm-up refused", err)
	}
}
