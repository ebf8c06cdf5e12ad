// Package loop closes the loop between what decides on replicas, such as a ReplicaPolicy,
// and a simulated service, over an arrival-rate series in virtual time.
//
// The package is pure: a seed gives the same run.
package loop

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/decide"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/lab/replicas/plant"
	"supercargo.dev/supercargo/lab/trace"
)

// Decider decides how many replicas there are to be: a [Policy], which is what the controller
// of ReplicaPolicies asks, or a [Bare] law.
type Decider interface {
	Name() string
	// FirstLook is how long the service has run at the first look.
	FirstLook() time.Duration
	// Look decides by what is seen and by what was remembered.
	Look(m law.Memory, s decide.Seen) (law.Memory, decide.Outcome)
}

// Policy is the decision of a ReplicaPolicy.
type Policy struct{ *decide.Policy }

// FirstLook implements [Decider]: a policy is made for a service of which rates and times have
// been measured over the time between two looks. One that asks for neither looks at once.
func (p Policy) FirstLook() time.Duration {
	if p.NeedsRequests() {
		return p.Shortest
	}
	return 0
}

// Bare is a law by itself, without what a ReplicaPolicy does around it: those that no
// ReplicaPolicy has are compared with it as they are.
type Bare struct{ law.Law }

// FirstLook implements [Decider].
func (Bare) FirstLook() time.Duration { return 0 }

// Look implements [Decider].
func (b Bare) Look(m law.Memory, s decide.Seen) (law.Memory, decide.Outcome) {
	o := law.Observation{
		At: s.Now, ArrivalRate: math.NaN(), ResponseTime: math.NaN(), QueueLength: math.NaN(), Utilization: math.NaN(),
		Wanted: s.Asked, Ready: s.Ready, StartUp: s.StartUp,
	}
	for _, a := range s.Answers {
		switch a.Measurement {
		case decide.ArrivalRate:
			o.ArrivalRate = a.Value
		case decide.ResponseTime:
			o.ResponseTime = a.Value
		case decide.QueueLength:
			o.QueueLength = a.Value
		case decide.Utilization:
			o.Utilization = a.Value
		}
	}
	out := decide.Outcome{From: s.Asked, Observation: o}
	m, out.Decision = b.Decide(m, o)
	return m, out
}

// Config is one run.
type Config struct {
	Decider Decider
	Plant   plant.Config
	// Rates is the series. A rate holds until the next row; the last holds as long
	// as the one before it did.
	Rates []trace.Rate
	// Interpolate joins the rates by straight lines instead, in steps of at most
	// ten seconds.
	Interpolate bool
	// SLO is the mean response time that a control interval must not exceed.
	SLO time.Duration
	// Interval is the control interval that violations are counted by and cost is
	// expressed in, whatever interval the law looks at.
	Interval time.Duration
	// Warmup is left out of the figures.
	Warmup time.Duration
	// ResponseWindow is over which time before a look the decider is shown the mean
	// response time, at most that since the look before; 0 is all of it. Arrival
	// rates are always those since the look before.
	ResponseWindow time.Duration
	// Seed draws the arrivals and services.
	Seed uint64
	// OnStep is told every look; may be nil.
	OnStep func(Step)
	// OnSecond is told each whole second and how many replicas are Ready then,
	// before a law looks; may be nil.
	OnSecond func(seconds float64, ready int)
	// Stop ends the run early when it returns true; may be nil. It is asked at
	// every look.
	Stop func() bool
}

// ErrStopped is returned when Stop ended the run.
var ErrStopped = errors.New("stopped")

// Step is one look.
type Step struct {
	Seconds float64 // since the beginning
	Rate    float64 // of the series, requests per second
	law.Observation
	law.Decision
}

// Result is what came of a run, the warm-up left out.
type Result struct {
	// Intervals counts the control intervals, the last of which may be shorter,
	// and Violations those whose mean response time exceeded the SLO. An interval
	// in which requests were inside and none ended is one of them.
	Intervals, Violations int
	// Measured is what the service did.
	Measured plant.Window
	// Looks, Held and Actions count how often the law looked, could not decide,
	// and changed the replicas.
	Looks, Held, Actions int
	// MaxReplicas is the most that were asked for.
	MaxReplicas int
}

// ViolationPercent is the share of control intervals that broke the SLO.
func (r Result) ViolationPercent() float64 { return 100 * float64(r.Violations) / float64(r.Intervals) }

// Horizon is how long a series lasts.
func Horizon(rates []trace.Rate) time.Duration {
	last := len(rates) - 1
	if last == 0 {
		return rates[0].At + time.Minute
	}
	return rates[last].At + (rates[last].At - rates[last-1].At)
}

