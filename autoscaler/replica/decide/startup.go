package decide

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/average"
)

// startUpWindow is over about how many pods a start-up time is averaged: few enough to
// follow an image that has grown, enough not to follow one pod that had to wait.
const startUpWindow = 32

// LearnStartUp adds one pod's time from its creation until it was Ready to what was
// learned before, which may be nil. The first pods count alike, later ones as
// 1/startUpWindow (an exponentially weighted mean and variance).
func LearnStartUp(old *v1alpha1.StartUpTime, took time.Duration) *v1alpha1.StartUpTime {
	took = max(0, took)
	if old == nil || old.Samples <= 0 {
		return newStartUp(took.Seconds(), 0, 1)
	}
	return newStartUp(average.Add(old.Mean.Seconds(), old.Deviation.Seconds(), old.Samples, startUpWindow, took.Seconds()))
}

func newStartUp(mean, deviation float64, samples int64) *v1alpha1.StartUpTime {
	round := func(seconds float64) metav1.Duration {
		return metav1.Duration{Duration: time.Duration(math.Round(seconds*1000)) * time.Millisecond}
	}
	return &v1alpha1.StartUpTime{Mean: round(mean), Deviation: round(deviation), Samples: samples}
}
