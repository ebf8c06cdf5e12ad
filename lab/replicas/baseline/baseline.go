// Package baseline implements the laws that the InverseQueue paper compares itself with, and a law proportional to the
// arrival rate.
//
// The paper describes Feedback_QMDL, Feedback_QMCA and Feedback_InverseP, but does not specify them. They are
// reconstructed here from the text and from the ideas that it cites; the comment of each function has the details. All
// of them use the same queueing model as InverseQueue, so that only the laws differ.
package baseline

import (
	"errors"
	"fmt"
	"math"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/input"
)

// The laws' names in the catalogue.
const (
	QMDL         = "qmdl"
	QMCA         = "qmca"
	InverseP     = "inversep"
	Proportional = "proportional"
)

// Config has the constants of a feedback law.
type Config struct {
	law.Goal
	// Pole is the pole of the closed loop, in [0, 1): 0 corrects an error in one step, 0.95 by a twentieth in each
	// step.
	Pole float64
	// Reference is the fixed response time that feedback steers to, as a share of the SLO, above 0 and at most 1.
	Reference float64
}

// Validate returns all faults of the constants.
func (c Config) Validate() error {
	errs := input.Faults{c.Goal.Validate()}
	errs.If(!(c.Pole >= 0 && c.Pole < 1), "pole %v: must be at least 0 and below 1", c.Pole)
	errs.If(!(c.Reference > 0 && c.Reference <= 1), "reference %v: must be a share of the SLO above 0 and at most 1", c.Reference)
	return errors.Join(errs...)
}

// reference is the share of the SLO that the three laws steer to. The papers choose it by hand and do not state it.
// Steering to the SLO itself breaks the SLO in every other interval. With this value, Feedback_QMDL breaks it about as
// often on our Wikipedia series as in the InverseQueue paper.
const reference = 0.95

// Memory is the memory of the feedback laws.
type Memory struct {
	// Correction is the accumulated feedback: replicas (QMDL), a factor of the arrival rate minus one (QMCA), or
	// requests per second and replica (InverseP; 0 before the first evaluation).
	Correction float64 `json:"correction"`
}

// NewQMDL makes Feedback_QMDL; the paper's pole is 0.9.
func NewQMDL(g law.Goal) (law.Law, error) { return build(QMDL, Config{g, 0.9, reference}, DecideQMDL) }

// NewQMCA makes Feedback_QMCA; the paper's pole is 0.
func NewQMCA(g law.Goal) (law.Law, error) { return build(QMCA, Config{g, 0, reference}, DecideQMCA) }

// NewInverseP makes Feedback_InverseP; the paper's pole is 0.95.
func NewInverseP(g law.Goal) (law.Law, error) {
	return build(InverseP, Config{g, 0.95, reference}, DecideInverseP)
}

func build(name string, c Config, decide func(Config, Memory, law.Observation) (Memory, law.Decision)) (law.Law, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("law %s: %w", name, err)
	}
	return law.New(name, func(m Memory, o law.Observation) (Memory, law.Decision) {
		if o.ArrivalRate == 0 {
			if reason := o.Missing(law.ArrivalRate, c.MaxAge); reason != "" {
				return m, c.Hold(o, c.Interval, reason)
			}
			return m, c.Ask(c.Min, c.Interval, "no requests arrived")
		}
		if reason := o.Missing(law.ArrivalRate|law.ResponseTime, c.MaxAge); reason != "" {
			return m, c.Hold(o, c.Interval, reason)
		}
		return decide(c, m, o)
	}), nil
}

// aim returns the response time to aim at and the lowest N that keeps it by the model, with a note if the reference
// cannot be kept.
func (c Config) aim(lambda float64) (n int, slo float64, notes []string) {
	slo, note := c.Reachable(c.Reference*c.SLO.Seconds(), lambda)
	if note != "" {
		notes = append(notes, note)
	}
	n, _ = c.Servers(lambda, slo)
	return n, slo, notes
}

// DecideQMDL implements Feedback_QMDL: feedback by a linear model that is derived from the queueing model ("the plus of
// the M/M/N model's output and an additional value determined by feedback control", section 5.2).
//
// Reconstruction: R is the fixed reference, N_ff the lowest N with W(N) <= R, and g = W(N_ff + 1) - W(N_ff) < 0 the
// slope of the model there. The additional value d integrates the error e = R - y so that the linear loop has its pole
// at p:
//
//	d_k = d_(k-1) + (1 - p)·e/g,  N = ⌈N_ff + d_k⌉
//
// d is clamped so that N stays within the limits, which prevents wind-up.
func DecideQMDL(c Config, m Memory, o law.Observation) (Memory, law.Decision) {
	n, slo, notes := c.aim(o.ArrivalRate)
	slope := c.Model.System(n+1, o.ArrivalRate).Response() - c.Model.System(n, o.ArrivalRate).Response()
	if slope < 0 && !math.IsInf(slope, 0) {
		m.Correction += (1 - c.Pole) * (slo - o.ResponseTime) / slope
	}
	m.Correction = min(max(m.Correction, float64(c.Min-n)), float64(c.Max-n))
	return m, c.Ask(ceiling(float64(n)+m.Correction), c.Interval,
		append([]string{fmt.Sprintf("%d by the model, feedback %+.3g", n, m.Correction)}, notes...)...)
}

