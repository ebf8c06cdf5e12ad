package energy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func after(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

func TestReadingsThatCannotBeAreDroppedAndCounted(t *testing.T) {
	limits := Limits{MaxAge: 10 * time.Second, MaxSkew: time.Second, Rated: 400}
	tests := []struct {
		name  string
		watts float64
		at    float64 // seconds after noon, which is now
		want  Fault
	}{
		{"a good one", 200, -1, Sound},
		{"nothing is drawn by a machine that is off", 0, -1, Sound},
		{"as much as the machine is rated for", 400, -1, Sound},
		{"as old as may be", 200, -10, Sound},
		{"from a clock that is a little ahead", 200, 1, Sound},
		{"NaN", math.NaN(), -1, NotANumber},
		{"infinite", math.Inf(1), -1, NotANumber},
		{"negative", -0.1, -1, Negative},
		{"more than the machine can draw", 400.1, -1, AboveRated},
		{"stale", 200, -10.1, Stale},
		{"from the future", 200, 1.1, FromFuture},
	}
	var readings []Reading
	want := Counts{}
	for _, tc := range tests {
		r := Reading{SourceRAPL, after(tc.at), Watts(tc.watts)}
		if got := limits.Check(r, noon); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		readings = append(readings, r)
		want[tc.want]++
	}
	var counts Counts
	kept := limits.Filter(readings, noon, &counts)
	if len(kept) != 5 || counts != want || counts.Dropped() != 6 || counts.Of(NotANumber) != 2 {
		t.Errorf("%d are kept, counts %v; want 5 and %v", len(kept), counts, want)
	}
	for i, r := range kept {
		if r != readings[i] {
			t.Errorf("kept %d: %+v, want %+v", i, r, readings[i])
		}
	}
}

func TestLimitsThatAreNotSetLimitNothing(t *testing.T) {
	if f := (Limits{}).Check(Reading{SourceQuery, noon.AddDate(-1, 0, 0), 1e9}, noon); f != Sound {
		t.Errorf("%v, want sound", f)
	}
}

func TestPowerBetweenTwoCounts(t *testing.T) {
	const wrap = 262_143_328_850 // a package's max_energy_range_uj
	tests := []struct {
		name     string
		from, to uint64
		seconds  float64
		wrap     uint64
		rated    Watts
		want     Watts
		fault    Fault
	}{
		{"it continues", 1_000_000, 101_000_000, 1, wrap, 150, 100, Sound},
		{"over ten seconds", 1_000_000, 101_000_000, 10, wrap, 150, 10, Sound},
		{"it stays", 5, 5, 1, wrap, 150, 0, Sound},
		{"it wraps around", wrap - 60_000_000, 40_000_000, 1, wrap, 150, 100, Sound},
		{"it began again: the power would be too great", 200_000_000_000, 40_000_000, 1, wrap, 150, 0, CounterReset},
		{"it went back and does not wrap", 200, 100, 1, 0, 150, 0, CounterReset},
		{"it went back and nobody knows the rated power", wrap - 1, 100, 1, wrap, 0, 0, CounterReset},
		{"it was past its own end", wrap + 1, 100, 1, wrap, 150, 0, CounterReset},
		{"more than the machine can draw", 0, 200_000_000, 1, wrap, 150, 0, AboveRated},
		{"no rated power, no such limit", 0, 200_000_000, 1, 0, 0, 200, Sound},
		{"at one moment", 0, 100, 0, wrap, 150, 0, NoTimePassed},
		{"in the wrong order", 0, 100, -1, wrap, 150, 0, NoTimePassed},
	}
	for _, tc := range tests {
		r, fault := Limits{Rated: tc.rated}.Between(SourceRAPL, Count{noon, tc.from}, Count{after(tc.seconds), tc.to}, tc.wrap)
		if fault != tc.fault || math.Abs(float64(r.Watts-tc.want)) > 1e-9 {
			t.Errorf("%s: %v W, %v; want %v, %v", tc.name, r.Watts, fault, tc.want, tc.fault)
		}
		if fault == Sound && (r.Source != SourceRAPL || !r.At.Equal(after(tc.seconds))) {
			t.Errorf("%s: %+v, want a reading at the later moment", tc.name, r)
		}
	}
}

// TestACounterIsReadAcrossItsEnd compares with a counter that never wraps.
func TestACounterIsReadAcrossItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wrap := rapid.Uint64Range(1e9, 1e12).Draw(t, "wrap")
		start, used := rapid.Uint64Range(0, wrap).Draw(t, "start"), rapid.Uint64Range(0, 400e6).Draw(t, "used")
		to := start + used
		if to > wrap {
			to -= wrap // by the formula; the real counter is one unit further
		}
		r, fault := Limits{Rated: 400}.Between(SourceRAPL, Count{noon, start}, Count{after(1), to}, wrap)
		if fault != Sound || math.Abs(float64(r.Watts)-float64(used)/1e6) > 1e-6 {
			t.Fatalf("%v W, %v; want %v", r.Watts, fault, float64(used)/1e6)
		}
	})
}

func TestFaultsHaveNames(t *testing.T) {
	for f := range faults {
		if f.String() == "" || f.String() == "unknown" {
			t.Errorf("fault %d has none", f)
		}
	}
	if faults.String() != "unknown" || new(Counts).Of(faults) != 0 {
		t.Error("a fault that does not exist has a name or a count")
	}
	for s, want := range map[Source]bool{SourceRAPL: true, SourceHwmon: true, SourceKepler: true, SourceNodeExporter: true, SourceQuery: true, SourceModel: false, "": false} {
		if s.Measured() != want {
			t.Errorf("source %q is measured: %t", s, !want)
		}
	}
}
