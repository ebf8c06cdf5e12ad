package meter

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
)

// TestHistoryIsTheAreaUnderThePower compares with a sum over thousandths of a second.
func TestHistoryIsTheAreaUnderThePower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(8)
		type stretch struct {
			from, to float64 // seconds
			watts    float64
			measured bool
		}
		var known []stretch
		seconds, end := 0.0, 0.0
		for range rapid.IntRange(2, 20).Draw(t, "n") {
			from := seconds
			seconds += float64(rapid.IntRange(1, 4000).Draw(t, "ms")) / 1000
			r := energy.Reading{Source: rapid.SampledFrom([]energy.Source{energy.SourceRAPL, energy.SourceModel}).Draw(t, "source"),
				At: moment(seconds), Watts: energy.Watts(rapid.Float64Range(0, 500).Draw(t, "watts"))}
			h.add(measurement{Reading: r, since: moment(from)})
			known = append(known, stretch{from, seconds, float64(r.Watts), r.Source.Measured()})
			end = seconds
		}
		first := known[max(0, len(known)-8)].to // the ring's oldest point has no energy before it
		from := math.Round(rapid.Float64Range(first, end).Draw(t, "from")*1000) / 1000
		to := math.Round(rapid.Float64Range(first, end).Draw(t, "to")*1000) / 1000
		u, ok := h.usage(moment(from), moment(to))
		if want := to > from; ok != want {
			t.Fatalf("from %v to %v of %v to %v is known: %t, want %t", from, to, first, end, ok, want)
		}
		var measured, modelled float64
		for _, s := range known {
			if overlap := min(to, s.to) - max(from, s.from); ok && overlap > 0 && s.measured {
				measured += overlap * s.watts
			} else if ok && overlap > 0 {
				modelled += overlap * s.watts
			}
		}
		if math.Abs(float64(u.Measured)-measured) > 1e-4 || math.Abs(float64(u.Modelled)-modelled) > 1e-4 {
			t.Fatalf("%+v, want %v J measured and %v J modelled", u, measured, modelled)
		}
	})
}

func moment(seconds float64) time.Time {
	return noon.Add(time.Duration(math.Round(seconds * 1e9)))
}

func TestBridges(t *testing.T) {
	reading := func(s energy.Source, second float64, w energy.Watts) energy.Reading {
		return energy.Reading{Source: s, At: moment(second), Watts: w}
	}
	tests := []struct {
		name  string
		first energy.Reading
		next  energy.Reading
		since float64 // negative for momentary power
		want  energy.Usage
		known bool
	}{
		{"means that follow each other", reading(energy.SourceRAPL, 0, 10), reading(energy.SourceRAPL, 1, 30), 0,
			energy.Usage{Measured: 30, Covered: time.Second}, true},
		{"one was dropped in between", reading(energy.SourceRAPL, 0, 10), reading(energy.SourceRAPL, 3, 30), 2,
			energy.Usage{Measured: 2*20 + 30, Covered: 3 * time.Second}, true},
		{"two moments", reading(energy.SourceHwmon, 0, 10), reading(energy.SourceHwmon, 2, 30), -1,
			energy.Usage{Measured: 40, Covered: 2 * time.Second}, true},
		{"a meter comes", reading(energy.SourceModel, 0, 10), reading(energy.SourceRAPL, 3, 30), 1,
			energy.Usage{Measured: 60, Modelled: 20, Covered: 3 * time.Second}, true},
		{"a mean reaches back behind the last", reading(energy.SourceHwmon, 1, 10), reading(energy.SourceRAPL, 2, 30), 0,
			energy.Usage{Measured: 30, Covered: time.Second}, true},
		{"another meter comes, which sees other parts", reading(energy.SourceHwmon, 0, 10), reading(energy.SourceRAPL, 3, 30), 1, energy.Usage{}, false},
		{"another meter continues where the last one ended", reading(energy.SourceHwmon, 0, 10), reading(energy.SourceRAPL, 3, 30), 0,
			energy.Usage{Measured: 90, Covered: 3 * time.Second}, true},
		{"too far apart", reading(energy.SourceRAPL, 0, 10), reading(energy.SourceRAPL, 7, 30), 6, energy.Usage{}, false},
		{"not newer", reading(energy.SourceRAPL, 1, 10), reading(energy.SourceRAPL, 1, 30), 0, energy.Usage{}, false},
	}
	for _, tc := range tests {
		h := newHistory(4)
		if _, known := h.add(measurement{Reading: tc.first}); known {
			t.Errorf("%s: the first reading says something of the time before it", tc.name)
		}
		since := moment(tc.since)
		if tc.since < 0 {
			since = time.Time{}
		}
		if got, known := h.add(measurement{Reading: tc.next, since: since}); got != tc.want || known != tc.known {
			t.Errorf("%s: %+v, %t; want %+v, %t", tc.name, got, known, tc.want, tc.known)
		}
	}
}

// TestReadingsFarApartSayNothingOfShortTimes: the energy between two of them may have been used
// at any moment in between.
func TestReadingsFarApartSayNothingOfShortTimes(t *testing.T) {
	h := newHistory(64)
	for i := range 41 {
		h.add(measurement{Reading: energy.Reading{Source: energy.SourceQuery, At: moment(15 * float64(i)), Watts: 10}, reach: 20 * time.Second})
	}
	tests := []struct {
		from, to float64
		known    bool
	}{
		{15, 30, true}, {15, 45, true}, // from one reading to another
		{16, 29, false}, {16, 30, false}, {15, 29, false}, {16, 165, false}, {16, 166, true}, {1, 599, true},
	}
	for _, tc := range tests {
		if u, known := h.usage(moment(tc.from), moment(tc.to)); known != tc.known || known && math.Abs(float64(u.Measured)-10*(tc.to-tc.from)) > 1e-9 {
			t.Errorf("from %v s to %v s: %+v, %t; want %t", tc.from, tc.to, u, known, tc.known)
		}
	}
	h.add(measurement{Reading: energy.Reading{Source: energy.SourceQuery, At: moment(621), Watts: 10}, reach: 20 * time.Second})
	if u, known := h.usage(moment(300), moment(621)); known {
		t.Errorf("two readings that are further apart than they reach have %+v between them", u)
	}
}

func BenchmarkEnergy(b *testing.B) {
	h := newHistory(remembered)
	for i := range remembered {
		h.add(measurement{Reading: energy.Reading{Source: energy.SourceRAPL, At: noon.Add(time.Duration(i) * time.Second), Watts: 100}})
	}
	b.ReportAllocs()
	for b.Loop() {
		h.usage(noon.Add(time.Second), noon.Add(time.Hour))
	}
}
