package decide

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/average"
)

// lagWindow is over about how many machines a lag is averaged: few enough to follow
// a cloud that gets slower, enough not to follow one slow machine.
const lagWindow = 16

// LearnLag adds one machine's time from order to ready to what was learned before,
// which may be nil. The first machines count alike, later ones as 1/lagWindow
// (an exponentially weighted mean and variance).
func LearnLag(old *v1alpha1.AcquisitionLag, took time.Duration) *v1alpha1.AcquisitionLag {
	took = max(0, took)
	if old == nil || old.Samples <= 0 {
		return newLag(took.Seconds(), 0, 1)
	}
	return newLag(average.Add(old.Mean.Seconds(), old.Deviation.Seconds(), old.Samples, lagWindow, took.Seconds()))
}

func newLag(mean, deviation float64, samples int64) *v1alpha1.AcquisitionLag {
	round := func(seconds float64) metav1.Duration {
		return metav1.Duration{Duration: time.Duration(math.Round(seconds*1000)) * time.Millisecond}
	}
	return &v1alpha1.AcquisitionLag{Mean: round(mean), Deviation: round(deviation), Samples: samples}
}

// ExpectedLag is how long a machine is expected to take: the learned mean, or fallback while
// nothing has been learned.
func ExpectedLag(learned *v1alpha1.AcquisitionLag, fallback time.Duration) time.Duration {
	if learned == nil || learned.Samples <= 0 {
		return fallback
	}
	return learned.Mean.Duration
}

// FleetLag is how long machines of a fleet take at most, as far as is known.
func FleetLag(fleet *v1alpha1.NodeFleet) time.Duration {
	longest := fleet.Spec.Scaling.ExpectedLag.Duration
	for i := range fleet.Status.Flavors {
		longest = max(longest, ExpectedLag(fleet.Status.Flavors[i].Lag, 0))
	}
	return longest
}
