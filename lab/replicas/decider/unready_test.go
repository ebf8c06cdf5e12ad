package decider_test

import (
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/replicas/catalogue"
	"supercargo.dev/supercargo/lab/replicas/decider"
	"supercargo.dev/supercargo/lab/replicas/loop"
	"supercargo.dev/supercargo/lab/replicas/plant"
)

// TestPodsThatNeverBecomeReadyAreReplaced: a constant load is served as well as without them, at the cost of the dead
// pods.
func TestPodsThatNeverBecomeReadyAreReplaced(t *testing.T) {
	options := catalogue.Options{Goal: law.DefaultGoal()}
	run := func(name string, dead int) loop.Result {
		t.Helper()
		d, err := decider.New(name, options)
		if err != nil {
			t.Fatal(err)
		}
		p := plant.Default()
		p.Replicas, p.Dead = 28, dead
		r, err := loop.Run(loop.Config{
			Decider: d, Plant: p, Rates: []trace.Rate{{PerSecond: 290}, {At: 4 * time.Hour, PerSecond: 290}}, SLO: options.SLO, Interval: options.Interval, Warmup: 2 * time.Hour, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, name := range []string{"predictive", "inversequeue", "doublethreshold"} {
		well := run(name, 0)
		replicas := well.Measured.ReplicaSeconds / well.Measured.Seconds
		for _, dead := range []int{2, 4} {
			got := run(name, dead)
			cost := got.Measured.ReplicaSeconds / got.Measured.Seconds
			t.Logf("%s, %d dead: %d of %d intervals broken, %.1f replicas; without: %d, %.1f", name, dead, got.Violations, got.Intervals, cost, well.Violations, replicas)
			if got.Violations > well.Violations+2 || cost > replicas+float64(dead)+1 {
				t.Errorf("%s: with %d dead pods %d of %d intervals are broken at %.1f replicas, want as without them: %d at %.1f", name, dead, got.Violations, got.Intervals, cost, well.Violations, replicas)
			}
		}
	}
}
