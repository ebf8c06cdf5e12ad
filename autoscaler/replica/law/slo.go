package law

import (
	"errors"
	"fmt"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/input"
)

// Goal configures the laws that keep a response time.
type Goal struct {
	Limits
	// SLO is the mean response time to keep.
	SLO time.Duration `json:"slo"`
	// Model is the queueing model of one replica.
	Model queueing.Model `json:"model"`
	// Interval is the time between two evaluations.
	Interval time.Duration `json:"interval"`
	// MaxAge is the maximum age of measurements; 0 for no bound.
	MaxAge time.Duration `json:"maxAge"`
}

// DefaultGoal returns the service and the control interval of the InverseQueue paper: an SLO of 0.1 s, evaluated every
// 250 s.
func DefaultGoal() Goal {
	return Goal{
		Limits: Limits{Min: 1, Max: 1000}, SLO: 100 * time.Millisecond, Model: queueing.PaperModel(),
		Interval: 250 * time.Second, MaxAge: 10 * time.Minute,
	}
}

// Validate returns all faults of a goal. If the model's service rate is constant, it also refuses an SLO below the bare
// service time. If the rate falls with the arrival rate, [queueing.Model.CheckSLO] does that for the highest expected
// rate, and laws report it at run time.
func (g Goal) Validate() error {
	errs := input.Faults{g.Limits.Validate(), g.Model.Validate()}
	switch {
	case g.SLO <= 0:
		errs = append(errs, fmt.Errorf("SLO %v: must be a time above 0", g.SLO))
	case g.Model.Validate() == nil && g.Model.C == 0:
		errs = append(errs, g.Model.CheckSLO(g.SLO.Seconds(), 1))
	}
	errs.If(g.Interval <= 0, "interval %v: must be a time above 0", g.Interval)
	errs.If(g.MaxAge < 0, "age %v: must be a time above 0, or 0 for no bound", g.MaxAge)
	return errors.Join(errs...)
}

// waitShare is the accepted waiting time, as a share of the bare service time, if the SLO cannot be kept.
const waitShare = 0.1

// Reachable returns the response time to aim at, in seconds, for a desired response time w at arrival rate lambda. That
// is w, unless a single request takes longer. Then it is 1.1 times the bare service time, so that at least no queue
// grows, and the reason names the bare service time.
func (g Goal) Reachable(w, lambda float64) (aim float64, reason string) {
	bare := g.Model.BareTime(lambda)
	if w > bare {
		return w, ""
	}
	return (1 + waitShare) * bare, fmt.Sprintf(
		"%.4g s cannot be achieved at %.4g requests/s: one request alone takes %.4g s; keeping the queue short", w, lambda, bare)
}

// DrainTime returns the time in seconds within which added replicas should work off a queue: the configured one, but at
// least drainServices times as long as a request takes at service rate mu, because no replica drains faster than it serves.
func DrainTime(configured time.Duration, mu float64) float64 {
	return max(configured.Seconds(), drainServices/mu)
}

// drainServices is the least time to drain a queue, in service times. Of 1, 2, 4 and 10 it had the lowest peaks of those that
// broke the SLO no more often, at 20 s a request.
const drainServices = 4

// Servers returns the lowest number of replicas for which the model gives a mean response time of at most w seconds, at
// least Min. If Max replicas are not enough, it returns Max and false.
func (g Goal) Servers(lambda, w float64) (n int, enough bool) {
	n, err := queueing.Inverse(lambda, g.Model.ServiceRate(lambda), w, g.Max)
	if err != nil {
		return g.Max, false
	}
	return max(n, g.Min), true
}
