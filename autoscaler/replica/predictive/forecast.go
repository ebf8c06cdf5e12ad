package predictive

import "math"

// Smoother is an exponential smoother of the arrival rate (Holt's, with a level and a trend), with its past errors.
type Smoother struct {
	// Level is the present rate, and Trend its change in one control interval, in 1/s.
	Level float64 `json:"level"`
	Trend float64 `json:"trend"`
	// Variance is the mean of its squared errors one interval ahead, weighted towards recent ones. Samples is their
	// number, up to a bound.
	Variance float64 `json:"variance"`
	Samples  int     `json:"samples"`
}

// gains are the weights of the last rate in level and trend, for one smoother each. The first one expects no change.
var gains = [...]struct{ level, trend float64 }{{1, 0}, {0.6, 0}, {0.3, 0}, {1, 0.3}, {1, 1}, {0.6, 0.2}}

// outlier bounds an error to a multiple of the past errors, which count as at least leastSpread of the rate.
const outlier, leastSpread = 3, 0.05

// memory is the number of intervals over which errors are averaged.
const memory = 40

// learnRate adds the rate of a control interval. It does not change its argument.
func learnRate(smoothers []Smoother, lambda float64) []Smoother {
	next := make([]Smoother, len(gains))
	for i, g := range gains {
		if len(smoothers) != len(gains) {
			next[i].Level = lambda
			continue
		}
		s := smoothers[i]
		ahead := s.Level + s.Trend
		miss := lambda - ahead
		n := min(s.Samples+1, memory)
		squared := miss * miss
		if s.Samples > 0 {
			// One jump of the load must not widen all later forecasts.
			most := outlier * max(math.Sqrt(s.Variance), leastSpread*lambda)
			squared = min(squared, most*most)
		}
		next[i] = Smoother{
			Level: ahead + g.level*miss, Trend: s.Trend + g.level*g.trend*miss,
			Variance: s.Variance + (squared-s.Variance)/float64(n), Samples: n,
		}
	}
	return next
}

// forecast returns the rate some intervals ahead by the smoother with the lowest variance, the first of equals, and the
// standard deviation of its error. Without past errors, the deviation is a tenth of the rate.
func forecast(smoothers []Smoother, ahead float64) (rate, spread float64) {
	best := smoothers[0]
	for _, s := range smoothers[1:] {
		if s.Variance < best.Variance {
			best = s
		}
	}
	rate = max(best.Level+ahead*best.Trend, 0)
	if best.Samples == 0 {
		return rate, 0.1 * rate
	}
	return rate, math.Sqrt(best.Variance)
}
