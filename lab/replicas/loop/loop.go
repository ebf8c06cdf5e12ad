// Package loop closes the loop between a decider, such as a ReplicaPolicy, and a simulated service,
// over an arrival-rate series in virtual time.
//
// The package is pure: the same seed gives the same run.
package loop

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/replicas/plant"
)

// Decider decides on the number of replicas: a [Policy], as in the ReplicaPolicy controller, or a
// [Bare] law.
type Decider interface {
	Name() string
	// FirstEvaluation is the time from the start of the service to the first evaluation.
	FirstEvaluation() time.Duration
	// Evaluate decides from the observation and the memory.
	Evaluate(m law.Memory, s replicadecide.Seen) (law.Memory, replicadecide.Outcome)
}

// Policy is the decision of a ReplicaPolicy.
type Policy struct{ *replicadecide.Policy }

// FirstEvaluation implements [Decider]. A policy expects rates and times measured since its previous
// evaluation. A policy that needs neither evaluates at once.
func (p Policy) FirstEvaluation() time.Duration {
	if p.NeedsRequests() {
		return p.Shortest
	}
	return 0
}

// Bare is a law without the rest of a ReplicaPolicy. Laws that no ReplicaPolicy has are compared in
// this form.
type Bare struct{ law.Law }

// FirstEvaluation implements [Decider].
func (Bare) FirstEvaluation() time.Duration { return 0 }

// Evaluate implements [Decider].
func (b Bare) Evaluate(m law.Memory, s replicadecide.Seen) (law.Memory, replicadecide.Outcome) {
	o := law.Observation{
		At: s.Now, ArrivalRate: math.NaN(), ResponseTime: math.NaN(), QueueLength: math.NaN(), Utilization: math.NaN(),
		Desired: s.Spec, Ready: s.Ready, StartUp: s.StartUp,
	}
	for _, a := range s.Answers {
		switch a.Measurement {
		case replicadecide.ArrivalRate:
			o.ArrivalRate = a.Value
		case replicadecide.ResponseTime:
			o.ResponseTime = a.Value
		case replicadecide.QueueLength:
			o.QueueLength = a.Value
		case replicadecide.Utilization:
			o.Utilization = a.Value
		}
	}
	out := replicadecide.Outcome{From: s.Spec, Observation: o}
	m, out.Decision = b.Decide(m, o)
	return m, out
}

// Config configures one run.
type Config struct {
	Decider Decider
	Plant   plant.Config
	// Rates is the series. A rate holds until the next row; the last holds as long as the one
	// before it.
	Rates []trace.Rate
	// Interpolate joins the rates by straight lines instead, in steps of at most
	// ten seconds.
	Interpolate bool
	// SLO is the maximum mean response time of a control interval.
	SLO time.Duration
	// Interval is the control interval that violations are counted by and cost is expressed in,
	// regardless of the interval of the law.
	Interval time.Duration
	// Warmup is excluded from the figures.
	Warmup time.Duration
	// ResponseWindow is the time before an evaluation over which the decider sees the mean response
	// time, at most the time since the previous evaluation; 0 means all of it. Arrival rates are
	// always those since the previous evaluation.
	ResponseWindow time.Duration
	// Seed seeds the arrivals and service times.
	Seed uint64
	// OnStep, if not nil, is called after every evaluation.
	OnStep func(Step)
	// OnSecond, if not nil, is called at each whole second with the number of Ready replicas,
	// before the law is evaluated.
	OnSecond func(seconds float64, ready int)
	// Stop, if not nil, is called at every evaluation and ends the run when it returns true.
	Stop func() bool
}

// ErrStopped is returned if Stop ended the run.
var ErrStopped = errors.New("stopped")

// Step is one evaluation.
type Step struct {
	Seconds float64 // since the beginning
	Rate    float64 // of the series, requests per second
	law.Observation
	law.Decision
}

// Result is the result of a run, without the warm-up.
type Result struct {
	// Intervals counts the control intervals, the last of which may be shorter. Violations counts
	// those whose mean response time exceeded the SLO, or in which requests were in the system and
	// none ended.
	Intervals, Violations int
	// Measured has the measurements of the service.
	Measured plant.Window
	// EvaluationWriter, Held and Actions count the evaluations of the law, those without a decision, and the
	// changes of the replicas.
	EvaluationWriter, Held, Actions int
	// MaxReplicas is the maximum number of requested replicas.
	MaxReplicas int
}

