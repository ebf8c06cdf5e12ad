// Package replicadecide contains the decisions of the controller of ReplicaPolicies: the law that a spec selects, the law's
// decision on an observation, and the resulting status.
//
// The controller reads, calls [Policy.Evaluate], and carries out the result. This package reads no clock and calls no
// source.
package replicadecide

import (
	"errors"
	"fmt"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/preset"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

// Policy is a validated spec.
type Policy struct {
	law.Law
	law.Limits
	// Of identifies what the law's memory was learned for. Memory for anything else would mislead the law.
	Of string
	// Mode says how decisions are carried out.
	Mode v1alpha1.ReplicaMode
	// Questions are the measurements to query.
	Questions []Question
	// MaxAge is the maximum age of measurements.
	MaxAge time.Duration
	// Shortest and Longest bound the time between two evaluations.
	Shortest, Longest time.Duration

	kind v1alpha1.ReplicaLaw
	// slo is 0 for laws that have none.
	slo time.Duration
	// model is nil if the spec does not describe the service.
	model *queueing.Model
}

// New validates the spec of a policy in a namespace. The error names every invalid field. If no number of replicas can
// keep the SLO, the error states the lowest response time that can be kept.
func New(namespace string, spec *v1alpha1.ReplicaPolicySpec) (*Policy, error) {
	p := &Policy{
		Limits: law.Limits{Min: int(spec.MinReplicas), Max: int(spec.MaxReplicas)}, Mode: spec.Mode,
		MaxAge: spec.Metrics.MaxAge.Duration, kind: spec.Law.Name, model: modelOf(spec.Service),
	}
	var errs []error
	if p.MaxAge <= 0 {
		errs = append(errs, fmt.Errorf("spec.metrics.maxAge %v: must be a time above 0", p.MaxAge))
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

// modelOf returns the queueing model of one replica, or nil if the spec has none.
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
		return fmt.Errorf("spec.slo: is required by law %s", p.kind)
	case p.model == nil:
		return fmt.Errorf("spec.service: is required by law %s", p.kind)
	}
	p.slo = spec.SLO.ResponseTime.Duration
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
		err = fmt.Errorf("law %q: must be one of Predictive, InverseQueue, DoubleThreshold", p.kind)
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

// Measurement names a measurement that laws use.
type Measurement string

// The measurements, named as in the spec.
const (
	ArrivalRate  Measurement = "arrivalRate"
	ResponseTime Measurement = "responseTime"
	QueueLength  Measurement = "queueLength"
	Utilization  Measurement = "utilization"
)

// Question is a measurement and the PromQL that queries it.
type Question struct {
	Measurement Measurement
	PromQL      string
}

// ask collects the queries, and checks that they cover what the law needs.
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
		errs = append(errs, fmt.Errorf("spec.metrics: law %s requires %s: set spec.metrics.queries.%s%s", p.kind, m, m, also))
	}
	switch {
	case p.kind != v1alpha1.LawDoubleThreshold:
		for _, m := range []Measurement{ArrivalRate, ResponseTime} {
			if !has[m] {
				lacks(m, ", or a preset that provides it")
			}
		}
	case !has[Utilization] && (!has[ArrivalRate] || p.model == nil):
		lacks(Utilization, ", a preset that provides it, or arrivalRate and spec.service")
	}
	return errors.Join(errs...)
}
