// Package decide is what the controller of ReplicaPolicies decides: which law a spec
// means, what the law makes of what was seen, and what the status says of it.
//
// The controller reads, calls [Policy.Look], and carries out. Nothing here reads a
// clock, or asks anybody.
package decide

import (
	"errors"
	"fmt"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/preset"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

// Policy is a spec that was found to be sound.
type Policy struct {
	law.Law
	law.Limits
	// Of says what the law's memory is learned for. Memory of anything else misleads.
	Of string
	// Mode says what becomes of decisions.
	Mode v1alpha1.ReplicaMode
	// Questions are what is to be measured.
	Questions []Question
	// MaxAge is how old measurements may be.
	MaxAge time.Duration
	// Shortest and Longest are the shortest and the longest time between two looks, whatever
	// is seen.
	Shortest, Longest time.Duration

	kind v1alpha1.ReplicaLaw
	// model is nil where nothing is said of the service.
	model *queueing.Model
}

// New reads the spec of a policy in a namespace. It names every field that is invalid;
// an SLO that no number of replicas can keep is refused with the least that can be kept.
func New(namespace string, spec *v1alpha1.ReplicaPolicySpec) (*Policy, error) {
	p := &Policy{
		Limits: law.Limits{Min: int(spec.MinReplicas), Max: int(spec.MaxReplicas)}, Mode: spec.Mode,
		MaxAge: spec.Metrics.MaxAge.Duration, kind: spec.Law.Name, model: modelOf(spec.Service),
	}
	var errs []error
	if p.MaxAge <= 0 {
		errs = append(errs, fmt.Errorf("spec.metrics.maxAge %v: want a time above 0", p.MaxAge))
	}
	err := p.choose(spec)
	if err != nil {
		errs = append(errs, err)
	}
	if err := p.ask(namespace, spec); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// modelOf is the queueing model of one replica; nil if nothing is said.
func modelOf(s *v1alpha1.ServiceModel) *queueing.Model {
	if s == nil {
		return nil
	}
	return &queueing.Model{MuB: s.RatePerReplica.AsApproximateFloat64(), C: number(s.SpeedUp, 0), Alpha: number(s.PastWeight, 0)}
}

// choose makes the law.
func (p *Policy) choose(spec *v1alpha1.ReplicaPolicySpec) error {
	if p.kind == v1alpha1.LawDoubleThreshold {
		p.Of = "doublethreshold"
		if p.model != nil {
			if err := p.model.Validate(); err != nil {
				return fmt.Errorf("spec.service: %w", err)
			}
		}
		made, err := p.newDoubleThreshold(spec.Law.DoubleThreshold)
		p.Law = made
		return inField("spec", err)
	}
	switch {
	case spec.SLO == nil:
		return fmt.Errorf("spec.slo: law %s needs the response time to keep", p.kind)
	case p.model == nil:
		return fmt.Errorf("spec.service: law %s needs what one replica can do", p.kind)
	}
	goal := law.Goal{Limits: p.Limits, SLO: spec.SLO.ResponseTime.Duration, Model: *p.model, Interval: spec.Law.Interval.Duration, MaxAge: p.MaxAge}
	if peak := spec.Service.PeakArrivalRate; peak != nil && p.model.Validate() == nil {
		if err := p.model.CheckSLO(goal.SLO.Seconds(), peak.AsApproximateFloat64()); err != nil {
			return fmt.Errorf("spec.slo.responseTime: %w", err)
		}
	}
	var err error
	switch p.kind {
	case v1alpha1.LawPredictive:
		p.Law, err = p.newPredictive(goal, spec.Law.Predictive)
	case v1alpha1.LawInverseQueue:
		p.Law, err = p.newInverseQueue(goal, spec.Law.InverseQueue)
	default:
		err = fmt.Errorf("law %q: want Predictive, InverseQueue or DoubleThreshold", p.kind)
	}
	if err != nil {
		return inField("spec", err)
	}
	p.Of = fmt.Sprintf("%s, SLO %v, mu_b %.6g, c %.6g, alpha %.6g, every %v", p.Name(), goal.SLO, goal.Model.MuB, goal.Model.C, goal.Model.Alpha, goal.Interval)
	return nil
}

func inField(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}

// Measurement names one of the things that laws look at.
type Measurement string

// The measurements, as the spec calls them.
const (
	ArrivalRate  Measurement = "arrivalRate"
	ResponseTime Measurement = "responseTime"
	QueueLength  Measurement = "queueLength"
	Utilization  Measurement = "utilization"
)

// Question is a measurement with the PromQL that asks for it.
type Question struct {
	Measurement Measurement
	PromQL      string
}

// ask puts the questions together, and finds out whether their answers will be enough
// for the law.
func (p *Policy) ask(namespace string, spec *v1alpha1.ReplicaPolicySpec) error {
	var q preset.Queries
	if of := spec.Metrics.Preset; of != nil {
		given := make(map[string]string, len(of.Parameters))
		for name, value := range of.Parameters {
			given[name] = string(value)
		}
		var err error
		if q, err = preset.New(of.Name, namespace, given); err != nil {
			return fmt.Errorf("spec.metrics.preset: %w", err)
		}
	}
	own := v1alpha1.MetricQueries{}
	if spec.Metrics.Queries != nil {
		own = *spec.Metrics.Queries
	}
	has := map[Measurement]bool{}
	for _, m := range []struct {
		name        Measurement
		own, preset string
	}{
		{ArrivalRate, own.ArrivalRate, q.ArrivalRate}, {ResponseTime, own.ResponseTime, q.ResponseTime},
		{QueueLength, own.QueueLength, q.QueueLength}, {Utilization, own.Utilization, q.Utilization},
	} {
		promql := m.own
		if promql == "" {
			promql = m.preset
		}
		if promql != "" {
			has[m.name] = true
			p.Questions = append(p.Questions, Question{Measurement: m.name, PromQL: promql})
		}
	}
	var errs []error
	lacks := func(m Measurement, also string) {
		errs = append(errs, fmt.Errorf("spec.metrics: law %s needs %s: give spec.metrics.queries.%s%s", p.kind, m, m, also))
	}
	switch {
	case p.kind != v1alpha1.LawDoubleThreshold:
		for _, m := range []Measurement{ArrivalRate, ResponseTime} {
			if !has[m] {
				lacks(m, ", or a preset that has it")
			}
		}
	case !has[Utilization] && (!has[ArrivalRate] || p.model == nil):
		lacks(Utilization, ", a preset that has it, or arrivalRate and spec.service")
	}
	return errors.Join(errs...)
}
