package decide

import (
	"time"

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
	var l v1alpha1.StartUpTime
	if old != nil {
		l = *old
	}
	l.Mean.Duration, l.Deviation.Duration, l.Samples = average.AddTime(l.Mean.Duration, l.Deviation.Duration, l.Samples, startUpWindow, took)
	return &l
}
