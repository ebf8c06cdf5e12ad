package energy

import (
	"math"
	"time"
)

// Source is the source of a reading.
type Source string

const (
	// SourceRAPL is the energy counter of a CPU package in powercap.
	SourceRAPL Source = "rapl"
	// SourceHwmon is a power sensor of the board.
	SourceHwmon Source = "hwmon"
	// SourceKepler is Kepler through Prometheus.
	SourceKepler Source = "kepler"
	// SourceNodeExporter is node-exporter's RAPL collector through Prometheus.
	SourceNodeExporter Source = "node-exporter"
	// SourceQuery is a user-defined Prometheus query.
	SourceQuery Source = "query"
	// SourceModel is a [Model] and a utilisation, without a measurement.
	SourceModel Source = "model"
)

// Measured reports whether the source is a meter.
func (s Source) Measured() bool { return s != SourceModel && s != "" }

// Reading is the power of a machine at a point in time.
type Reading struct {
	Source Source
	At     time.Time
	Watts  Watts
}

// Age returns the age of the reading. A reading from the future has a negative age.
func (r Reading) Age(now time.Time) time.Duration { return now.Sub(r.At) }

// Fault is the reason why a reading is not used.
type Fault uint8

// The faults, in the order in which they are checked.
const (
	Sound        Fault = iota // nothing
	NotANumber                // NaN or infinite
	Negative                  // below 0
	AboveRated                // above what the machine can draw
	Stale                     // older than allowed
	FromFuture                // newer than now, by more than the allowed clock skew
	CounterReset              // a counter decreased without wrapping around
	NoTimePassed              // two readings of a counter at the same time, or in the wrong order
	Unreadable                // the meter exists but returned no reading

	faults // number of faults
)

var faultNames = [faults]string{"sound", "not-a-number", "negative", "above-rated", "stale", "from-future", "counter-reset", "no-time-passed", "unreadable"}

// String returns the fault's name in metrics, such as "above-rated".
func (f Fault) String() string {
	if f >= faults {
		return "unknown"
	}
	return faultNames[f]
}

// Limits define which readings are plausible.
type Limits struct {
	// MaxAge is the maximum age of a reading; 0 means unlimited.
	MaxAge time.Duration
	// MaxSkew is the maximum clock skew: a reading may be newer than now by this much.
	MaxSkew time.Duration
	// Rated is the maximum power of the machine; 0 if unknown.
	Rated Watts
}

// Check returns the first fault of a reading.
func (l Limits) Check(r Reading, now time.Time) Fault {
	switch w := float64(r.Watts); {
	case math.IsNaN(w) || math.IsInf(w, 0):
		return NotANumber
	case w < 0:
		return Negative
	case l.Rated > 0 && r.Watts > l.Rated:
		return AboveRated
	case l.MaxAge > 0 && r.Age(now) > l.MaxAge:
		return Stale
	case r.Age(now) < -l.MaxSkew:
		return FromFuture
	}
	return Sound
}

// Faults returns all faults except [Sound], in order.
func Faults() []Fault {
	all := make([]Fault, 0, faults-1)
	for f := Sound + 1; f < faults; f++ {
		all = append(all, f)
	}
	return all
}

// Counts counts readings by fault. [Sound] counts those that were kept. The zero value is ready to use.
type Counts [faults]int

// Of returns how many readings had the fault.
func (c *Counts) Of(f Fault) int {
	if f >= faults {
		return 0
	}
	return c[f]
}

// Dropped returns how many readings were dropped.
func (c *Counts) Dropped() int {
	n := 0
	for _, k := range c[Sound+1:] {
		n += k
	}
	return n
}

// Filter returns the readings without a fault, in order and in a new slice. It counts all readings in counts by fault.
func (l Limits) Filter(readings []Reading, now time.Time, counts *Counts) []Reading {
	kept := make([]Reading, 0, len(readings))
	for _, r := range readings {
		f := l.Check(r, now)
		counts[f]++
		if f == Sound {
			kept = append(kept, r)
		}
	}
	return kept
}

// Count is a reading of an energy counter, such as energy_uj of a powercap zone.
type Count struct {
	At          time.Time
	Microjoules uint64
}

// Between returns the mean power between two readings of one counter, as a reading at the time of the later one.
//
// wrap is the greatest value of the counter before it restarts at 0 (max_energy_range_uj of the zone), or 0 if the
// counter does not wrap. If the counter has decreased, either it wrapped around once and the energy is wrap - from + to
// (less than the truth by one unit of the counter, about 60 µJ, which powercap does not report), or the machine
// restarted. Between assumes a wrap if the resulting power does not exceed limits.Rated. A counter that wraps therefore
// needs a rated power, and must be read more often than it wraps at rated power (about once per hour at 70 W).
func (l Limits) Between(source Source, from, to Count, wrap uint64) (Reading, Fault) {
	seconds := to.At.Sub(from.At).Seconds()
	if !(seconds > 0) {
		return Reading{}, NoTimePassed
	}
	used, back := to.Microjoules-from.Microjoules, to.Microjoules < from.Microjoules
	if back {
		if wrap == 0 || from.Microjoules > wrap || l.Rated <= 0 {
			return Reading{}, CounterReset
		}
		used = wrap - from.Microjoules + to.Microjoules
	}
	r := Reading{Source: source, At: to.At, Watts: Watts(float64(used) / 1e6 / seconds)}
	switch {
	case l.Rated <= 0 || r.Watts <= l.Rated:
		return r, Sound
	case back:
		return Reading{}, CounterReset
	}
	return Reading{}, AboveRated
}

// Usage is the energy used over a period, measured and modelled separately.
type Usage struct {
	Measured, Modelled Joules
	// Covered is the time that the energy stands for. Gaps is the time between readings that were too far apart.
	Covered, Gaps time.Duration
}

// Total returns the sum of measured and modelled energy.
func (u Usage) Total() Joules { return u.Measured + u.Modelled }
