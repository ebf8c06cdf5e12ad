package decide

import (
	"fmt"
	"math"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
)

// Answer is what a question brought.
type Answer struct {
	Measurement Measurement
	// Value is NaN where nothing was measured, and At when it was.
	Value float64
	At    time.Time
	// Fault says why there is no value; empty if there is.
	Fault string
	// Warnings are the source's own words.
	Warnings []string
}

// Sample is the value of one series, and the moment for which it holds.
type Sample struct {
	Value float64
	At    time.Time
}

// Read reads the answer of a source that was asked at a moment. Anything but one
// sample is a fault.
func Read(m Measurement, at time.Time, samples []Sample, warnings []string, err error) Answer {
	a := Answer{Measurement: m, Value: math.NaN(), At: at, Warnings: warnings}
	switch {
	case err != nil:
		a.Fault = err.Error()
	case len(samples) == 0:
		a.Fault = "no series: nothing of late, or nothing like it"
	case len(samples) > 1:
		a.Fault = fmt.Sprintf("%d series, want one: sum or average them in the query", len(samples))
	case math.IsNaN(samples[0].Value):
		a.Fault = "not a number"
	default:
		a.Value, a.At = samples[0].Value, samples[0].At
	}
	return a
}

// Seen is what is known when a law looks.
type Seen struct {
	Now time.Time
	// Asked is how many replicas the target's own spec asks for, and Ready how many of its
	// pods are Ready and stay.
	Asked, Ready int
	// Wanted is what the law asked for last; 0 if it has not looked yet.
	Wanted int
	// StartUp is how long pods take to be Ready, as learned; 0 where nothing is known.
	StartUp time.Duration
	Answers []Answer
}

// Outcome is what a look came to.
type Outcome struct {
	law.Decision
	// From is how many replicas were asked for before the look.
	From int
	// Observation is what the law was shown, and Notes what is to be said of it.
	Observation law.Observation
	Notes       []string
	// Missing says what was not measured that the law needs, or why the law does not use
	// it; empty: nothing.
	Missing string
	// Off says that the target is scaled to 0, and so not scaled.
	Off bool
}

// Changes says whether the look asks for another number of replicas than before.
func (o *Outcome) Changes() bool { return !o.Off && o.Replicas != o.From }

// retry is the longest time to the next look where something was not measured. A
// source that is back is not to wait for the end of a control interval.
const retry = 15 * time.Second

// Look lets the law look once. The memory that was given is not changed. Where
// something that the law needs was not measured, it holds and its memory stays.
//
// In mode Act what was asked for is what the target's spec says. In the other modes
// the target may lag behind, or be steered by somebody else's limits: the law's own
// last word counts, so that it continues from what it asked for.
func (p *Policy) Look(m law.Memory, s Seen) (law.Memory, Outcome) {
	out := Outcome{From: s.Asked}
	if p.Mode != v1alpha1.ReplicasAct && s.Wanted > 0 {
		out.From = s.Wanted
	}
	out.Observation, out.Notes = p.observe(s, out.From)
	if s.Asked == 0 {
		out.Off = true
		out.Decision = law.Decision{Next: retry, Held: true, Reasons: []string{"hold: the target is scaled to 0 replicas: set it to 1 or more to have it scaled"}}
		return m, out
	}
	out.Missing = out.Observation.Missing(p.needs(out.Observation), p.MaxAge)
	m, out.Decision = p.Decide(m, out.Observation)
	if out.Missing == "" {
		out.Missing = out.Doubt
	}
	if out.Missing != "" {
		out.Next = min(out.Next, retry)
	}
	return m, out
}

// needs are what the law cannot do without.
func (p *Policy) needs(o law.Observation) law.Needs {
	if p.NeedsRequests() {
		return o.RequestNeeds()
	}
	return law.Utilization
}

// NeedsRequests reports whether the law goes by requests and their response times, and not by
// utilisation alone.
func (p *Policy) NeedsRequests() bool { return p.kind != v1alpha1.LawDoubleThreshold }

// observe puts together what the law is shown. The age is that of the oldest
// measurement.
func (p *Policy) observe(s Seen, from int) (law.Observation, []string) {
	nan := math.NaN()
	o := law.Observation{At: s.Now, ArrivalRate: nan, ResponseTime: nan, QueueLength: nan, Utilization: nan, Wanted: from, Asked: s.Asked, Ready: s.Ready, StartUp: s.StartUp}
	var notes []string
	var oldest time.Time
	has := map[Measurement]bool{}
	for _, a := range s.Answers {
		has[a.Measurement] = true
		*field(&o, a.Measurement) = a.Value
		if a.Fault != "" {
			notes = append(notes, string(a.Measurement)+": "+a.Fault)
		} else if oldest.IsZero() || a.At.Before(oldest) {
			oldest = a.At
		}
		for _, w := range a.Warnings {
			notes = append(notes, string(a.Measurement)+": the source warns: "+w)
		}
	}
	if !oldest.IsZero() {
		o.Age = s.Now.Sub(oldest)
	}
	if !has[QueueLength] && has[ArrivalRate] && has[ResponseTime] {
		o.QueueLength = o.ArrivalRate * o.ResponseTime
		if o.ArrivalRate == 0 {
			o.QueueLength = 0 // there is no response time then
		}
		notes = append(notes, "queueLength: arrival rate times response time")
	}
	if !has[Utilization] && has[ArrivalRate] && p.model != nil && s.Ready > 0 {
		o.Utilization = p.load(o.ArrivalRate, s.Ready)
		if p.kind == v1alpha1.LawDoubleThreshold {
			notes = append(notes, "utilization: by the arrival rate and spec.service")
		}
	}
	return o, notes
}

func field(o *law.Observation, m Measurement) *float64 {
	switch m {
	case ArrivalRate:
		return &o.ArrivalRate
	case ResponseTime:
		return &o.ResponseTime
	case QueueLength:
		return &o.QueueLength
	}
	return &o.Utilization
}

// load is the utilisation of n replicas at an arrival rate, in percent.
func (p *Policy) load(lambda float64, n int) float64 {
	if lambda == 0 {
		return 0
	}
	return 100 * lambda / (float64(n) * p.model.ServiceRate(lambda))
}
