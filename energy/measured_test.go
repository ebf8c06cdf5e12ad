package energy_test

import (
	"encoding/csv"
	"math"
	"strconv"
	"strings"
	"testing"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/test/data"
)

// measurement is one row of the measured series. counted has cycles, CPU time,
// instructions and cache misses per second.
type measurement struct {
	cycles, watts float64
	counted       []float64
}

func series(t *testing.T) []measurement {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(data.NodePower)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var read []measurement
	for _, r := range rows[1:] {
		values := make([]float64, len(r))
		for i, text := range r {
			var err error
			if values[i], err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(r, err)
			}
		}
		read = append(read, measurement{values[1], values[2], []float64{values[1], values[3], values[4], values[5]}})
	}
	return read
}

// predict fits a model to the rows of one half and returns its quality on the other. The maximum cycles of the first
// half count as full load; no data of the other half is used before the prediction.
func predict(t *testing.T, all []measurement, learned func(i int) bool) energy.Quality {
	t.Helper()
	full := 0.0
	for i, m := range all {
		if learned(i) {
			full = max(full, m.cycles)
		}
	}
	var known, unseen []energy.Sample
	for i, m := range all {
		s := energy.Sample{Utilization: min(1, m.cycles/full), Watts: energy.Watts(m.watts)}
		if learned(i) {
			known = append(known, s)
		} else {
			unseen = append(unseen, s)
		}
	}
	model, _, err := energy.Fit(known)
	if err != nil {
		t.Fatal(err)
	}
	return energy.QualityOf(model, unseen)
}

// predictByCounters is predict with all counters, and returns the mean error.
func predictByCounters(t *testing.T, all []measurement, learned func(i int) bool) float64 {
	t.Helper()
	var known []energy.Activity
	for i, m := range all {
		if learned(i) {
			known = append(known, energy.Activity{Rates: m.counted, Watts: energy.Watts(m.watts)})
		}
	}
	model, err := energy.FitCounters(known)
	if err != nil {
		t.Fatal(err)
	}
	off, n := 0.0, 0.0
	for i, m := range all {
		if !learned(i) {
			off += math.Abs(float64(model.At(m.counted))-m.watts) / m.watts
			n++
		}
	}
	return off / n
}

// TestAModelOfHalfASeriesPredictsTheOtherHalf fits models to the measured power of a real machine. Alternating blocks
// of three minutes have similar loads in both halves. The first and the last half of the series differ: power at the
// same cycles differs by up to a tenth (the last half has long idle times and other instruction mixes), which a model
// of cycles alone cannot predict. A model of all counters mostly can.
func TestAModelOfHalfASeriesPredictsTheOtherHalf(t *testing.T) {
	all := series(t)
	half := len(all) / 2
	tests := []struct {
		name    string
		learned func(i int) bool
		most    float64 // mean absolute error by cycles, as a share of the measured power
	}{
		{"even blocks of three minutes from odd ones", func(i int) bool { return i/60%2 == 1 }, 0.08},
		{"odd ones from even ones", func(i int) bool { return i/60%2 == 0 }, 0.08},
		{"even blocks of half a minute from odd ones", func(i int) bool { return i/10%2 == 1 }, 0.08},
		{"the last half from the first", func(i int) bool { return i < half }, 0.09},
		{"the first half from the last", func(i int) bool { return i >= half }, 0.12},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			q := predict(t, all, tc.learned)
			t.Logf("mean absolute error %.2f %%, R² %.3f, over %d samples", 100*q.MeanError, q.RSquared, q.Samples)
			counters := predictByCounters(t, all, tc.learned)
			t.Logf("by all counters %.2f %%", 100*counters)
			if !(counters < 0.08) {
				t.Errorf("mean absolute error by all counters %.2f %%, want less than 8 %%", 100*counters)
			}
			if !(q.MeanError < tc.most) {
				t.Errorf("mean absolute error %.2f %%, want less than %.0f %%", 100*q.MeanError, 100*tc.most)
			}
		})
	}
}
