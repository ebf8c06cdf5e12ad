package runtimes

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// AddSample adds a value to a mean and a standard deviation over the given number of samples, and returns
// the new ones. The first window samples have equal weights, later ones the weight 1/window:
// exponentially weighted, with the variance of the same weights (Welford's update). All are in the
// unit of the value. Without earlier samples, the value is the mean.
func AddSample(mean, deviation float64, samples, window int64, value float64) (newMean, newDeviation float64, n int64) {
	if samples <= 0 {
		return value, 0, 1
	}
	n = samples + 1
	weight := 1 / float64(min(n, window))
	off := value - mean
	return mean + weight*off, math.Sqrt((1 - weight) * (float64(deviation*deviation) + float64(weight*off)*off)), n
}

// LearnTime is [AddSample] for durations, rounded to milliseconds. old may be nil and is not modified. A
// negative duration counts as 0.
func LearnTime(old *v1alpha1.LearnedTime, window int64, took time.Duration) *v1alpha1.LearnedTime {
	before := ptr.Deref(old, v1alpha1.LearnedTime{})
	mean, deviation, n := AddSample(before.Mean.Seconds(), before.Deviation.Seconds(), before.Samples, window, max(0, took).Seconds())
	rounded := func(seconds float64) metav1.Duration {
		return metav1.Duration{Duration: time.Duration(math.Round(seconds*1000)) * time.Millisecond}
	}
	return &v1alpha1.LearnedTime{Mean: rounded(mean), Deviation: rounded(deviation), Samples: n}
}
