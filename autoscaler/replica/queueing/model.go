package queueing

import (
	"errors"
	"fmt"
	"math"

	"supercargo.dev/supercargo/internal/input"
)

// Model describes the performance of a service's replicas, and the influence of past response times (equations 1 and 5
// of the paper):
//
//	mu  = mu_b + c/lambda
//	y_k = alpha·y_(k-1) + (1 - alpha)·W(N, lambda, mu)
//
// where y_k is the mean response time measured in step k.
type Model struct {
	// MuB is the basic service rate of a replica, in requests per second: the limit for high arrival rates.
	MuB float64 `json:"muB"`
	// C is the speed-up of a replica at low arrival rates, in requests squared per second squared. 0 means a fixed
	// rate.
	C float64 `json:"c"`
	// Alpha is the weight of the past, in [0, 1).
	Alpha float64 `json:"alpha"`
}

// PaperModel returns the constants that the paper found for its own service (section 5.1). With them, a single request
// takes longer than 0.1 s above an arrival rate of 706 requests per second.
func PaperModel() Model { return Model{MuB: 7.771, C: 1574.510, Alpha: 0.215} }

// Validate returns all faults of the constants.
func (m Model) Validate() error {
	var errs input.Faults
	errs.If(!(m.MuB > 0) || math.IsInf(m.MuB, 1), "basic service rate mu_b %v: must be requests per second above 0", m.MuB)
	errs.If(!(m.C >= 0) || math.IsInf(m.C, 1), "speed-up c %v: must be 0 or more", m.C)
	errs.If(!(m.Alpha >= 0 && m.Alpha < 1), "weight of the past alpha %v: must be at least 0 and below 1", m.Alpha)
	return errors.Join(errs...)
}

// ServiceRate returns mu at an arrival rate, in requests per second and replica. At lambda = 0 it is infinite if C is
// above 0, because the model does not apply to an idle service.
func (m Model) ServiceRate(lambda float64) float64 {
	if m.C == 0 {
		return m.MuB
	}
	return m.MuB + m.C/lambda
}

// System returns the queue of n replicas at an arrival rate.
func (m Model) System(n int, lambda float64) System {
	return System{Servers: n, ArrivalRate: lambda, ServiceRate: m.ServiceRate(lambda)}
}

// BareTime returns the time 1/mu of a single request, in seconds. No number of replicas answers faster at this rate.
func (m Model) BareTime(lambda float64) float64 { return 1 / m.ServiceRate(lambda) }

// CheckSLO returns an error if no number of replicas keeps a response time, in seconds, at the highest expected arrival
// rate. The error names the lowest response time that can be kept.
func (m Model) CheckSLO(slo, peak float64) error {
	if !(slo > 0) || math.IsInf(slo, 1) {
		return fmt.Errorf("SLO %v s: must be a response time above 0", slo)
	}
	if bare := m.BareTime(peak); !(slo > bare) {
		return fmt.Errorf("SLO %.6g s: must be longer, because at %.6g requests/s one request alone takes %.6g s", slo, peak, bare)
	}
	return nil
}
