package queueing

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// measured returns samples of a service of model m at random rates and sizes, with relative noise.
func measured(m Model, n int, noise float64, r *rand.Rand) []Sample {
	var samples []Sample
	for len(samples) < n {
		lambda := 50 + 600*r.Float64()
		replicas := LeastStable(lambda, m.ServiceRate(lambda)) + 1 + r.IntN(6)
		w := m.System(replicas, lambda).Response()
		before := w * (0.6 + 0.8*r.Float64())
		y := (m.Alpha*before + (1-m.Alpha)*w) * (1 + noise*r.NormFloat64())
		samples = append(samples, Sample{replicas, lambda, y, before})
	}
	return samples
}

func TestFitFindsTheModelThatMadeTheSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Model{
			MuB:   rapid.Float64Range(2, 30).Draw(t, "muB"),
			C:     rapid.Float64Range(100, 4000).Draw(t, "c"),
			Alpha: rapid.Float64Range(0.02, 0.28).Draw(t, "alpha"),
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		got, err := Fit(measured(want, 60, 0, r), FitOptions{})
		if err != nil {
			t.Fatal(err)
		}
		near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-3*want }
		if !near(got.MuB, want.MuB) || !near(got.C, want.C) || !(math.Abs(got.Alpha-want.Alpha) <= 2e-3) || !(got.R2 > 0.9999) {
			t.Fatalf("fitted %+v, want %+v", got, want)
		}
	})
}

func TestFitUnderNoisePredictsWhatItHasNotSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	truth := PaperModel()
	got, err := Fit(measured(truth, 200, 0.05, r), FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range measured(truth, 100, 0, r) {
		y := got.Alpha*s.Before + (1-got.Alpha)*got.System(s.Replicas, s.ArrivalRate).Response()
		if !(math.Abs(y-s.Response) <= 0.08*s.Response) {
			t.Errorf("%d replicas at %.0f/s: predicted %.4f s, want %.4f within 8 %%", s.Replicas, s.ArrivalRate, y, s.Response)
		}
	}
}

func TestFitStaysInsideItsBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	// A service determined by its past would have alpha 0.9.
	got, err := Fit(measured(Model{MuB: 8, C: 1500, Alpha: 0.9}, 80, 0.02, r), FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Alpha < 0 || got.Alpha > 0.3 || got.MuB <= 0 || got.C <= 0 {
		t.Errorf("fitted %+v, want it inside the bounds", got)
	}
	fixed, err := Fit(measured(Model{MuB: 12, Alpha: 0.1}, 80, 0.01, r), FitOptions{FixedRate: true})
	if err != nil || fixed.C != 0 || !(math.Abs(fixed.MuB-12) < 0.2) {
		t.Errorf("fitted %+v, %v, want the fixed rate 12", fixed, err)
	}
}

func TestFitSurvivesSamplesThatAreWrongOrUnstable(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	samples := measured(PaperModel(), 60, 0.01, r)
	samples = append(samples,
		Sample{0, 10, 0.1, 0.1}, Sample{5, math.NaN(), 0.1, 0.1}, Sample{5, 10, math.Inf(1), 0.1}, Sample{5, 10, 0.1, -1})
	got, err := Fit(samples, FitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Used != 60 || got.Dropped != 4 || !(math.Abs(got.MuB-7.771) < 0.5) {
		t.Errorf("fitted %+v, want the paper's model from 60 samples and 4 dropped", got)
	}
	// Samples that no stable queue explains have a bounded, not an infinite error.
	for i := range samples[:3] {
		samples[i].Replicas = 1
		samples[i].Response = 3
	}
	if got, err := Fit(samples, FitOptions{}); err != nil || math.IsNaN(got.Residual) || math.IsInf(got.Residual, 0) {
		t.Errorf("fitted %+v, %v, want numbers", got, err)
	}
}

func TestFitRefusesWhatDoesNotDetermineIt(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	few := measured(PaperModel(), 5, 0, r)
	alike := measured(PaperModel(), 40, 0, r)
	for i := range alike {
		alike[i].ArrivalRate = 100 + 0.01*float64(i)
	}
	for name, samples := range map[string][]Sample{"none": nil, "few": few, "one arrival rate": alike} {
		if got, err := Fit(samples, FitOptions{}); !errors.Is(err, ErrUndetermined) {
			t.Errorf("%s: fitted %+v, %v, want it refused", name, got, err)
		}
	}
	if _, err := Fit(alike, FitOptions{MaxAlpha: 1}); err == nil {
		t.Error("a bound of 1 for alpha is accepted")
	}
}

func BenchmarkFit(b *testing.B) {
	samples := measured(PaperModel(), 200, 0.05, rand.New(rand.NewPCG(1, 1)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Fit(samples, FitOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
