package energy

import (
	"math"
	"time"
)

// Source says where a reading comes from.
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
	// SourceQuery is a Prometheus query of the user's own.
	SourceQuery Source = "query"
	// SourceModel is a [Model] and a utilisation: nothing was measured.
	SourceModel Source = "model"
)

// Measured reports whether the source is a meter.
func (s Source) Measured() bool { return s != SourceModel && s != "" }

// Reading is the power that a machine draws at a moment.
type Reading struct {
	Source Source
	At     time.Time
	Watts  Watts
}

// Age returns how old the reading is. One from the future has a negative age.
func (r Reading) Age(now time.Time) time.Duration { return now.Sub(r.At) }

// Fault says why a reading is not used.
type Fault uint8

// What can be wrong with a reading, in the order in which it is looked for.
const (
	Sound        Fault = iota // nothing
	NotANumber                // NaN or infinite
	Negative                  // below 0
	AboveRated                // over what the machine can draw
	Stale                     // older than allowed
	FromFuture                // newer than now, by more than clocks may differ
	CounterReset              // a counter went back and did not wrap around
	NoTimePassed              // two readings of a counter at one moment, or in the wrong order
	Unreadable                // the meter is there and gives no reading

	faults // how many there are
)

var faultNames = [faults]string{"sound", "not-a-number", "negative", "above-rated", "stale", "from-future", "counter-reset", "no-time-passed", "unreadable"}

// String returns the fault's name as metrics carry it: "above-rated".
func (f Fault) String() string {
	if f >= faults {
		return "unknown"
	}
	return faultNames[f]
}

// Limits say which readings can be true.
type Limits struct {
	// MaxAge is how old a reading may be; 0 allows any age.
	MaxAge time.Duration
	// MaxSkew is how far two clocks may differ: a reading may be that much newer than
	// now.
	MaxSkew time.Duration
	// Rated is the most that the machine can draw; 0 when it is not known.
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

// Faults returns all faults but [Sound], in their order.
func Faults() []Fault {
	all := make([]Fault, 0, faults-1)
	for f := Sound + 1; f < faults; f++ {
		all = append(all, f)
	}
	return all
}

// Counts says how many readings had which fault; [Sound] ones are those that were
// kept. The zero value is ready to use.
type Counts [faults]int

// Of returns how many readings had the fault.
func (c *Counts) Of(f Fault) int {
	if f >= faults {
		return 0
	}
	return c[f]
}

// Dropped returns how many readings were not kept.
func (c *Counts) Dropped() int {
	n := 0
	for _, k := range c[Sound+1:] {
		n += k
	}
	return n
}

// Filter returns the readings without fault, in their order, in a new slice, and
// counts the others in counts by what is wrong with them.
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

// Count is what an energy counter stood at, such as energy_uj of a powercap zone.
type Count struct {
	At          time.Time
	Microjoules uint64
}

// Between returns the mean power between two readings of one counter, as a reading
// at the moment of the later one.
//
// wrap is the greatest value that the counter shows before it begins again at 0
// (max_energy_range_uj of the zone), or 0 for one that does not wrap. Where the
// counter has gone back, either it wrapped around, once, and wrap - from + to was
// used (less by one unit of the counter than the truth, some 60 µJ, which powercap
// does not tell), or its machine started anew. The two look alike: the wrapped value
// is taken when the power it implies is not over limits.Rated, so a counter that
// wraps needs a rated power, and one read less often than it wraps at rated power
// (about once in an hour at 70 W) is not to be trusted.
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

// Usage is the energy used over a time, measured and modelled apart.
type Usage struct {
	Measured, Modelled Joules
	// Covered is the time that the two stand for, Gaps the time between readings that
	// were too far apart to say anything.
	Covered, Gaps time.Duration
}

// Total returns measured and modelled energy together.
func (u Usage) Total() Joules { return u.Measured + u.Modelled }
