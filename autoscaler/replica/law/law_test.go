package law

import (
	"math"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

func TestWhatKeepsALawFromDeciding(t *testing.T) {
	good := Observation{ArrivalRate: 1, ResponseTime: 1, QueueLength: 1, Utilization: 1, Desired: 1, Ready: 1, Age: time.Second}
	for _, tc := range []struct {
		name  string
		needs Needs
		spoil func(*Observation)
		says  string // empty: nothing is missing
	}{
		{"all is there", ArrivalRate | ResponseTime | QueueLength | Utilization, func(*Observation) {}, ""},
		{"what is missing is not needed", ArrivalRate, func(o *Observation) { o.ResponseTime = math.NaN() }, ""},
		{"no response time", ArrivalRate | ResponseTime, func(o *Observation) { o.ResponseTime = math.NaN() }, "no response time was measured"},
		{"a negative queue", QueueLength, func(o *Observation) { o.QueueLength = -1 }, "queue length of -1 is impossible"},
		{"an infinite rate", ArrivalRate, func(o *Observation) { o.ArrivalRate = math.Inf(1) }, "arrival rate of +Inf is impossible"},
		{"a response time of eons", ResponseTime, func(o *Observation) { o.ResponseTime = 1e300 }, "response time of 1e+300 is impossible"},
		{"stale", ArrivalRate, func(o *Observation) { o.Age = time.Hour }, "1h0m0s old, more than 1m0s"},
		{"from the future", ArrivalRate, func(o *Observation) { o.Age = -time.Second }, "the clocks differ, or one was changed"},
		{"nothing serves", Utilization, func(o *Observation) { o.Ready = 0 }, "no replica is Ready"},
		{"replicas unknown", ArrivalRate, func(o *Observation) { o.Desired = -1 }, "is unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := good
			tc.spoil(&o)
			got := o.Missing(tc.needs, time.Minute)
			if (tc.says == "") != (got == "") || !strings.Contains(got, tc.says) {
				t.Errorf("it says %q, want %q", got, tc.says)
			}
		})
	}
}

func TestLimitsAreTold(t *testing.T) {
	l := Limits{Min: 2, Max: 5}
	if d := l.Ask(9, time.Second, "why"); d.Replicas != 5 || len(d.Reasons) != 2 || !strings.Contains(d.Reasons[1], "allow 5, not 9") {
		t.Errorf("asked for 9: %+v", d)
	}
	if d := l.Ask(3, time.Second, "why"); d.Replicas != 3 || len(d.Reasons) != 1 {
		t.Errorf("asked for 3: %+v", d)
	}
	if d := l.Hold(Observation{Desired: 1}, time.Second, "why"); d.Replicas != 2 || !d.Held {
		t.Errorf("held at 1: %+v", d)
	}
}

func TestTheGoalRefusesAllFaultsAtOnce(t *testing.T) {
	err := Goal{Limits: Limits{Min: 0, Max: -1}, SLO: -1, Interval: 0, MaxAge: -1}.Validate()
	for _, field := range []string{"minimum replicas", "maximum replicas", "mu_b", "SLO", "interval", "age"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want it to name %s", err, field)
		}
	}
	g := DefaultGoal()
	g.Model, g.SLO = queueing.Model{MuB: 5}, 100*time.Millisecond
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "takes 0.2 s") {
		t.Errorf("0.1 s of a service that takes 0.2 s: %v, want it refused with 0.2 s named", err)
	}
	if err := DefaultGoal().Validate(); err != nil {
		t.Error(err)
	}
}

func TestMemoryOfAnotherLawIsAFaultOfTheProgram(t *testing.T) {
	l := New("counting", func(m int, _ Observation) (int, Decision) { return m + 1, Decision{} })
	defer func() {
		if recover() == nil {
			t.Error("the memory of another law is taken")
		}
	}()
	l.Decide("a text", Observation{})
}
