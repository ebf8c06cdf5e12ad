package compressed

import (
	"strings"
	"testing"
	"time"
)

func TestAStretchedFleetWaitsSoMuchLonger(t *testing.T) {
	one, three := Fleet("a", 1).Spec, Fleet("a", 3).Spec
	for name, pair := range map[string][2]time.Duration{
		"interval":      {one.Scaling.Interval.Duration, three.Scaling.Interval.Duration},
		"batchIdle":     {one.Scaling.BatchIdle.Duration, three.Scaling.BatchIdle.Duration},
		"expectedLag":   {one.Scaling.ExpectedLag.Duration, three.Scaling.ExpectedLag.Duration},
		"queueEmptyFor": {one.Consolidation.QueueEmptyFor.Duration, three.Consolidation.QueueEmptyFor.Duration},
		"releaseDelay":  {one.Consolidation.ReleaseDelay.Duration, three.Consolidation.ReleaseDelay.Duration},
		"drainTimeout":  {one.Consolidation.DrainTimeout.Duration, three.Consolidation.DrainTimeout.Duration},
	} {
		if pair[0] == 0 || pair[1] != 3*pair[0] {
			t.Errorf("%s is %v, and stretched three times %v", name, pair[0], pair[1])
		}
	}
	if one.Pricing != three.Pricing {
		t.Errorf("pricing is %v, and stretched %v", one.Pricing, three.Pricing)
	}
}

func TestTimeBinsAreAsMuchNarrowerAsLivesAreShorter(t *testing.T) {
	for scale, want := range map[float64]string{60: "scalingCycle: 5s", 100_000: "scalingCycle: 1s"} {
		text, err := SchedulerConfig(scale)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "podMaxBackoffSeconds: 1\n") {
			t.Errorf("pods that found no room are checked again as late as in real time:\n%s", text)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("with a time scale of %v the configuration has no %q:\n%s", scale, want, text)
		}
	}
}
