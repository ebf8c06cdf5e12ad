package plugins_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

// TestAFailedPodTellsWhetherItWasNarrowed checks what PackingSort relies on: kube-scheduler lists the plugin that
// narrowed a pod among those that rejected it, and does not list it for a pod that was tried on all nodes.
func TestAFailedPodTellsWhetherItWasNarrowed(t *testing.T) {
	s := scheduling.NewScheduler(t, withLiar, clock.RealClock{}, liarRegistry)
	s.AddNode(fixtures.Node("tight", 4000, 8*gi))
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		narrowed bool
	}{
		{"a service narrowed", fixtures.Pod("service", 100, gi), true},
		{"the same on all nodes", fixtures.Pod("service", 100, gi), false},
		{"a pod that fits nowhere", fixtures.Pod("large", 100, 9*gi), false},
	} {
		var unfit *framework.FitError
		if a := s.Attempt(tc.pod); !errors.As(a.Err, &unfit) {
			t.Fatalf("%s: on %q, %v", tc.name, a.Node, a.Err)
		}
		if got := unfit.Diagnosis.UnschedulablePlugins.Has("BestFit"); got != tc.narrowed {
			t.Errorf("%s: rejected by %v; that names BestFit: %t, want %t", tc.name, unfit.Diagnosis.UnschedulablePlugins.UnsortedList(), got, tc.narrowed)
		}
	}

	s = scheduling.NewScheduler(t, withLiar, clock.RealClock{}, liarRegistry) // narrowing is paused in the first scheduler
	s.AddNode(fixtures.Node("tight", 4000, 8*gi))
	var unfit *framework.FitError
	if a := s.Attempt(fixtures.Pod("batch", 100, gi, fixtures.Batch("1h"))); !errors.As(a.Err, &unfit) || !unfit.Diagnosis.UnschedulablePlugins.Has("TimeBin") {
		t.Errorf("a batch pod narrowed: on %q, %v", a.Node, a.Err)
	}
}
