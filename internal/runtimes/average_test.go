package runtimes

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

func TestTheFirstSamplesCountAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1000, 1000), 1, 20).Draw(t, "values")
		var mean, deviation float64
		var n int64
		for _, v := range values {
			mean, deviation, n = AddSample(mean, deviation, n, 20, v)
		}
		wantMean, wantVariance := stat.PopMeanVariance(values, nil)
		if n != int64(len(values)) || math.Abs(mean-wantMean) > 1e-9 || math.Abs(deviation-math.Sqrt(wantVariance)) > 1e-4 {
			t.Errorf("%v ± %v of %d, want %v ± %v of %d", mean, deviation, n, wantMean, math.Sqrt(wantVariance), len(values))
		}
	})
}

func TestThePastIsForgotten(t *testing.T) {
	mean, deviation, n := 100.0, 0.0, int64(1000)
	for range 200 {
		mean, deviation, n = AddSample(mean, deviation, n, 10, 5)
	}
	if math.Abs(mean-5) > 1e-6 || deviation > 1e-2 || n != 1200 {
		t.Errorf("%v ± %v of %d, want 5 ± 0 of 1200", mean, deviation, n)
	}
}
