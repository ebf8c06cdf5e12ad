package replicadecide

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/doublethreshold"
	"supercargo.dev/supercargo/autoscaler/replica/inversequeue"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/predictive"
)

// number returns a quantity as a number, or otherwise if it is not set.
func number(q *resource.Quantity, otherwise float64) float64 {
	if q == nil {
		return otherwise
	}
	return q.AsApproximateFloat64()
}

func whole(n *int32, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return int(*n)
}

func span(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}

func (p *Policy) newPredictive(g law.Goal, s *v1alpha1.PredictiveConstants) (law.Law, error) {
	c := predictive.For(g)
	if s != nil {
		c.Watch = span(s.Watch, c.Watch)
		c.Violations, c.Headroom, c.SpeedWeight = number(s.Violations, c.Violations), number(s.Headroom, c.Headroom), number(s.SpeedWeight, c.SpeedWeight)
		c.Margin, c.MaxMargin, c.MarginStep = number(s.Margin, c.Margin), number(s.MaxMargin, c.MaxMargin), number(s.MarginStep, c.MarginStep)
		c.QueueFactor, c.DrainTime = number(s.QueueFactor, c.QueueFactor), span(s.DrainTime, c.DrainTime)
	}
	p.Shortest, p.Longest = c.Watch, c.Watch
	return predictive.New(c)
}

func (p *Policy) newInverseQueue(g law.Goal, s *v1alpha1.InverseQueueConstants) (law.Law, error) {
	c := inversequeue.Default()
	c.Goal = g
	if s != nil {
		c.Gap, c.Reach, c.Spread, c.Gain = number(s.Gap, c.Gap), number(s.Reach, c.Reach), number(s.Spread, c.Spread), number(s.Gain, c.Gain)
		c.Keep, c.Rank, c.MatureSizes, c.MaxModels = whole(s.Keep, c.Keep), whole(s.Rank, c.Rank), whole(s.MatureSizes, c.MatureSizes), whole(s.MaxModels, c.MaxModels)
		c.QueueFactor, c.ResponseFactor = number(s.QueueFactor, c.QueueFactor), number(s.ResponseFactor, c.ResponseFactor)
		c.DrainTime = span(s.DrainTime, c.DrainTime)
	}
	p.Shortest, p.Longest = g.Interval, g.Interval
	return inversequeue.New(c)
}

func (p *Policy) newDoubleThreshold(s *v1alpha1.DoubleThresholdConstants) (law.Law, error) {
	c := doublethreshold.Default()
	c.Limits, c.MaxAge = p.Limits, p.MaxAge
	if s != nil {
		c.Alpha, c.Beta = float64(whole(s.AlphaPercent, int(c.Alpha))), float64(whole(s.BetaPercent, int(c.Beta)))
		c.Delta, c.Epsilon, c.RapidFactor = number(s.Delta, c.Delta), number(s.Epsilon, c.Epsilon), number(s.RapidFactor, c.RapidFactor)
		c.Window = whole(s.Window, c.Window)
		c.Calm, c.Busy, c.Urgent = span(s.Calm, c.Calm), span(s.Busy, c.Busy), span(s.Urgent, c.Urgent)
	}
	p.Shortest, p.Longest = min(c.Calm, c.Busy, c.Urgent), max(c.Calm, c.Busy, c.Urgent)
	return doublethreshold.New(c)
}
