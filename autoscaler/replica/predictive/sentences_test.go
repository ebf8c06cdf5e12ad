package predictive

import (
	"math"
	"strings"
	"testing"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/test/kit/sentences"
)

func TestEachReasonIsGivenWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	within := func(lambda, queue float64) string {
		s := newService(For(law.DefaultGoal()), 1, 60)
		s.run(20, constant(400))
		s.m, s.last = Decide(s.c, s.m, law.Observation{At: s.at, ArrivalRate: 400, ResponseTime: 0.09, QueueLength: 36, Desired: s.replicas, Ready: s.replicas})
		_, d := Decide(s.c, s.m, law.Observation{At: s.at.Add(s.last.Next), ArrivalRate: lambda, ResponseTime: 0.09, QueueLength: queue, Desired: s.replicas, Ready: s.replicas})
		return strings.Join(d.Reasons, "; ")
	}
	end := func() string {
		s := newService(For(law.DefaultGoal()), 1, 60)
		s.run(20, constant(400))
		_, d := Decide(s.c, s.m, law.Observation{At: s.at, ArrivalRate: 400, ResponseTime: 0.09, QueueLength: 36, Desired: s.replicas, Ready: s.replicas})
		return strings.Join(d.Reasons, "; ")
	}()
	calm, more := within(400, 36), within(600, 60)
	blind := within(600, math.NaN())
	note := func(lambda float64) string {
		_, note := For(law.DefaultGoal()).servers(Memory{Speed: 1}, lambda)
		return note
	}
	sentences.Check(t, []string{"decide.go", "forecast.go"}, []sentences.Case{
		{"%.4g s cannot be achieved at %.4g requests/s: one request alone takes %.4g s; keeping the queue short", note(900), note(400)},
		{"%s exceed what %s can serve within the SLO by the queueing model", more, calm},
		{"%.4g requests/s and a queue of %.4g", more, blind},
		{"inside the control interval", calm, more},
		{"%.4g requests/s forecast, margin %.3g times %.3g, speed %.3g: %s", end, calm},
	}, nil)
}
