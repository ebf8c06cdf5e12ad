// Package average keeps exponentially weighted means.
package average

import (
	"math"
	"time"
)

// Add adds one value to a mean and a standard deviation over as many samples, and returns
// all three with it. The first window samples count alike, later ones as 1/window:
// exponentially weighted, with the variance of the same weights (Welford's update). All are
// in the unit of the value. With no sample before, the value is the mean.
func Add(mean, deviation float64, samples, window int64, value float64) (newMean, newDeviation float64, n int64) {
	if samples <= 0 {
		return value, 0, 1
	}
	n = samples + 1
	weight := 1 / float64(min(n, window))
	off := value - mean
	return mean + weight*off, math.Sqrt((1 - weight) * (float64(deviation*deviation) + float64(weight*off)*off)), n
}

// AddTime is [Add] for times, to the millisecond. A time below 0 counts as 0.
func AddTime(mean, deviation time.Duration, samples, window int64, took time.Duration) (newMean, newDeviation time.Duration, n int64) {
	m, d, n := Add(mean.Seconds(), deviation.Seconds(), samples, window, max(0, took).Seconds())
	rounded := func(seconds float64) time.Duration {
		return time.Duration(math.Round(seconds*1000)) * time.Millisecond
	}
	return rounded(m), rounded(d), n
}
