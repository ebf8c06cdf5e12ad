package replicadecide

import (
	"fmt"
	"math"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Answer is the result of a Question.
type Answer struct {
	Measurement Measurement
	// Value is NaN if nothing was measured. At is the time of the measurement.
	Value float64
	At    time.Time
	// Fault is the reason why there is no value. It is empty if there is one.
	Fault string
	// Warnings are those of the source, verbatim.
	Warnings []string
}

// Sample is the value of one series, and the time for which it holds.
type Sample struct {
	Value float64
	At    time.Time
}

// Read converts what a source returned for time at into an Answer. Any number of samples other than one is a fault.
func Read(m Measurement, at time.Time, samples []Sample, warnings []string, err error) Answer {
	a := Answer{Measurement: m, Value: math.NaN(), At: at, Warnings: warnings}
	switch {
	case err != nil:
		a.Fault = err.Error()
	case len(samples) == 0:
		a.Fault = "the query returned no series: there are no recent samples, or it matches none"
	case len(samples) > 1:
		a.Fault = fmt.Sprintf("the query returned %d series, must be one: sum or average them in the query", len(samples))
	case math.IsNaN(samples[0].Value):
		a.Fault = "the value is not a number"
	default:
		a.Value, a.At = samples[0].Value, samples[0].At
	}
	return a
}

// Seen is the input of an evaluation.
type Seen struct {
	Now time.Time
	// Spec is the number of replicas in the target's spec. Ready is the number of its pods that are Ready and not
	// terminating.
	Spec, Ready int
	// Stuck is the number of pods that have a node and have not been Ready for [StuckAfter], and Unplaced that of pods
	// that have had no node for as long.
	Stuck, Unplaced int
	// Tolerance is the share by which the HorizontalPodAutoscaler that follows the policy may be below the desired number
	// without following it; 0 if none follows.
	Tolerance float64
	// Foreign is the number of pods that match the target's selector and belong to other objects.
	Foreign int
	// Desired is the number that the law decided last; 0 before its first evaluation.
	Desired int
	// StartUp is the learned time until a pod is Ready; 0 if it is not known.
	StartUp time.Duration
	Answers []Answer
}

// Outcome is the result of an evaluation.
type Outcome struct {
	law.Decision
	// From is the number of replicas before the evaluation.
	From int
	// Observation is the input of the law, and Notes are remarks on it.
	Observation law.Observation
	Notes       []string
	// Missing says which needed measurement is missing, or why the law does not use the measurements. It is empty if
	// neither is the case. If the decision is not Held, the law has scaled out by the measurements that are left.
	Missing string
	// Off reports that the target is scaled to 0, and is therefore not scaled.
	Off bool
}

// Changes reports whether the evaluation changes the number of replicas.
func (o *Outcome) Changes() bool { return !o.Off && o.Replicas != o.From }

// retry is the longest time until the next evaluation after a measurement was missing, so that a source that recovers
// is used before the end of the control interval.
const retry = 15 * time.Second

// Evaluate evaluates the law once. It does not change the given memory. If a needed measurement is missing, the law
// holds, or scales out by those that are left, and its memory stays the same.
//
// In mode Act, the previous number of replicas is the one in the target's spec. In the other modes, the target may lag
// behind or have other limits. The previous number is then the law's own last decision, so that the law continues from
// it.
func (p *Policy) Evaluate(m law.Memory, s Seen) (law.Memory, Outcome) {
	out := Outcome{From: s.Spec}
	if p.Mode != v1alpha1.ReplicasAct && s.Desired > 0 {
		out.From = s.Desired
	}
	out.Observation, out.Notes = p.observe(s, out.From)
	view := servingOf(s, out.From)
	if out.Observation.ArrivalRate == 0 {
		view = serving{from: out.From} // pods that are not Ready may be why no request is answered: the law has to know
	}
	if why := p.slowElsewhere(out.Observation); why != "" {
		out.Notes = append(out.Notes, why)
	}
	if s.Foreign > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%s the target's selector and %s to another object: the law does not count %s",
			plural.Form(s.Foreign, "1 pod matches", fmt.Sprintf("%d pods match", s.Foreign)), plural.Form(s.Foreign, "belongs", "belong"), plural.Form(s.Foreign, "it", "them")))
	}
	if lost := min(s.Stuck+s.Unplaced, s.Spec-s.Ready); lost > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%s not become Ready for far longer than a start takes: the law does not count %s", plural.Form(lost, "1 pod has", fmt.Sprintf("%d pods have", lost)), plural.Form(lost, "it", "them")))
	}
	if s.Spec == 0 {
		out.Off = true
		out.Decision = law.Decision{Next: retry, Held: true, Reasons: []string{"hold: the target is scaled to 0 replicas: set it to 1 or more to scale it again"}}
		return m, out
	}
	out.Missing = out.Observation.Missing(p.needs(out.Observation), p.MaxAge)
	seen := view.observe(out.Observation)
	if after, d := p.Decide(m, seen); out.Missing == "" && partial(s.Answers) != "" {
		out.Missing = partial(s.Answers)
		out.Decision = p.Partial(seen, d, out.Missing)
	} else {
		m, out.Decision = after, d
	}
	out.Decision = view.decision(p.Limits, out.Decision)
	if p.Mode == v1alpha1.ReplicasViaHPA {
		out.Decision = p.beyond(out.Decision, s)
	}
	if out.Missing == "" {
		out.Missing = out.Doubt
	}
	if out.Missing != "" && out.Held {
		out.Next = min(out.Next, retry)
	}
	return m, out
}

