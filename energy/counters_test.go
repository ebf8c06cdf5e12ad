package energy

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// truth is a machine whose power has a bend in one counter and is linear in the other.
func truth(a, b float64) Watts {
	return Watts(100 + 50*min(a/4e9, 0.2)/0.2 + 30*max(0, a/4e9-0.2)/0.8 + 40*b/1e7)
}

func TestCountersReturnWhatTheyWereMadeOf(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	samples := []Activity{{[]float64{4e9, 1e7}, truth(4e9, 1e7)}, {[]float64{0, 0}, truth(0, 0)}}
	for i := range 400 {
		a, b := random.Float64()*4e9, random.Float64()*1e7
		w := truth(a, b)
		if i%20 == 0 {
			w *= 4 // an outlier
		}
		samples = append(samples, Activity{[]float64{a, b}, w})
	}
	m, err := FitCounters(samples)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range [][2]float64{{0, 0}, {4e9, 1e7}, {0.4e9, 5e6}, {2e9, 0}, {3e9, 2e6}} {
		if got, want := m.At(at[:]), truth(at[0], at[1]); math.Abs(float64(got-want)) > 0.01*float64(want) {
			t.Errorf("at %v: %v W, want %v", at, got, want)
		}
	}
	if got, want := m.At([]float64{9e9, 3e7}), truth(4e9, 1e7); math.Abs(float64(got-want)) > 0.01*float64(want) {
		t.Errorf("beyond what was seen: %v W, want %v as at its end", got, want)
	}
	if !math.IsNaN(float64(m.At([]float64{1}))) || !math.IsNaN(float64(m.At([]float64{1, math.NaN()}))) {
		t.Error("counters that are not known have a power")
	}
	if n := testing.AllocsPerRun(10, func() { m.At(samples[0].Rates) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestPowerNeverFallsWithAnyCounter holds for any fit.
func TestPowerNeverFallsWithAnyCounter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0, 1e10)
		samples := make([]Activity, rapid.IntRange(4*counterKnots, 60).Draw(t, "n"))
		for i := range samples {
			samples[i] = Activity{[]float64{rate.Draw(t, "a"), rate.Draw(t, "b")}, Watts(rapid.Float64Range(1, 1000).Draw(t, "w"))}
		}
		m, err := FitCounters(samples)
		if err != nil {
			t.Fatal(err)
		}
		low, high := []float64{rate.Draw(t, "low a"), rate.Draw(t, "low b")}, []float64{0, 0}
		for i := range high {
			high[i] = low[i] + rate.Draw(t, "more")
		}
		if a, b := m.At(low), m.At(high); !(b >= a-1e-9*b) || !(a >= 0) {
			t.Fatalf("%v W at %v and %v W at %v", a, low, b, high)
		}
	})
}

func TestCountersThatCannotBeAreRefused(t *testing.T) {
	good := make([]Activity, 20)
	for i := range good {
		good[i] = Activity{[]float64{float64(i)}, 100}
	}
	tests := []struct {
		name   string
		change func([]Activity) []Activity
	}{
		{"none", func([]Activity) []Activity { return nil }},
		{"no counter", func(s []Activity) []Activity { s[0].Rates = nil; return s }},
		{"too few", func(s []Activity) []Activity { return s[:2*counterKnots-1] }},
		{"a counter more", func(s []Activity) []Activity { s[3].Rates = []float64{1, 2}; return s }},
		{"a negative rate", func(s []Activity) []Activity { s[3].Rates = []float64{-1}; return s }},
		{"NaN", func(s []Activity) []Activity { s[3].Rates = []float64{math.NaN()}; return s }},
		{"an infinite rate", func(s []Activity) []Activity { s[3].Rates = []float64{math.Inf(1)}; return s }},
		{"no power", func(s []Activity) []Activity { s[3].Watts = 0; return s }},
		{"infinite power", func(s []Activity) []Activity { s[3].Watts = Watts(math.Inf(1)); return s }},
	}
	for _, tc := range tests {
		if m, err := FitCounters(tc.change(append([]Activity(nil), good...))); err == nil {
			t.Errorf("%s: %+v", tc.name, m)
		}
	}
	always0 := make([]Activity, 20)
	for i := range always0 {
		always0[i] = Activity{[]float64{0}, 100}
	}
	if m, err := FitCounters(always0); err != nil || math.Abs(float64(m.At([]float64{5})-100)) > 1e-6 {
		t.Errorf("a counter that has stopped gives %+v, %v", m, err)
	}
}
