package meter

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// virtual has the counters of two packages at a value, as a hypervisor shows them to a virtual machine.
func virtual(t *testing.T, at uint64) tree {
	t.Helper()
	d := newTree(t)
	for i := range 2 {
		dir := filepath.Join(powercap, fmt.Sprintf("intel-rapl:%d", i))
		d.write(filepath.Join(dir, "name"), fmt.Sprintf("package-%d", i))
		d.write(filepath.Join(dir, "max_energy_range_uj"), uint64(wrapAt))
		d.write(filepath.Join(dir, "energy_uj"), at)
	}
	return d
}

// TestCountersThatDoNotMoveAreNoMeter: the CPUs are busy and the counters do not move. The meter uses the model within
// seconds, and the counters again within minutes of their moving.
func TestCountersThatDoNotMoveAreNoMeter(t *testing.T) {
	for _, at := range []uint64{0, 123_456_789} {
		d := virtual(t, at)
		m, clock := d.meter(Options{})
		second := 0
		run := func(seconds int) {
			for range seconds {
				second++
				d.stat(uint64(1000+180*second), uint64(1000+20*second))
				m.read(t.Context())
				clock.Step(time.Second)
			}
		}
		run(6)
		if r, ok := m.Last(); !ok || r.Source.Measured() || r.Watts <= 0 {
			t.Errorf("counters at %d: %+v, %v, want the model within seconds", at, r, ok)
		}
		run(120)
		if r, ok := m.Last(); !ok || r.Source.Measured() {
			t.Errorf("counters at %d: %+v, %v, want the model still", at, r, ok)
		}
		for range 65 {
			for i := range 2 {
				d.write(filepath.Join(powercap, fmt.Sprintf("intel-rapl:%d", i), "energy_uj"), at+uint64(second)*20_000_000)
			}
			run(1)
		}
		if r, ok := m.Last(); !ok || !r.Source.Measured() || r.Watts < 39 || r.Watts > 41 {
			t.Errorf("counters at %d that move: %+v, %v, want 40 W", at, r, ok)
		}
	}
}

// TestTheOnlyMeterThatDoesNotMoveGivesNoReading: nothing else may be used, so the power is unknown and not 0 W.
func TestTheOnlyMeterThatDoesNotMoveGivesNoReading(t *testing.T) {
	d := virtual(t, 5)
	m, clock := d.meter(Options{Kind: RAPL})
	for range 120 {
		m.read(t.Context())
		clock.Step(time.Second)
	}
	if r, ok := m.Last(); ok {
		t.Errorf("%+v, want no reading", r)
	}
}