// partial returns the first warning of a source, for example that part of its data is unavailable; empty if there is none.
// Measurements of a part are too low: they show how many replicas are needed at least, and teach a law nothing.
func partial(answers []Answer) string {
	for _, a := range answers {
		if len(a.Warnings) > 0 {
			return fmt.Sprintf("%s may be of a part of the service: the source warns: %s", a.Measurement, a.Warnings[0])
		}
	}
	return ""
}

// beyond raises a number that is above that of the target's spec, but within the tolerance of the HorizontalPodAutoscaler,
// to the next that it follows. Otherwise the service would keep too few replicas.
func (p *Policy) beyond(d law.Decision, s Seen) law.Decision {
	if d.Replicas <= s.Spec || float64(d.Replicas) > float64(s.Spec)*(1+s.Tolerance) {
		return d
	}
	n := p.Clamp(int(float64(s.Spec)*(1+s.Tolerance)) + 1)
	d.Reasons = append(d.Reasons, fmt.Sprintf("%d and not %d, because the HorizontalPodAutoscaler ignores changes of up to %.3g %%", n, d.Replicas, 100*s.Tolerance))
	d.Replicas = n
	return d
}

// needs returns the measurements that the law needs.
func (p *Policy) needs(o law.Observation) law.Needs {
	if p.NeedsRequests() {
		return o.RequestNeeds()
	}
	return law.Utilization
}

// NeedsRequests reports whether the law uses requests and their response times, and not utilisation alone.
func (p *Policy) NeedsRequests() bool { return p.kind != v1alpha1.LawDoubleThreshold }

// observe builds the input of the law. Its age is that of the oldest measurement.
func (p *Policy) observe(s Seen, from int) (law.Observation, []string) {
	nan := math.NaN()
	o := law.Observation{At: s.Now, ArrivalRate: nan, ResponseTime: nan, QueueLength: nan, Utilization: nan, Desired: from, Spec: s.Spec, Ready: s.Ready, StartUp: s.StartUp}
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
			notes = append(notes, string(a.Measurement)+": warning of the source: "+w)
		}
	}
	if !oldest.IsZero() {
		o.Age = s.Now.Sub(oldest)
	}
	if !has[QueueLength] && has[ArrivalRate] && has[ResponseTime] {
		o.QueueLength = o.ArrivalRate * o.ResponseTime
		if o.ArrivalRate == 0 {
			o.QueueLength = 0 // without requests there is no response time
		}
		notes = append(notes, "queueLength: computed as arrival rate times response time")
	}
	if !has[Utilization] && has[ArrivalRate] && p.model != nil && s.Ready > 0 {
		o.Utilization = p.load(o.ArrivalRate, s.Ready)
		if p.kind == v1alpha1.LawDoubleThreshold {
			notes = append(notes, "utilization: computed from the arrival rate and spec.service")
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

// load is the utilisation of n replicas at arrival rate lambda, in percent.
func (p *Policy) load(lambda float64, n int) float64 {
	if lambda == 0 {
		return 0
	}
	return 100 * lambda / (float64(n) * p.model.ServiceRate(lambda))
}
