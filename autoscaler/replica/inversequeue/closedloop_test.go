package inversequeue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

// closedLoop is the law with a service that behaves as an M/M/N queue. Its measurements are those of the replicas that
// were Ready some evaluations ago, as with rates over a window.
type closedLoop struct {
	c      Config
	lambda float64
	// speed is the speed of replicas relative to the law's model; 0 means 1.
	speed float64
	// lag is the age of measurements, and start the start-up time of a replica, both in evaluations.
	lag, start int
	m          Memory
	// wanted is the number of replicas decided at each evaluation.
	wanted []int
}

// ready returns how many replicas were Ready ago evaluations ago.
func (l *closedLoop) ready(ago int) int {
	at := len(l.wanted) - 1 - ago
	ready := l.wanted[max(at, 0)]
	for i := max(at-l.start, 0); i <= at; i++ {
		ready = min(ready, l.wanted[i])
	}
	return ready
}

// evaluate runs one evaluation and returns the decision.
func (l *closedLoop) evaluate() (int, law.Decision) {
	mu := l.c.Model.ServiceRate(l.lambda)
	if l.speed > 0 {
		mu *= l.speed
	}
	measured := queueing.System{Servers: l.ready(l.lag), ArrivalRate: l.lambda, ServiceRate: mu}
	m, d := Decide(l.c, l.m, law.Observation{
		ArrivalRate: l.lambda, ResponseTime: min(measured.Response(), 10), QueueLength: min(measured.Requests(), 500*float64(l.ready(l.lag))),
		Desired: l.wanted[len(l.wanted)-1], Ready: l.ready(0),
	})
	l.m = m
	l.wanted = append(l.wanted, d.Replicas)
	return d.Replicas, d
}

// slow is a service with ten requests per second for each replica, evaluated every two seconds.
func slow() Config {
	c := Default()
	c.Model, c.SLO, c.Interval = queueing.Model{MuB: 10}, 200*time.Millisecond, 2*time.Second
	c.Limits = law.Limits{Min: 4, Max: 60}
	return c
}

// settles fails unless, after the given evaluations, the law wants at most more replicas above the number that keeps
// the SLO, and stays there.
func (l *closedLoop) settles(evaluations, more int) error {
	mu := l.c.Model.ServiceRate(l.lambda)
	if l.speed > 0 {
		mu *= l.speed
	}
	need, err := queueing.Inverse(l.lambda, mu, l.c.SLO.Seconds(), l.c.Max)
	if err != nil {
		return err
	}
	need = max(need, l.c.Min)
	var d law.Decision
	for range evaluations {
		_, d = l.evaluate()
	}
	for range 60 {
		var n int
		if n, d = l.evaluate(); n < need || n > need+more {
			return fmt.Errorf("%d replicas in the end, want %d to %d: %q after %v, memory %+v", n, need, need+more, d.Reasons, l.wanted, l.m)
		}
	}
	return nil
}

