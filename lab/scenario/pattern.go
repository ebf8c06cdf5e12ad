package scenario

import (
	"slices"
	"time"
)

// Shape is the form of a pattern's rate over time.
type Shape string

// The four shapes of HTAS, figure 2, and that of HEATS, figure 4.
const (
	Stable  Shape = "stable"
	Growing Shape = "growing"
	Cycle   Shape = "cycle"
	OnOff   Shape = "on-off"
	Burst   Shape = "burst"
)

// Rate returns the rate of arrivals at a time from 0 to horizon:
//
//	stable   BaseRate
//	growing  BaseRate + (PeakRate-BaseRate) (at/horizon)^Exponent
//	cycle    BaseRate + (PeakRate-BaseRate) sin²(pi at/Period): BaseRate at 0, PeakRate half a period later
//	on-off   BaseRate in the first On of every Period, else 0
//	burst    Count/On in the first On of every Period, of the first Bursts if that is not 0, else 0
func (p Pattern) Rate(at, horizon time.Duration) Rate {
	rise := float64(p.PeakRate - p.BaseRate)
	switch p.Shape {
	case Growing:
		return Rate(mulAdd(rise, power(float64(at)/float64(horizon), p.Exponent), float64(p.BaseRate)))
	case Cycle:
		return Rate(mulAdd(rise, sineSquared(float64(at%p.Period)/float64(p.Period)), float64(p.BaseRate)))
	case OnOff, Burst:
		if at%p.Period >= p.On || p.Bursts > 0 && int64(at/p.Period) >= p.Bursts {
			return 0
		}
	}
	return p.highest()
}

// highest returns a rate that [Pattern.Rate] never exceeds.
func (p Pattern) highest() Rate {
	if p.Shape == Burst {
		return Rate(float64(p.Count) / p.On.Seconds())
	}
	return max(p.BaseRate, p.PeakRate)
}

// most returns the number of pods up to the horizon: exact for bursts, and the mean at the highest
// rate for other shapes.
func (p Pattern) most(horizon time.Duration) float64 {
	if p.Shape == Burst {
		return float64(p.Count) * float64(p.rounds(horizon))
	}
	return float64(float64(p.highest()) * horizon.Seconds())
}

// rounds returns the number of bursts up to the horizon.
func (p Pattern) rounds(horizon time.Duration) int64 {
	all := int64((horizon + p.Period - 1) / p.Period)
	if p.Bursts > 0 {
		return min(all, p.Bursts)
	}
	return all
}

// times draws the arrivals in [0, horizon), in order and rounded down to the millisecond. It thins
// a Poisson process of the highest rate: an arrival at t is kept with probability Rate(t)/highest.
func (p Pattern) times(seed uint64, horizon time.Duration) []time.Duration {
	draw := newStream(seed, p.Name+"/times")
	if p.Shape == Burst {
		return p.bursts(draw, horizon)
	}
	highest := float64(p.highest())
	var kept []time.Duration
	for seconds := 0.0; ; {
		seconds += draw.exponential() / highest
		if seconds >= horizon.Seconds() {
			return kept
		}
		at := min(time.Duration(float64(seconds*float64(time.Second))), horizon-1)
		if float64(draw.unit()*highest) < float64(p.Rate(at, horizon)) {
			kept = append(kept, at.Truncate(time.Millisecond))
		}
	}
}

// bursts draws Count arrivals in the first On of every Period, uniformly among whole milliseconds,
// in order. Arrivals at or after the horizon are dropped.
func (p Pattern) bursts(draw stream, horizon time.Duration) []time.Duration {
	var kept []time.Duration
	for round := range p.rounds(horizon) {
		for range p.Count {
			if at := time.Duration(round)*p.Period + time.Duration(draw.below(max(1, int64(p.On/time.Millisecond))))*time.Millisecond; at < horizon {
				kept = append(kept, at)
			}
		}
	}
	slices.Sort(kept)
	return kept
}
