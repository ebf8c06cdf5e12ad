package inversequeue

import (
	"fmt"
	"math"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Decide is algorithm 4 of the paper, for one control interval.
//
// If no request arrived in QuietEvaluations consecutive evaluations, it scales in to the minimum and resets the control
// input, since the model is undefined at lambda = 0. If [law.Quiet] doubts that no request arrived, it holds. If the
// SLO is below the bare service time, it keeps the queue short and reports the response time that can be reached. It
// learns from response times only while all requested replicas serve. While the response time or the queue length is not
// measured, it learns nothing, and only scales out, if the rest shows that the queue is not stable.
//
// Cost: O(N) for N replicas in the result, and linear in the memory.
func Decide(c Config, m Memory, o law.Observation) (Memory, law.Decision) {
	if reason, partial := o.RequestFault(c.MaxAge); partial {
		return m, c.partial(m, o.Possible(), reason)
	} else if reason != "" {
		return m, c.Hold(o, c.Interval, reason)
	}
	quiet, doubt := m.Quiet.See(o)
	if o.ArrivalRate == 0 {
		return c.quiet(m, o, doubt)
	}
	m.Quiet = quiet
	s := newStep(c, m, o)
	if why := s.unstable(); why != "" {
		return s.overload(why)
	}
	doubted := s.learn()
	s.bound()
	guide := s.guide()
	switch {
	case guide != nil:
		return s.control(guide)
	case doubted:
		return s.stay()
	}
	return s.sample()
}

// partial decides without the response time or the queue length: if the rest shows that the queue is not stable. Its
// memory is discarded.
func (c Config) partial(m Memory, o law.Observation, why string) law.Decision {
	s := newStep(c, m, o)
	unstable := s.unstable()
	if unstable == "" {
		return c.Hold(o, c.Interval, why)
	}
	_, d := s.overload(unstable)
	return c.Partial(o, d, why)
}

// quiet handles an evaluation without requests. doubt is the reason to distrust it.
func (c Config) quiet(m Memory, o law.Observation, doubt string) (Memory, law.Decision) {
	if o.QueueLength > 0 {
		m.Quiet.Evaluations = 0
		return m, c.Hold(o, c.Interval, "no requests arrived, but some are still in the system")
	}
	if doubt != "" {
		return m, c.Doubt(o, c.Interval, doubt)
	}
	if m.Quiet.Evaluations = min(m.Quiet.Evaluations+1, c.QuietEvaluations); m.Quiet.Evaluations < c.QuietEvaluations {
		return m, c.Hold(o, c.Interval, fmt.Sprintf("no requests arrived in the last %s, %d in a row are needed", plural.Count(m.Quiet.Evaluations, "sample"), c.QuietEvaluations))
	}
	m.Input, m.Previous = 0, 0
	return m, c.Ask(c.Min, c.Interval, "no requests arrived")
}

// step is one evaluation, with the memory that it will return.
type step struct {
	c      Config
	o      law.Observation
	m      Memory
	lambda float64
	mu     float64
	slo    float64 // seconds; the response time to aim at: the SLO, if it can be kept
	notes  []string
	stable int        // the lowest stable N
	model  *Reference // of this arrival rate, in m
	before bool       // the last evaluation used this model too
}

func newStep(c Config, m Memory, o law.Observation) *step {
	s := &step{c: c, o: o, m: m, lambda: o.ArrivalRate, mu: c.Model.ServiceRate(o.ArrivalRate)}
	var note string
	s.slo, note = c.Reachable(c.SLO.Seconds(), s.lambda)
	if note != "" {
		s.notes = append(s.notes, note)
	}
	s.stable = queueing.LeastStable(s.lambda, s.mu)
	s.m.Evaluations++
	s.observeReady()
	s.find()
	return s
}

func (s *step) system(n int) queueing.System {
	return queueing.System{Servers: n, ArrivalRate: s.lambda, ServiceRate: s.mu}
}

// response returns W(n), with W(0) = W(1). It is infinite if n replicas are not stable.
func (s *step) response(n int) float64 { return s.system(max(n, 1)).Response() }

// inverse returns the lowest N with W(N) <= w, at most Max.
func (s *step) inverse(w float64) int {
	n, _ := s.c.Servers(s.lambda, w)
	return n
}

// unstable returns why the queue counts as not stable. It is empty if the queue is stable.
func (s *step) unstable() string {
	now := s.system(s.o.Ready)
	switch {
	case !now.Stable():
		return fmt.Sprintf("%s cannot serve %.4g requests/s by the queueing model, %d can", plural.Count(s.o.Ready, "replica"), s.lambda, s.stable)
	case s.o.QueueLength > s.c.QueueFactor*now.Requests():
		return fmt.Sprintf("%.4g requests in the system are more than %.3g times the %.4g of a stable queue", s.o.QueueLength, s.c.QueueFactor, now.Requests())
	case s.o.ResponseTime > s.c.ResponseFactor*s.response(s.stable):
		return fmt.Sprintf("response time %.4g s is above that of any stable queue", s.o.ResponseTime)
	}
	return ""
}

// decide ends the step with n replicas and the control input u.
func (s *step) decide(n int, u float64, reasons ...string) (Memory, law.Decision) {
	if math.IsInf(u, 0) || math.IsNaN(u) {
		u = s.slo // only if n replicas are not stable; the next evaluation clamps it to the model's range
	}
	s.m.Input = u
	return s.m, s.c.Ask(n, s.c.Interval, append(reasons, s.notes...)...)
}

// inputFor returns a control input at which the model's inverse is n: the middle between W(n) and W(n-1), or slightly
// above W(n) if n-1 is not stable.
func (s *step) inputFor(n int) float64 {
	w := s.response(n)
	if n > 1 && s.system(n-1).Stable() {
		return (w + s.response(n-1)) / 2
	}
	return w * (1 + 1e-6)
}
