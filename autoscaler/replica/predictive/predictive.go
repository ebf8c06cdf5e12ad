// Package predictive keeps a mean response time with a queueing model of the coming control interval, and corrects the
// model, the forecast and the margin by what it measures.
//
// [Decide] combines three parts:
//
//   - feed-forward: the least N with W(N) <= SLO at the arrival rate that is forecast for the coming interval and the
//     start-up time of a replica, by the M/M/N model of package queueing, whose service rate is corrected by a factor
//     learned from response times (speed.go);
//   - forecast: several exponential smoothers with and without trend run side by side, and the one with the least
//     recent error is used (forecast.go); its error is the unit of the margin;
//   - feedback: the margin grows with each interval that broke the SLO and shrinks a little with each that did not, so
//     that in the long run the share of broken intervals tends to the configured one, whatever the errors look like.
//
// Within a control interval it evaluates repeatedly, and only scales out: if the rate or the queue has outgrown the
// replicas.
package predictive

import (
	"errors"
	"fmt"
	"math"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
)

// Name is the law's name in the catalogue.
const Name = "predictive"

// Config has the constants.
type Config struct {
	law.Goal
	// Watch is the time between two evaluations. Interval is the time after which the law may scale in again.
	Watch time.Duration
	// Violations is the share of control intervals that may break the SLO.
	Violations float64
	// Margin is the initial margin, and MaxMargin the greatest, in standard deviations of the forecast's error.
	Margin, MaxMargin float64
	// Headroom is added to the forecast rate, as a share of it: the queue, and so the mean of an interval, is random
	// even if the rate is known.
	Headroom float64
	// MarginStep is the growth of the margin after a broken interval.
	MarginStep float64
	// SpeedWeight is the weight of the last interval in the learned speed.
	SpeedWeight float64
	// QueueFactor is the factor by which the queue may exceed the model's.
	QueueFactor float64
	// DrainTime is the time in which added replicas must work off a queue.
	DrainTime time.Duration
}

// For returns the constants for a goal: ten evaluations in a control interval, and one interval in twenty may break the
// SLO, because fewer would cost more.
func For(g law.Goal) Config {
	return Config{Goal: g, Watch: max(g.Interval/10, time.Second), Violations: 0.05, Margin: 0.5, MaxMargin: 8, MarginStep: 0.2, Headroom: 0.015, SpeedWeight: 0.1,
		QueueFactor: 3, DrainTime: 10 * time.Second}
}

// Validate returns all faults of the constants.
func (c Config) Validate() error {
	return errors.Join(
		c.Goal.Validate(),
		law.Want(c.Watch > 0, "a time above 0", "watch %v", c.Watch),
		law.Want(c.Violations > 0 && c.Violations < 1, "a share above 0 and below 1", "violations %v", c.Violations),
		law.Want(c.MaxMargin > 0 && !math.IsInf(c.MaxMargin, 1), "a number above 0", "maximum margin %v", c.MaxMargin),
		law.Want(c.Margin >= 0 && c.Margin <= c.MaxMargin, "from 0 to the maximum margin", "margin %v", c.Margin),
		law.Want(c.MarginStep > 0 && c.MarginStep <= c.MaxMargin, "a number above 0 and at most the maximum margin", "margin step %v", c.MarginStep),
		law.Want(c.Headroom >= 0 && c.Headroom <= 1, "a share from 0 to 1", "headroom %v", c.Headroom),
		law.Want(c.SpeedWeight >= 0 && c.SpeedWeight <= 1, "from 0 to 1", "speed weight %v", c.SpeedWeight),
		law.Want(c.QueueFactor > 1, "a number above 1", "queue factor %v", c.QueueFactor),
		law.Want(c.DrainTime > 0, "a time above 0", "drain time %v", c.DrainTime),
	)
}

// Memory is what the law has learned, and the present control interval.
type Memory struct {
	// Learned is false in fresh memory.
	Learned bool `json:"learned,omitempty"`
	// Smoothers are the concurrent forecasts, in the order of gains.
	Smoothers []Smoother `json:"smoothers,omitempty"`
	// Speed is the factor by which replicas are faster than the model.
	Speed float64 `json:"speed,omitempty"`
	// Margin is the margin in standard deviations of the forecast's error.
	Margin float64 `json:"margin,omitempty"`
	// Quiet records how many replicas were Ready when requests were last answered.
	Quiet law.Quiet `json:"quiet,omitzero"`
	// Present is what was measured in the present control interval.
	Present Interval `json:"present"`
}

// Interval is what was measured since Began.
type Interval struct {
	Began time.Time `json:"began,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Whole covers all of it, and Steady the time since the replicas last changed or the queue was too long.
	Whole  Span `json:"whole"`
	Steady Span `json:"steady"`
	// Replicas is the number that served throughout Steady.
	Replicas int `json:"replicas,omitempty"`
}

// Span is what was measured over several evaluations.
type Span struct {
	// Seconds is the measured time, Requests the number of requests that arrived in it, and ResponseSeconds the sum of
	// their response times.
	Seconds         float64 `json:"seconds,omitempty"`
	Requests        float64 `json:"requests,omitempty"`
	ResponseSeconds float64 `json:"responseSeconds,omitempty"`
}

// New makes the law.
func New(c Config) (law.Law, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("law %s: %w", Name, err)
	}
	return law.New(Name, func(m Memory, o law.Observation) (Memory, law.Decision) { return Decide(c, m, o) }), nil
}