// ViolationPercent returns the share of control intervals that violated the SLO.
func (r Result) ViolationPercent() float64 { return 100 * float64(r.Violations) / float64(r.Intervals) }

// Horizon returns the duration of a series.
func Horizon(rates []trace.Rate) time.Duration {
	last := len(rates) - 1
	if last == 0 {
		return rates[0].At + time.Minute
	}
	return rates[last].At + (rates[last].At - rates[last-1].At)
}

// Validate reports everything that is invalid.
func (c Config) Validate() error {
	errs := input.Faults{c.Plant.Validate()}
	errs.If(c.Decider == nil, "a decider is required")
	if len(c.Rates) == 0 {
		errs = append(errs, errors.New("arrival rates: at least one is required"))
	} else if horizon := Horizon(c.Rates); c.Warmup < 0 || c.Warmup >= horizon {
		errs = append(errs, fmt.Errorf("warm-up %v: must be 0 or more and less than the series, which lasts %v", c.Warmup, horizon))
	}
	errs.If(c.SLO <= 0 || c.Interval <= 0, "SLO %v and interval %v: must be more than 0", c.SLO, c.Interval)
	errs.If(c.ResponseWindow < 0, "response window %v: must be 0 or more", c.ResponseWindow)
	return errors.Join(errs...)
}

// Run simulates the series. Cost: about 50 ns per request.
func Run(c Config) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, fmt.Errorf("run the loop: %w", err)
	}
	p, err := plant.New(c.Plant, rand.New(rand.NewPCG(c.Seed, 0)))
	if err != nil {
		return Result{}, err
	}
	r := &runner{c: c, plant: p, series: series{rates: c.Rates, interpolate: c.Interpolate}, end: Horizon(c.Rates).Seconds()}
	err = r.run()
	return r.result, err
}

// runner is the state of a run.
type runner struct {
	c       Config
	plant   *plant.Plant
	series  series
	end     float64
	memory  law.Memory
	wanted  int                   // the last decision; 0 for none
	startUp *v1alpha1.LearnedTime // as the controller learns it
	result  Result

	evaluation, interval plant.Window // since the last evaluation, and since the start of the control interval
	recent               plant.Window // the part of look over which response times are observed
}

func (r *runner) run() error {
	nextEvaluation, nextInterval := r.c.Decider.FirstEvaluation().Seconds(), r.c.Interval.Seconds()
	warmup := r.c.Warmup.Seconds()
	if warmup > 0 {
		nextInterval = warmup
	}
	for {
		now := r.plant.Now()
		if now >= nextInterval || now >= r.end {
			r.closeInterval(now > warmup)
			nextInterval = now + r.c.Interval.Seconds()
		}
		if now >= r.end {
			return nil
		}
		rate, until := r.series.at(now)
		if r.c.OnSecond != nil {
			until = r.second(now, until)
		}
		if err := r.plant.SetRate(rate); err != nil {
			return fmt.Errorf("arrival rates at %v s: %w", now, err)
		}
		if now >= nextEvaluation {
			if r.c.Stop != nil && r.c.Stop() {
				return ErrStopped
			}
			nextEvaluation = now + r.step(rate, now >= warmup).Seconds()
		}
		to := min(until, nextEvaluation, nextInterval, r.end)
		edge := nextEvaluation - r.c.ResponseWindow.Seconds()
		before := r.c.ResponseWindow > 0 && now < edge
		if before {
			to = min(to, edge)
		}
		w := r.plant.RunTo(to)
		r.evaluation, r.interval = r.evaluation.Add(w), r.interval.Add(w)
		if !before {
			r.recent = r.recent.Add(w)
		}
	}
}

// second calls OnSecond at a whole second, and returns the time of the next one, at most until.
func (r *runner) second(now, until float64) float64 {
	if whole := math.Round(now); math.Abs(now-whole) < 1e-9 {
		r.c.OnSecond(whole, r.plant.Ready())
	}
	return min(until, math.Floor(now+1e-9)+1)
}