// Validate refuses a run that cannot be made, all faults at once.
func (c Config) Validate() error {
	errs := input.Faults{c.Plant.Validate()}
	errs.If(c.Decider == nil, "decider: want one")
	if len(c.Rates) == 0 {
		errs = append(errs, errors.New("arrival rates: want at least one"))
	} else if horizon := Horizon(c.Rates); c.Warmup < 0 || c.Warmup >= horizon {
		errs = append(errs, fmt.Errorf("warm-up %v: want 0 or more and less than the series, which lasts %v", c.Warmup, horizon))
	}
	errs.If(c.SLO <= 0 || c.Interval <= 0, "SLO %v and interval %v: want times above 0", c.SLO, c.Interval)
	errs.If(c.ResponseWindow < 0, "response window %v: want 0 or more", c.ResponseWindow)
	return errors.Join(errs...)
}

// Run plays the series. Cost: some 50 ns for each request.
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

// runner is a run under way.
type runner struct {
	c       Config
	plant   *plant.Plant
	series  series
	end     float64
	memory  law.Memory
	wanted  int                   // what was decided last; 0 for nothing yet
	startUp *v1alpha1.LearnedTime // as the controller learns it
	result  Result

	look, interval plant.Window // since the last look, and since the control interval began
	recent         plant.Window // the end of look that response times are shown of
}

func (r *runner) run() error {
	nextLook, nextInterval := r.c.Decider.FirstLook().Seconds(), r.c.Interval.Seconds()
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
		if now >= nextLook {
			if r.c.Stop != nil && r.c.Stop() {
				return ErrStopped
			}
			nextLook = now + r.step(rate, now >= warmup).Seconds()
		}
		to := min(until, nextLook, nextInterval, r.end)
		edge := nextLook - r.c.ResponseWindow.Seconds()
		before := r.c.ResponseWindow > 0 && now < edge
		if before {
			to = min(to, edge)
		}
		w := r.plant.RunTo(to)
		r.look, r.interval = r.look.Add(w), r.interval.Add(w)
		if !before {
			r.recent = r.recent.Add(w)
		}
	}
}

// second tells of a whole second, and returns until when there is no other.
func (r *runner) second(now, until float64) float64 {
	if whole := math.Round(now); math.Abs(now-whole) < 1e-9 {
		r.c.OnSecond(whole, r.plant.Ready())
	}
	return min(until, math.Floor(now+1e-9)+1)
}

// closeInterval counts what was measured since the last one, unless that was
// warm-up.
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

// step lets the decider look, and returns when it wants to look again.
func (r *runner) step(rate float64, counts bool) time.Duration {
	seen := r.seen()
	r.look, r.recent = plant.Window{}, plant.Window{}
	memory, out := r.c.Decider.Look(r.memory, seen)
	r.memory = memory
	if !out.Off {
		r.wanted = out.Replicas
	}
	if counts {
		r.result.Looks++
		if out.Held {
			r.result.Held++
		}
		if out.Changes() {
			r.result.Actions++
		}
		r.result.MaxReplicas = max(r.result.MaxReplicas, seen.Asked, out.Replicas)
	}
	if out.Changes() {
		r.plant.Scale(out.Replicas)
	}
	if r.c.OnStep != nil {
		r.c.OnStep(Step{Seconds: r.plant.Now(), Rate: rate, Observation: out.Observation, Decision: out.Decision})
	}
	return max(out.Next, time.Millisecond)
}

// seen is what the controller of ReplicaPolicies would see: a source answers as of now, and
// has no response time where no request was answered. Nothing was measured over no time.
func (r *runner) seen() decide.Seen {
	now := time.Unix(0, 0).UTC().Add(time.Duration(r.plant.Now() * float64(time.Second)))
	for _, took := range r.plant.Started() {
		r.startUp = decide.LearnStartUp(r.startUp, took)
	}
	s := decide.Seen{Now: now, Asked: r.plant.Wanted(), Ready: r.plant.Ready(), Wanted: r.wanted}
	if r.startUp != nil {
		s.StartUp = r.startUp.Mean.Duration
	}
	rate, response := math.NaN(), math.NaN()
	if r.look.Seconds > 0 {
		rate, response = r.look.ArrivalRate(), r.recent.Response()
	}
	for _, m := range []struct {
		of    decide.Measurement
		value float64
	}{
		{decide.ArrivalRate, rate}, {decide.ResponseTime, response},
		{decide.QueueLength, float64(r.plant.Inside())}, {decide.Utilization, r.plant.Utilization()},
	} {
		s.Answers = append(s.Answers, decide.Read(m.of, now, []decide.Sample{{Value: m.value, At: now}}, nil, nil))
	}
	return s
}

// series reads rates in the order of time.
type series struct {
	rates       []trace.Rate
	interpolate bool
	next        int // the first row after the present
}

// stride is the longest time that an interpolated rate is held, in seconds.
const stride = 10

// at is the rate from a time on, and until when it holds. Before the first row
// its rate holds.
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
