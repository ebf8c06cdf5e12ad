package outcome

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func labels(a axis) []string {
	var list []string
	for _, t := range a.ticks {
		list = append(list, t.label)
	}
	return list
}

func TestAmountsGetRoundTicks(t *testing.T) {
	tests := []struct {
		largest float64
		whole   bool
		want    string
	}{
		{0, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0, true, "0 1"},
		{1, true, "0 1"},
		{3, true, "0 1 2 3"},
		{7, true, "0 2 4 6 8"},
		{960, false, "0 200 400 600 800 1000"},
		{1000, false, "0 200 400 600 800 1000"},
		{1001, false, "0 500 1000 1500"},
		{0.034, false, "0.00 0.01 0.02 0.03 0.04"},
		{123_456, false, "0k 50k 100k 150k"},
		{8_000_000, true, "0k 2000k 4000k 6000k 8000k"},
		{45e6, false, "0M 10M 20M 30M 40M 50M"},
	}
	for _, tc := range tests {
		if diff := cmp.Diff(strings.Fields(tc.want), labels(amountAxis(tc.largest, tc.whole))); diff != "" {
			t.Errorf("ticks up to %v (-want +got):\n%s", tc.largest, diff)
		}
	}
}

func TestSharesReachFromNothingToAll(t *testing.T) {
	for largest, want := range map[float64]string{0: "0 25 50 75 100", 0.3: "0 25 50 75 100", 1: "0 25 50 75 100", 1.3: "0 50 100 150"} {
		a := shareAxis(largest)
		if diff := cmp.Diff(strings.Fields(want), labels(a)); diff != "" {
			t.Errorf("ticks up to %v (-want +got):\n%s", largest, diff)
		}
		if last, _ := strconv.ParseFloat(a.ticks[len(a.ticks)-1].label, 64); a.max != last/100 {
			t.Errorf("axis up to %v ends at %v, want %v", largest, a.max, last/100)
		}
	}
}

func TestTimesGetTheTicksOfAClock(t *testing.T) {
	tests := []struct {
		span       float64
		want, unit string
	}{
		{0, "0", "seconds"},
		{1, "0.0 0.2 0.4 0.6 0.8 1.0", "seconds"},
		{3, "0 1 2 3", "seconds"},
		{59, "0 10 20 30 40 50", "seconds"},
		{300, "0 60 120 180 240 300", "seconds"},
		{301, "0 1 2 3 4 5", "minutes"},
		{3600, "0 10 20 30 40 50 60", "minutes"},
		{2 * 3600, "0 20 40 60 80 100 120", "minutes"},
		{4 * 3600, "0 1 2 3 4", "hours"},
		{12 * 3600, "0 2 4 6 8 10 12", "hours"},
		{36 * 3600, "0 6 12 18 24 30 36", "hours"},
		{7 * 86400, "0 2 4 6", "days"},
		{30 * 86400, "0 7 14 21 28", "days"},
		{365 * 86400, "0 100 200 300", "days"},
	}
	for _, tc := range tests {
		a, u := timeAxis(tc.span)
		if diff := cmp.Diff(strings.Fields(tc.want), labels(a)); diff != "" || u.name != tc.unit {
			t.Errorf("ticks over %v s in %s, want %s (-want +got):\n%s", tc.span, u.name, tc.unit, diff)
		}
	}
}

// TestAxesKeepTheirPromises parses the labels: they must match their positions.
func TestAxesKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		largest := math.Pow(10, rapid.Float64Range(-8, 18).Draw(t, "magnitude"))
		whole := rapid.Bool().Draw(t, "whole")
		a := amountAxis(largest, whole)
		if a.max < largest*(1-1e-8) || a.max > 2*largest && a.max > 1 {
			t.Fatalf("axis ends at %v", a.max)
		}
		if n := len(a.ticks); n > 6 || n < 3 && !whole {
			t.Fatalf("%d ticks: %q", n, labels(a))
		}
		checkTicks(t, a, a.max)
	})
}

func TestTimeAxesKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := math.Pow(10, rapid.Float64Range(-6, 18).Draw(t, "magnitude"))
		a, u := timeAxis(span)
		if a.max != span {
			t.Fatalf("axis ends at %v, want %v", a.max, span)
		}
		if n := len(a.ticks); n > 7 || n < 3 {
			t.Fatalf("%d ticks: %q", n, labels(a))
		}
		checkTicks(t, a, span/u.seconds)
	})
}

// checkTicks expects ticks that are distinct, ascend from 0 to at most 1, and match their positions
// on an axis that ends at the given number.
func checkTicks(t *rapid.T, a axis, end float64) {
	t.Helper()
	prefixes := strings.NewReplacer("k", "e3", "M", "e6", "G", "e9", "T", "e12", ",", "")
	seen := map[string]bool{}
	for i, tick := range a.ticks {
		value, err := strconv.ParseFloat(prefixes.Replace(tick.label), 64)
		if err != nil {
			t.Fatalf("label %q: %v", tick.label, err)
		}
		if math.Abs(value-tick.at*end) > 0.01*end {
			t.Fatalf("label %q stands at %v of %v", tick.label, tick.at, end)
		}
		if i == 0 && tick.at != 0 || i > 0 && tick.at <= a.ticks[i-1].at || tick.at > 1+1e-6 || seen[tick.label] {
			t.Fatalf("ticks are %v", a.ticks)
		}
		seen[tick.label] = true
	}
}