// DecideQMCA implements Feedback_QMCA: an M/M/1 model corrects the arrival rate for which the M/M/N model is inverted.
//
// Reconstruction: each of N replicas receives the rate r·lambda/N, and in an M/M/1 queue mu - r·lambda/N = 1/W. From
// the measured response time y and the fixed reference R, the model gives the error of that rate, and r integrates it
// with pole p:
//
//	r_k = r_(k-1) + (1 - p)·(N/lambda)·(1/R - 1/y),  N = lowest N with W(N; r_k·lambda) <= R
//
// r is clamped to [0.5, 2].
func DecideQMCA(c Config, m Memory, o law.Observation) (Memory, law.Decision) {
	_, slo, notes := c.aim(o.ArrivalRate)
	if o.ResponseTime > 0 {
		m.Correction += (1 - c.Pole) * float64(o.Ready) / o.ArrivalRate * (1/slo - 1/o.ResponseTime)
	}
	m.Correction = min(max(m.Correction, -0.5), 1)
	r := 1 + m.Correction
	// The service rate is that of the measured rate.
	n, err := queueing.Inverse(r*o.ArrivalRate, c.Model.ServiceRate(o.ArrivalRate), slo, c.Max)
	if err != nil {
		n = c.Max
	}
	return m, c.Ask(n, c.Interval, append([]string{fmt.Sprintf("arrival rate multiplied by %.3g", r)}, notes...)...)
}

// DecideInverseP implements Feedback_InverseP: the response time is proportional to the load of a replica,
// v = lambda/N, and so inversely proportional to N.
//
// Reconstruction: y = k·v, with k such that the fixed reference R is met at the v of the queueing model,
// v* = lambda/N*. With the error e = R - y and the pole p:
//
//	v_k = v_(k-1) + (1 - p)·v*·e/R,  N = ⌈lambda/v_k⌉
//
// v starts at v* and is clamped to [v*/4, 4·v*].
func DecideInverseP(c Config, m Memory, o law.Observation) (Memory, law.Decision) {
	n, slo, notes := c.aim(o.ArrivalRate)
	start := o.ArrivalRate / float64(n)
	if m.Correction == 0 {
		m.Correction = start
	}
	m.Correction += (1 - c.Pole) * start * (slo - o.ResponseTime) / slo
	m.Correction = min(max(m.Correction, start/4), start*4)
	return m, c.Ask(ceiling(o.ArrivalRate/m.Correction), c.Interval,
		append([]string{fmt.Sprintf("%.4g requests/s per replica", m.Correction)}, notes...)...)
}

// ProportionalConfig has the constants of the proportional law.
type ProportionalConfig struct {
	law.Goal
	// RatePerReplica is the desired number of requests per second for each replica.
	RatePerReplica float64
}

// NewProportional makes the law of a HorizontalPodAutoscaler whose metric is requests per second with an average value:
// N = ⌈lambda/rate⌉. It ignores the response time and has no memory.
func NewProportional(c ProportionalConfig) (law.Law, error) {
	errs := input.Faults{c.Validate()}
	errs.If(!(c.RatePerReplica > 0) || math.IsInf(c.RatePerReplica, 1), "rate %v per replica: must be requests per second above 0", c.RatePerReplica)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("law %s: %w", Proportional, err)
	}
	return law.New(Proportional, func(m struct{}, o law.Observation) (struct{}, law.Decision) {
		if reason := o.Missing(law.ArrivalRate, c.MaxAge); reason != "" {
			return m, c.Hold(o, c.Interval, reason)
		}
		n := ceiling(o.ArrivalRate / c.RatePerReplica)
		return m, c.Ask(n, c.Interval, fmt.Sprintf("%.4g requests/s, %.4g per replica", o.ArrivalRate, c.RatePerReplica))
	}), nil
}

// ceiling rounds up, but ignores floating-point error above a whole number.
func ceiling(x float64) int { return int(min(max(math.Ceil(x-1e-9), 0), 1<<30)) }
