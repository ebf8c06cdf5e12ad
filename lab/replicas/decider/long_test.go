package decider_test

import (
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/replicas/catalogue"
	"supercargo.dev/supercargo/lab/replicas/decider"
	"supercargo.dev/supercargo/lab/replicas/loop"
	"supercargo.dev/supercargo/lab/replicas/plant"
)

// TestAQueueOfLongRequestsIsNoReasonForTheMaximum: requests take 20 s each, and their rate doubles at once. A queue of
// them cannot be drained within seconds.
func TestAQueueOfLongRequestsIsNoReasonForTheMaximum(t *testing.T) {
	goal := law.DefaultGoal()
	goal.SLO, goal.Model, goal.Max = 30*time.Second, queueing.Model{MuB: 0.05}, 1000
	for _, name := range []string{"predictive", "inversequeue"} {
		d, err := decider.New(name, catalogue.Options{Goal: goal})
		if err != nil {
			t.Fatal(err)
		}
		p := plant.Default()
		p.Model, p.Timeout, p.Connections, p.Replicas, p.Start = goal.Model, 0, 0, 110, 30*time.Second
		r, err := loop.Run(loop.Config{
			Decider: d, Plant: p, SLO: goal.SLO, Interval: goal.Interval, Seed: 1,
			Rates: []trace.Rate{{PerSecond: 5}, {At: time.Hour, PerSecond: 10}, {At: 3 * time.Hour, PerSecond: 5}, {At: 4 * time.Hour, PerSecond: 5}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: at most %d replicas, %d of %d intervals broken, mean %.1f", name, r.MaxReplicas, r.Violations, r.Intervals, r.Measured.ReplicaSeconds/r.Measured.Seconds)
		if r.MaxReplicas > 320 {
			t.Errorf("%s: up to %d replicas, where 210 serve the peak", name, r.MaxReplicas)
		}
	}
}
