package energy

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCurvesThatAreNoneAreRefused(t *testing.T) {
	tests := []struct {
		name   string
		points []Point
		says   string
	}{
		{"no points", nil, "at least"},
		{"one point", []Point{{}}, "at least"},
		{"not from idle", []Point{{0, 0.1}, {1, 1}}, "(0, 0)"},
		{"not to full load", []Point{{0, 0}, {0.9, 1}}, "(1, 1)"},
		{"less for more", []Point{{0, 0}, {0.4, 0.6}, {0.5, 0.5}, {1, 1}}, "share must not decrease"},
		{"one utilisation twice", []Point{{0, 0}, {0.5, 0.5}, {0.5, 0.6}, {1, 1}}, "utilisation must increase"},
		{"NaN in the middle", []Point{{0, 0}, {0.5, math.NaN()}, {1, 1}}, "share must not decrease"},
	}
	for _, tc := range tests {
		if _, err := NewCurve(tc.points...); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v, want one that says %q", tc.name, err, tc.says)
		}
	}
}

func TestPowerByUtilization(t *testing.T) {
	curve, err := NewCurve(Point{}, Point{0.1, 0.4}, Point{0.5, 0.8}, Point{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name        string
		model       Model
		utilization float64
		want        Watts
	}{
		{"idle", Model{100, 200, curve}, 0, 100},
		{"full", Model{100, 200, curve}, 1, 200},
		{"at a point", Model{100, 200, curve}, 0.1, 140},
		{"between points", Model{100, 200, curve}, 0.3, 160},
		{"below 0 counts as idle", Model{100, 200, curve}, -3, 100},
		{"above 1 counts as full", Model{100, 200, curve}, 7, 200},
		{"no curve is a straight line", Model{Idle: 100, Full: 200}, 0.3, 130},
		{"a machine that draws the same always", Model{Idle: 5, Full: 5}, 0.3, 5},
		{"four of them", Model{Idle: 100, Full: 200}.Times(4), 0.5, 600},
	}
	for _, tc := range tests {
		if got := tc.model.At(tc.utilization); !(math.Abs(float64(got-tc.want)) <= 1e-9) {
			t.Errorf("%s: %v W, want %v", tc.name, got, tc.want)
		}
	}
	if got := tests[0].model.At(math.NaN()); !math.IsNaN(float64(got)) {
		t.Errorf("an unknown utilisation draws %v W, want NaN", got)
	}
}

func TestModelsThatAreNoneAreRefused(t *testing.T) {
	for _, m := range []Model{{}, {Idle: -1, Full: 1}, {Idle: 2, Full: 1}, {Idle: Watts(math.NaN()), Full: 1}, {Idle: 1, Full: Watts(math.NaN())}, {Idle: 1, Full: Watts(math.Inf(1))}} {
		if m.Validate() == nil {
			t.Errorf("%+v is sound", m)
		}
	}
	if err := (Model{Idle: 1, Full: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestPointsAreCopies(t *testing.T) {
	given := []Point{{}, {0.5, 0.6}, {1, 1}}
	c, err := NewCurve(given...)
	if err != nil {
		t.Fatal(err)
	}
	given[1].Share = 9
	c.Points()[1].Share = 9
	if got := c.At(0.5); got != 0.6 {
		t.Errorf("the curve has changed to %v", got)
	}
	if got := (Curve{}).Points(); !slices.Equal(got, []Point{{}, {1, 1}}) {
		t.Errorf("the straight line has the points %v", got)
	}
}

// TestPowerNeverFallsWithLoad holds for any fit, including noise and outliers.
func TestPowerNeverFallsWithLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := make([]Sample, rapid.IntRange(leastFitSamples, 60).Draw(t, "n"))
		for i := range samples {
			samples[i] = Sample{rapid.Float64Range(0, 1).Draw(t, "u"), Watts(rapid.Float64Range(1, 1000).Draw(t, "w"))}
		}
		m, q, err := Fit(samples)
		if err != nil {
			return // for example if the power begins at 0 W
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		if q.Samples != len(samples) || q.Least > q.Most {
			t.Fatalf("quality %+v", q)
		}
		last := Watts(0)
		for u := 0.0; u <= 1; u += 0.01 {
			if p := m.At(u); p < last-1e-9 || p < m.Idle-1e-9 || p > m.Full+1e-9 {
				t.Fatalf("%v W at %v after %v W, from %v to %v", p, u, last, m.Idle, m.Full)
			} else {
				last = p
			}
		}
	})
}

func TestFitFindsTheCurveThatIsThere(t *testing.T) {
	curve, err := NewCurve(Point{}, Point{0.2, 0.5}, Point{0.6, 0.6}, Point{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	truth := Model{Idle: 50, Full: 250, Curve: curve}
	var samples []Sample
	for i := range 201 {
		u := float64(i) / 200
		s := Sample{u, truth.At(u)}
		if i%20 == 7 {
			s.Watts *= 5 // an outlier
		}
		samples = append(samples, s)
	}
	m, q, err := Fit(samples)
	if err != nil {
		t.Fatal(err)
	}
	for u := 0.0; u <= 1; u += 0.05 {
		if got, want := m.At(u), truth.At(u); math.Abs(float64(got-want)) > 1 {
			t.Errorf("%.1f W at %.2f, want %.1f", got, u, want)
		}
	}
	if q.Least != 0 || q.Most != 1 || q.MeanError > 0.05 {
		t.Errorf("quality %+v", q)
	}
}

func TestSamplesThatCannotBeAreRefused(t *testing.T) {
	for name, bad := range map[string]Sample{
		"no power": {0.5, 0}, "negative power": {0.5, -1}, "power that is NaN": {0.5, Watts(math.NaN())}, "infinite power": {0.5, Watts(math.Inf(1))},
		"utilisation over 1": {1.01, 5}, "below 0": {-0.01, 5}, "that is NaN": {math.NaN(), 5},
	} {
		samples := make([]Sample, leastFitSamples)
		for i := range samples {
			samples[i] = Sample{0.5, 10}
		}
		samples[3] = bad
		if _, _, err := Fit(samples); err == nil || !strings.Contains(err.Error(), "sample 3") {
			t.Errorf("%s: error %v, want one that names sample 3", name, err)
		}
	}
	if _, _, err := Fit(make([]Sample, leastFitSamples-1)); err == nil || !strings.Contains(err.Error(), "at least 20") {
		t.Errorf("too few: error %v", err)
	}
}

func BenchmarkPower(b *testing.B) {
	m, _ := BuiltIn().MachineType("m5.large")
	b.ReportAllocs()
	for b.Loop() {
		m.At(0.3)
	}
}

func TestNoUtilizationNeedsLessPerWorkThanTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := []Point{{}}
		for u := rapid.IntRange(1, 40).Draw(t, "u"); u < 100; u += rapid.IntRange(1, 40).Draw(t, "step") {
			points = append(points, Point{float64(u) / 100, rapid.Float64Range(points[len(points)-1].Share, 1).Draw(t, "share")})
		}
		curve, err := NewCurve(append(points, Point{1, 1})...)
		if err != nil {
			t.Fatal(err)
		}
		idle := Watts(rapid.Float64Range(1, 200).Draw(t, "idle"))
		m := Model{Idle: idle, Full: idle + Watts(rapid.Float64Range(0, 200).Draw(t, "more")), Curve: curve}
		least, reached := m.LeastPerUtilization(), false
		for u := 1; u <= 100; u++ {
			per := m.At(float64(u)/100) / (Watts(u) / 100)
			if per < least*(1-1e-9) {
				t.Fatalf("%v W per utilization at %d %%, less than %v", per, u, least)
			}
			reached = reached || per <= least*(1+1e-9)
		}
		if !reached {
			t.Fatalf("%v W per utilization is less than at any", least)
		}
	})
	if got := (Model{Idle: 50, Full: 100}).LeastPerUtilization(); got != 100 {
		t.Errorf("on a straight line it is %v W, want the 100 W of full load", got)
	}
}
