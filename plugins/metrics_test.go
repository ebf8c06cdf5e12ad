package plugins_test

import (
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

// TestAttemptsAreCountedByOutcome reads the scheduler's /metrics.
func TestAttemptsAreCountedByOutcome(t *testing.T) {
	legacyregistry.Reset()
	s := scheduling.NewScheduler(t, scheduling.StrictConfiguration, clock.RealClock{})
	s.AddNode(fixtures.Node("a", 4000, 8*gi))
	place(t, s, "a", fixtures.Pod("p", 100, gi))
	place(t, s, "a", fixtures.Pod("q", 100, gi, fixtures.Batch("5m")))
	place(t, s, "", fixtures.Pod("too-large", 100, 9*gi))
	want := `
# HELP supercargo_scheduler_narrowing_total [ALPHA] Scheduling attempts, by packing plugin and by whether they were narrowed to one node, or the reason why not.
# TYPE supercargo_scheduler_narrowing_total counter
supercargo_scheduler_narrowing_total{plugin="BestFit",result="narrowed"} 1
supercargo_scheduler_narrowing_total{plugin="BestFit",result="no_fit"} 1
supercargo_scheduler_narrowing_total{plugin="TimeBin",result="narrowed"} 1
`
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), "supercargo_scheduler_narrowing_total"); err != nil {
		t.Error(err)
	}
}