// closeInterval counts the measurements of a control interval, unless it is part of the warm-up.
func (r *runner) closeInterval(counts bool) {
	w := r.interval
	r.interval = plant.Window{}
	if !counts || w.Seconds == 0 {
		return
	}
	r.result.Intervals++
	response := w.Response()
	if response > r.c.SLO.Seconds() || math.IsNaN(response) && r.plant.Inside() > 0 {
		r.result.Violations++
	}
	r.result.Measured = r.result.Measured.Add(w)
}

// step evaluates the decider and returns the time until its next evaluation.
func (r *runner) step(rate float64, counts bool) time.Duration {
	seen := r.seen()
	r.evaluation, r.recent = plant.Window{}, plant.Window{}
	memory, out := r.c.Decider.Evaluate(r.memory, seen)
	r.memory = memory
	if !out.Off {
		r.wanted = out.Replicas
	}
	if counts {
		r.result.EvaluationWriter++
		if out.Held {
			r.result.Held++
		}
		if out.Changes() {
			r.result.Actions++
		}
		r.result.MaxReplicas = max(r.result.MaxReplicas, seen.Spec, out.Replicas)
	}
	if out.Changes() {
		r.plant.Scale(out.Replicas)
	}
	if r.c.OnStep != nil {
		r.c.OnStep(Step{Seconds: r.plant.Now(), Rate: rate, Observation: out.Observation, Decision: out.Decision})
	}
	return max(out.Next, time.Millisecond)
}

// seen returns what the ReplicaPolicy controller would observe: sources answer as of now, and there
// is no response time if no request was answered. Over a time of zero nothing was measured.
func (r *runner) seen() replicadecide.Seen {
	now := time.Unix(0, 0).UTC().Add(time.Duration(r.plant.Now() * float64(time.Second)))
	for _, took := range r.plant.Started() {
		r.startUp = replicadecide.LearnStartUp(r.startUp, took)
	}
	s := replicadecide.Seen{Now: now, Spec: r.plant.Desired(), Ready: r.plant.Ready(), Desired: r.wanted}
	if now.Sub(time.Unix(0, 0)) >= replicadecide.StuckAfter(r.startUp) {
		s.Stuck = r.plant.Dead() // they exist from the beginning
	}
	if r.startUp != nil {
		s.StartUp = r.startUp.Mean.Duration
	}
	rate, response := math.NaN(), math.NaN()
	if r.evaluation.Seconds > 0 {
		rate, response = r.evaluation.ArrivalRate(), r.recent.Response()
	}
	for _, m := range []struct {
		of    replicadecide.Measurement
		value float64
	}{
		{replicadecide.ArrivalRate, rate}, {replicadecide.ResponseTime, response},
		{replicadecide.QueueLength, float64(r.plant.Inside())}, {replicadecide.Utilization, r.plant.Utilization()},
	} {
		s.Answers = append(s.Answers, replicadecide.Read(m.of, now, []replicadecide.Sample{{Value: m.value, At: now}}, nil, nil))
	}
	return s
}

// series reads rates in time order.
type series struct {
	rates       []trace.Rate
	interpolate bool
	next        int // the first row after the current time
}

// stride is the longest time that an interpolated rate is held, in seconds.
const stride = 10

// at returns the rate at a time, and until when it holds. The first row's rate also holds before
// it.
func (s *series) at(now float64) (rate, until float64) {
	for s.next < len(s.rates) && s.rates[s.next].At.Seconds() <= now {
		s.next++
	}
	if s.next == len(s.rates) {
		return s.rates[s.next-1].PerSecond, math.Inf(1)
	}
	after := s.rates[s.next]
	if s.next == 0 {
		return after.PerSecond, after.At.Seconds()
	}
	before := s.rates[s.next-1]
	until = after.At.Seconds()
	if !s.interpolate {
		return before.PerSecond, until
	}
	until = min(until, now+stride)
	share := ((now+until)/2 - before.At.Seconds()) / (after.At - before.At).Seconds()
	return before.PerSecond + share*(after.PerSecond-before.PerSecond), until
}