// TestWhatIsMeasuredLateDoesNotKeepAServiceLarge: replicas that start before the measurements show them are requested
// repeatedly; the law recovers from the result.
func TestWhatIsMeasuredLateDoesNotKeepAServiceLarge(t *testing.T) {
	for _, rate := range []float64{100, 20, 300} {
		for lag := range 3 {
			for start := range 3 {
				t.Run(fmt.Sprintf("%v per second, %d looks late, %d looks to start", rate, lag, start), func(t *testing.T) {
					l := &closedLoop{c: slow(), lambda: rate, lag: lag, start: start, wanted: []int{2}}
					if err := l.settles(60, 5); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// TestAServiceSlowerThanTheModelComesToRest: the law tries the number from the queueing model, and finds it too low.
func TestAServiceSlowerThanTheModelComesToRest(t *testing.T) {
	for _, speed := range []float64{0.95, 0.8, 0.6} {
		for lag := range 3 {
			t.Run(fmt.Sprintf("%v of the speed, %d looks late", speed, lag), func(t *testing.T) {
				l := &closedLoop{c: slow(), lambda: 100, speed: speed, lag: lag, wanted: []int{2}}
				if err := l.settles(150, 5); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestTheLawComesBackFromAnOvershoot: from any valid memory after an overshoot: numbers of replicas that kept the SLO,
// with their response times.
func TestTheLawComesBackFromAnOvershoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &closedLoop{c: slow(), lambda: rapid.Float64Range(15, 300).Draw(t, "rate"), lag: rapid.IntRange(0, 2).Draw(t, "lag"), start: rapid.IntRange(0, 2).Draw(t, "start")}
		mu := l.c.Model.ServiceRate(l.lambda)
		need, err := queueing.Inverse(l.lambda, mu, l.c.SLO.Seconds(), l.c.Max)
		if err != nil {
			t.Fatal(err)
		}
		need = max(need, l.c.Min)
		model := Reference{ArrivalRate: l.lambda}
		if rapid.Bool().Draw(t, "too few is known") {
			model.TooFew = ptr(rapid.IntRange(0, need-1).Draw(t, "too few"))
		}
		sizes := rapid.SliceOfNDistinct(rapid.IntRange(need, l.c.Max), 0, min(12, l.c.Max-need+1), rapid.ID).Draw(t, "sizes")
		slices.Sort(sizes)
		for _, n := range sizes {
			took := micros(queueing.System{Servers: n, ArrivalRate: l.lambda, ServiceRate: mu}.Response())
			model.Sizes = append(model.Sizes, Size{Replicas: n, ResponseMicros: []int64{took, took}})
		}
		l.wanted = []int{rapid.IntRange(1, l.c.Max).Draw(t, "replicas")}
		l.m = Memory{Models: []Reference{model}, Previous: l.lambda, Evaluations: 9, Input: rapid.SampledFrom([]float64{0, 0.1, 0.1000001, 0.2}).Draw(t, "input")}
		if err := l.settles(150, 5); err != nil {
			t.Fatal(err)
		}
	})
}

// after returns the decision at the last of some evaluations of slow, starting with a memory of one model, at 100
// requests per second.
func after(model Reference, evaluations ...law.Observation) (Memory, law.Decision) {
	model.ArrivalRate = 100
	m, d := Memory{Models: []Reference{model}, Previous: 100, Evaluations: 9}, law.Decision{}
	for _, o := range evaluations {
		m, d = Decide(slow(), m, o)
	}
	return m, d
}

// kept returns numbers of replicas that kept the SLO with 0.1 s.
func kept(numbers ...int) (sizes []Size) {
	for _, n := range numbers {
		sizes = append(sizes, Size{Replicas: n, ResponseMicros: []int64{100_000}})
	}
	return sizes
}

// TestSamplingAfterAnOvershoot: by the queueing model 11 replicas keep 0.2 s, and 10 are not stable.
func TestSamplingAfterAnOvershoot(t *testing.T) {
	for _, tc := range []struct {
		name   string
		tooFew *int
		sizes  []Size
		n      int
		want   int
		says   string
	}{
		{"only numbers far above: what the queueing model says", nil, kept(36, 37, 38, 39), 40, 11, "sampling again from the beginning"},
		{"however many", ptr(10), kept(36, 37, 38, 39, 40, 41), 40, 11, "sampling again from the beginning"},
		{"what the queueing model says was too few: one below", ptr(11), kept(36, 37, 38, 39, 40), 36, 35, "sampling"},
		{"less far above: one below", ptr(10), kept(17, 18, 19, 20), 21, 16, "sampling"},
		{"none below is left: the first that was left out", ptr(10), kept(11, 12, 36, 37, 38), 40, 13, "sampling"},
		{"what is not stable counts as too few", ptr(2), kept(12), 11, 13, "sampling"},
		{"what is less than the minimum counts as too few", ptr(2), kept(12, 36, 37), 11, 13, "sampling"},
		{"numbers that were too few later are not sampled", ptr(20), kept(16, 18, 40), 40, 21, "sampling"},
		{"nothing known but that what the queueing model says is too few", ptr(14), nil, 14, 15, "first sample"},
		{"the least three adjoin", ptr(10), kept(11, 12, 13, 36, 37), 38, 0, "learned at 100"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := seen(100, 0.1, tc.n)
			if tc.sizes == nil {
				o.ResponseTime = 0.201 // breaks the SLO, but the queue may be stable
			}
			_, d := after(Reference{TooFew: tc.tooFew, Sizes: tc.sizes}, o)
			if tc.want != 0 && d.Replicas != tc.want || !strings.Contains(d.Reasons[0], tc.says) {
				t.Errorf("decides %+v, want %d for %q", d, tc.want, tc.says)
			}
		})
	}
}

// TestWhatIsMeasuredLateTeachesNothing covers the first evaluations after the number of Ready replicas has changed.
func TestWhatIsMeasuredLateTeachesNothing(t *testing.T) {
	broken, overload := 0.201, 5.0
	times := func(n int, o law.Observation) []law.Observation { return slices.Repeat([]law.Observation{o}, n) }
	for _, tc := range []struct {
		name        string
		evaluations []law.Observation
		tooFew      int
		known       []int
		stays       bool
	}{
		{"too slow, just after there were fewer", append(times(1, seen(100, overload, 2)), seen(100, broken, 12)), 2, nil, true},
		{"and one evaluation later", append(times(1, seen(100, overload, 2)), times(2, seen(100, broken, 12))...), 2, nil, true},
		{"not two evaluations later", append(times(1, seen(100, overload, 2)), times(3, seen(100, broken, 12))...), 12, nil, false},
		{"overload, just after there were fewer", append(times(1, seen(100, overload, 2)), seen(100, overload, 12)), 2, nil, false},
		{"not two evaluations later", append(times(1, seen(100, overload, 2)), times(3, seen(100, overload, 12))...), 12, nil, false},
		{"overload that the queueing model expects", append(times(1, seen(100, overload, 2)), seen(100, overload, 10)), 10, nil, false},
		{"overload after there were more", append(times(1, seen(100, overload, 2)), seen(100, overload, 13), seen(100, overload, 12)), 12, nil, false},
		{"kept, just after there were far more", append(times(3, seen(100, 0.1, 36)), seen(100, 0.1, 12)), 0, []int{36}, true},
		{"and one evaluation later", append(times(3, seen(100, 0.1, 36)), times(2, seen(100, 0.1, 12))...), 0, []int{36}, true},
		{"not two evaluations later", append(times(3, seen(100, 0.1, 36)), times(3, seen(100, 0.1, 12))...), 0, []int{12, 36}, false},
		{"kept, just after there were a few more", append(times(1, seen(100, 0.1, 17)), seen(100, 0.1, 12)), 0, []int{12, 17}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, d := after(Reference{}, tc.evaluations...)
			r := m.Models[0]
			var known []int
			for _, s := range r.Sizes {
				known = append(known, s.Replicas)
			}
			if r.TooFew == nil {
				r.TooFew = ptr(0)
			}
			if *r.TooFew != tc.tooFew || !slices.Equal(known, tc.known) {
				t.Errorf("learned that %d are too few and %v are not, want %d and %v", *r.TooFew, known, tc.tooFew, tc.known)
			}
			if last := tc.evaluations[len(tc.evaluations)-1].Ready; tc.stays != strings.Contains(d.Reasons[0], "may have been measured before") || tc.stays && d.Replicas != last {
				t.Errorf("decides %+v, want it to stay at %d: %v", d, last, tc.stays)
			}
		})
	}
	t.Run("but all of it where the rate has changed as well", func(t *testing.T) {
		m, _ := after(Reference{}, seen(100, overload, 2), seen(80, overload, 2), seen(100, overload, 12))
		if r := m.Models[1]; r.TooFew == nil || *r.TooFew != 12 {
			t.Errorf("learned %+v, want that 12 are too few", r)
		}
	})
}
