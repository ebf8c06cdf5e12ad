package replicas

import (
	"math"
	"slices"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/replicas/loop"
)

// response contains the response of a law to a step of the load.
type response struct {
	before, after int           // final replicas before and after the step, the median of an hour
	overshoot     float64       // maximum of replicas beyond after, as a share of after
	settling      time.Duration // from the step until replicas stay within a tenth of after, or two
	actions       int           // changes of the replicas in the four hours after the step
	violations    int           // control intervals that broke the SLO, of 58
}

// stepAt is the time of the step and stepEnd the end of the run, in seconds.
const stepAt, stepEnd = 14_400, 28_800

// answer simulates a step from one rate to another.
func answer(t *testing.T, name string, from, to float64) response {
	t.Helper()
	var at []float64
	var replicas []int
	c := loop.Config{Rates: []trace.Rate{{PerSecond: from}, {At: stepAt * time.Second, PerSecond: to}}, Warmup: stepAt * time.Second}
	c.OnStep = func(s loop.Step) {
		at = append(at, s.Seconds)
		replicas = append(replicas, s.Replicas)
	}
	result := play(t, name, c)
	median := func(from, to float64) int {
		var all []int
		for i, s := range at {
			if s >= from && s < to {
				all = append(all, replicas[i])
			}
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	r := response{before: median(stepAt-3600, stepAt), after: median(stepEnd-3600, stepEnd), actions: result.Actions, violations: result.Violations}
	for i, s := range at {
		if s < stepAt {
			continue
		}
		r.overshoot = max(r.overshoot, float64(replicas[i]-r.after)/float64(r.after))
		if math.Abs(float64(replicas[i]-r.after)) > max(2, 0.1*float64(r.after)) {
			next := stepEnd - stepAt
			if i+1 < len(at) {
				next = int(at[i+1] - stepAt)
			}
			r.settling = time.Duration(next) * time.Second
		}
	}
	return r
}

// TestStepResponses specifies the response of each law to a load that steps from 100 to 400 requests per
// second, and back. By the model, 6 and 38 replicas are the minimum that keeps the SLO. The bounds are
// measured values, rounded up by about a quarter: the maximum overshoot, settling time and number of actions
// of a law. Laws by utilisation have a target of 50 % and so other numbers of replicas.
func TestStepResponses(t *testing.T) {
	const s, never = time.Second, (stepEnd - stepAt) * time.Second
	for _, tc := range []struct {
		law      string
		up, down response
	}{
		{"predictive", response{after: 38, overshoot: 1.2, settling: 800 * s, actions: 18}, response{after: 5, overshoot: 6.7, settling: 800 * s, actions: 85}},
		{"inversequeue", response{after: 40, overshoot: 0.8, settling: 1100 * s, actions: 17}, response{after: 7, overshoot: 4.5, settling: 2000 * s, actions: 24}},
		{"doublethreshold", response{after: 69, overshoot: 0.1, settling: 15 * s, actions: 3}, response{after: 9, overshoot: 0.1, settling: 60 * s, actions: 3}},
		{"hpa", response{after: 69, overshoot: 0.1, settling: 45 * s, actions: 4}, response{after: 9, overshoot: 6.7, settling: 315 * s, actions: 3}},
		{"hpa-dhpa", response{after: 69, overshoot: 0.1, settling: 45 * s, actions: 2}, response{after: 9, overshoot: 0.1, settling: 45 * s, actions: 2}},
		{"qmdl", response{after: 144, overshoot: 0.2, settling: 3000 * s, actions: 40}, response{after: 20, overshoot: 1, settling: never, actions: 20}},
		{"qmca", response{after: 38, overshoot: 1.2, settling: never, actions: 58}, response{after: 6, overshoot: 5.4, settling: never, actions: 58}},
		{"inversep", response{after: 78, overshoot: 1.3, settling: never, actions: 58}, response{after: 12, overshoot: 2.2, settling: never, actions: 24}},
		{"proportional", response{after: 39, overshoot: 0.1, settling: 500 * s, actions: 40}, response{after: 10, overshoot: 2.9, settling: 500 * s, actions: 4}},
	} {
		t.Run(tc.law, func(t *testing.T) {
			t.Parallel()
			for _, half := range []struct {
				name     string
				from, to float64
				most     response
			}{{"up", 100, 400, tc.up}, {"down", 400, 100, tc.down}} {
				got := answer(t, tc.law, half.from, half.to)
				t.Logf("%s %s: from %d to %d replicas, overshoot %.0f %%, settled after %v, %d actions, %d broken intervals", tc.law, half.name,
					got.before, got.after, 100*got.overshoot, got.settling, got.actions, got.violations)
				near := math.Abs(float64(got.after-half.most.after)) <= max(2, 0.1*float64(half.most.after))
				if !near || got.overshoot > half.most.overshoot || got.settling > half.most.settling || got.actions > half.most.actions {
					t.Errorf("%s: %+v, want at most %+v", half.name, got, half.most)
				}
			}
		})
	}
}
