package law

import (
	"errors"
	"fmt"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/input"
)

// Goal is what the laws that know a response time steer by.
type Goal struct {
	Limits
	// SLO is the mean response time to keep.
	SLO time.Duration `json:"slo"`
	// Model is what is known of the service.
	Model queueing.Model `json:"model"`
	// Interval is how long to wait between two looks.
	Interval time.Duration `json:"interval"`
	// MaxAge is how old measurements may be; 0 for no bound.
	MaxAge time.Duration `json:"maxAge"`
}

// DefaultGoal has the InverseQueue paper's service and control interval: 0.1 s,
// every 250 s.
func DefaultGoal() Goal {
	return Goal{
		Limits: Limits{Min: 1, Max: 1000}, SLO: 100 * time.Millisecond, Model: queueing.PaperModel(),
		Interval: 250 * time.Second, MaxAge: 10 * time.Minute,
	}
}

// Validate refuses what no law can keep, all faults at once. Where the model's
// service rate is fixed, an SLO below its bare service time is refused here;
// where it falls with the arrival rate, [queueing.Model.CheckSLO] does that for
// the highest rate expected, and laws say so at run time.
func (g Goal) Validate() error {
	errs := input.Faults{g.Limits.Validate(), g.Model.Validate()}
	switch {
	case g.SLO <= 0:
		errs = append(errs, fmt.Errorf("SLO %v: want a time above 0", g.SLO))
	case g.Model.Validate() == nil && g.Model.C == 0:
		errs = append(errs, g.Model.CheckSLO(g.SLO.Seconds(), 1))
	}
	errs.If(g.Interval <= 0, "interval %v: want a time above 0", g.Interval)
	errs.If(g.MaxAge < 0, "age %v: want a time above 0, or 0 for no bound", g.MaxAge)
	return errors.Join(errs...)
}

// waitShare is how long requests may wait, as a share of the bare service time,
// where the SLO itself is out of reach.
const waitShare = 0.1

// Reachable returns the response time to aim at, in seconds, when the law would
// like to have w and requests arrive at rate lambda. That is w unless one request
// alone takes longer; then it is a tenth more than that, so that at least no
// queue grows, and the reason names what the least is.
func (g Goal) Reachable(w, lambda float64) (aim float64, reason string) {
	bare := g.Model.BareTime(lambda)
	if w > bare {
		return w, ""
	}
	return (1 + waitShare) * bare, fmt.Sprintf(
		"%.4g s is out of reach at %.4g requests/s: one request alone takes %.4g s; keeping the queue short", w, lambda, bare)
}

// Servers is the least number of replicas with a mean response time of at most w
// seconds by the model, and whether Max replicas are enough for that. If they are
// not it is Max.
func (g Goal) Servers(lambda, w float64) (n int, enough bool) {
	n, err := queueing.Inverse(lambda, g.Model.ServiceRate(lambda), w, g.Max)
	if err != nil {
		return g.Max, false
	}
	return max(n, g.Min), true
}
