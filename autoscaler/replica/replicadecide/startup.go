package replicadecide

import (
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/runtimes"
)

// startUpWindow is the approximate number of pods over which start-up times are averaged: few enough to follow an image
// that has grown, enough not to follow one pod that had to wait.
const startUpWindow = 32

// LearnStartUp adds one pod's time from creation to Ready to the learned time, which may be nil.
func LearnStartUp(old *v1alpha1.LearnedTime, took time.Duration) *v1alpha1.LearnedTime {
	return runtimes.LearnTime(old, startUpWindow, took)
}
