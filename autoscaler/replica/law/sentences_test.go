package law

import (
	"math"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/kit/sentences"
)

func TestEachSentenceIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	missing := func(change func(*Observation)) string {
		o := Observation{ArrivalRate: 1, ResponseTime: 1, QueueLength: 1, Utilization: 1, Desired: 1, Ready: 1}
		change(&o)
		return o.Missing(ArrivalRate|ResponseTime|QueueLength, time.Minute)
	}
	none, well := math.NaN(), missing(func(*Observation) {})
	rate, took, queue := missing(func(o *Observation) { o.ArrivalRate = none }), missing(func(o *Observation) { o.ResponseTime = none }), missing(func(o *Observation) { o.QueueLength = none })
	ask := func(n int) string {
		return strings.Join(Limits{Min: 2, Max: 5}.Ask(n, time.Second, "why").Reasons, "; ")
	}
	grow := func(desired, n int) string {
		return strings.Join(Limits{Min: 1, Max: 9}.Grow(Observation{Desired: desired}, n, time.Second).Reasons, "; ")
	}
	doubt := func(served, desired, ready int, percent float64) string {
		return Quiet{Served: served}.Doubt(Observation{Desired: desired, Ready: ready, Utilization: percent})
	}
	partial := func(n int) string {
		l := Limits{Min: 1, Max: 9}
		return strings.Join(l.Partial(Observation{Desired: 5}, l.Ask(n, time.Second), "why").Reasons, "; ")
	}
	reach := func(w float64) string { _, why := DefaultGoal().Reachable(w, 400); return why }
	sentences.Check(t, []string{"law.go", "quiet.go", "slo.go"}, []sentences.Case{
		{"limits allow %d, not %d", ask(6), ask(5)},
		{"%s already requested and %s not reduced to %d", grow(5, 4), grow(5, 5)},
		{"the measurements are %v in the future: the clocks differ, or one was changed", missing(func(o *Observation) { o.Age = -1 }), missing(func(o *Observation) { o.Age = time.Hour })},
		{"the measurements are %v old, more than %v", missing(func(o *Observation) { o.Age = time.Hour }), missing(func(o *Observation) { o.Age = time.Minute })},
		{"the number of replicas is unknown", missing(func(o *Observation) { o.Ready = -1 }), missing(func(o *Observation) { o.Ready = 0 })},
		{"arrival rate", rate, took},
		{"response time", took, queue},
		{"queue length", queue, rate},
		{" was measured", rate, well},
		{"the measured %s of %v is impossible", missing(func(o *Observation) { o.QueueLength = -1 }), queue},
		{": only scaling out", partial(6), partial(5)},
		{"no replica is Ready", missing(func(o *Observation) { o.Ready = 0 }), well},
		{"no request was answered, and %d of the %d replicas that answered before and are still requested %s not Ready: they may be unable to answer", doubt(5, 3, 2, 0), doubt(5, 3, 3, 0)},
		{"no request was answered, and replicas are %.3g %% busy: they may be unable to answer", doubt(5, 5, 5, 11), doubt(5, 5, 5, 10)},
		{"%.4g s cannot be achieved at %.4g requests/s: one request alone takes %.4g s; keeping the queue short", reach(0.01), reach(1)},
	}, map[string]string{
		"minimum replicas %d: must be 1 or more":                "a fault of the configuration",
		"maximum replicas %d: must be at least the minimum, %d": "a fault of the configuration",
		"interval %v: must be a time above 0":                   "a fault of the configuration",
		"age %v: must be a time above 0, or 0 for no bound":     "a fault of the configuration",
	})
	if one, two := doubt(5, 3, 2, 0), doubt(5, 3, 1, 0); !strings.Contains(one, "1 of the 3 replicas that answered before and are still requested is not") || !strings.Contains(two, "2 of the 3 replicas that answered before and are still requested are not") {
		t.Errorf("it says %q and %q", one, two)
	}
}
