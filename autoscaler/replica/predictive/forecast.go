package predictive

import "math"

// Smoother is one exponential smoother of the arrival rate (Holt's, with a level
// and a trend), with how wrong it was.
type Smoother struct {
	// Level is the rate now, and Trend its change in one control interval, in 1/s.
	Level float64 `json:"level"`
	Trend float64 `json:"trend"`
	// Variance is the mean of its squared errors one interval ahead, the late ones
	// counting most; Samples how many there were, up to a bound.
	Variance float64 `json:"variance"`
	Samples  int     `json:"samples"`
}

// gains are the weights of the last rate in level and trend, one smoother each.
// The first expects that all stays as it is.
var gains = [...]struct{ level, trend float64 }{{1, 0}, {0.6, 0}, {0.3, 0}, {1, 0.3}, {1, 1}, {0.6, 0.2}}

// An error counts as at most outlier times what errors were like, which is taken
// as at least leastSpread of the rate.
const outlier, leastSpread = 3, 0.05

// memory is over how many intervals errors are averaged.
const memory = 40

// learnRate takes in the rate of a control interval. The argument stays as it
// was.
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
			// One jump of the load does not make every later forecast doubtful.
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

// forecast is the rate some intervals ahead by the smoother with the least
// variance, the first of equals, and the standard deviation of its error. While
// nothing is known of errors, a tenth of the rate stands for it.
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
