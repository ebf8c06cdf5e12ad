package predictive

import (
	"fmt"
	"math"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Decide evaluates one observation. At the end of a control interval it learns, and decides on
//
//	the least N with W(N, r, s·mu(r)) <= SLO,  r = (1 + h)·f + z·e
//
// where f is the forecast rate, e the standard deviation of its error, z the margin, h the headroom and s the learned
// speed. Within the interval it only scales out:
//
//   - if the rate since the last evaluation, minus one standard deviation of chance, makes W of the desired replicas
//     exceed the SLO;
//   - if the queue is QueueFactor times longer than the model predicts, or the Ready replicas do not keep up: then by
//     as many as work off the queue within DrainTime.
//
// While the response time or the queue length is not measured, only what is known counts, and it only scales out.
//
// If no request arrived in a whole control interval, it scales in to the minimum. If [law.Quiet] doubts that no request
// arrived, it holds. Starting replicas count as wanted, so they are not requested twice.
//
// Cost: O(N) for N replicas in the result.
func Decide(c Config, m Memory, o law.Observation) (Memory, law.Decision) {
	if reason, partial := o.RequestFault(c.MaxAge); partial {
		return m, c.Partial(o, c.out(m.begun(c), o.Possible(), c.Watch.Seconds()), reason)
	} else if reason != "" {
		return m, c.Hold(o, c.Watch, reason)
	}
	quiet, doubt := m.Quiet.See(o)
	if doubt != "" {
		return m, c.Doubt(o, c.Watch, doubt)
	}
	m = m.begun(c)
	m.Quiet = quiet
	elapsed := o.At.Sub(m.Present.Last)
	if m.Present.Began.IsZero() || elapsed < 0 || elapsed > 2*c.Interval {
		// Fresh memory, a changed clock, or a long gap: earlier measurements do not belong to this interval. Only the
		// rate just measured is known.
		m.Present = Interval{Began: o.At, Last: o.At, Replicas: o.Ready}
		return m, c.out(m, o, c.Watch.Seconds())
	}
	m.Present = m.Present.add(o, elapsed, o.QueueLength <= c.longest(m, o))
	d := c.out(m, o, elapsed.Seconds())
	// Half a watch early is close enough, because evaluations are never exactly on time.
	if o.At.Sub(m.Present.Began) < c.Interval-c.Watch/2 {
		return m, d
	}
	return c.close(m, o, d)
}

// begun returns the memory, or that of a law that has learned nothing.
func (m Memory) begun(c Config) Memory {
	if m.Learned {
		return m
	}
	return Memory{Learned: true, Speed: 1, Margin: c.Margin, Quiet: m.Quiet}
}

// add adds what was measured since the last evaluation. An evaluation that shows a change belongs to neither side of
// it.
func (i Interval) add(o law.Observation, elapsed time.Duration, calm bool) Interval {
	i.Last = o.At
	i.Whole = i.Whole.add(o, elapsed)
	i.Steady = i.Steady.add(o, elapsed)
	if !calm || !o.Serves(i.Replicas) {
		i.Steady, i.Replicas = Span{}, o.Ready
	}
	return i
}

func (s Span) add(o law.Observation, elapsed time.Duration) Span {
	seconds := elapsed.Seconds()
	s.Seconds += seconds
	if o.ArrivalRate > 0 {
		s.Requests += o.ArrivalRate * seconds
		s.ResponseSeconds += o.ArrivalRate * seconds * o.ResponseTime
	}
	return s
}

// response returns the mean response time in seconds, and rate the arrival rate.
func (s Span) response() float64 { return s.ResponseSeconds / s.Requests }
func (s Span) rate() float64     { return s.Requests / s.Seconds }

// system returns the queue of n replicas that the law expects.
func (c Config) system(m Memory, n int, lambda float64) queueing.System {
	return queueing.System{Servers: max(n, 1), ArrivalRate: lambda, ServiceRate: m.Speed * c.Model.ServiceRate(lambda)}
}

// servers returns the lowest N that keeps the SLO at a rate, at most Max, and a note if the SLO is out of reach.
func (c Config) servers(m Memory, lambda float64) (int, string) {
	if lambda == 0 {
		return c.Min, ""
	}
	mu := m.Speed * c.Model.ServiceRate(lambda)
	slo, note := c.SLO.Seconds(), ""
	if bare := 1 / mu; slo <= bare {
		note = fmt.Sprintf("%.4g s cannot be achieved at %.4g requests/s: one request alone takes %.4g s; keeping the queue short", slo, lambda, bare)
		slo = 1.1 * bare
	}
	n, err := queueing.Inverse(lambda, mu, slo, c.Max)
	if err != nil {
		return c.Max, note
	}
	return n, note
}

// out decides within a control interval. It never lowers the desired number of replicas.
func (c Config) out(m Memory, o law.Observation, seconds float64) law.Decision {
	rate := max(o.ArrivalRate-math.Sqrt(o.ArrivalRate/seconds), 0)
	if o.ArrivalRate > 0 && c.system(m, o.Desired, rate).Response() > c.SLO.Seconds() || o.QueueLength > c.longest(m, o) {
		n, note := c.servers(m, o.ArrivalRate)
		load := fmt.Sprintf("%.4g requests/s and a queue of %.4g", o.ArrivalRate, o.QueueLength)
		if math.IsNaN(o.QueueLength) {
			load = fmt.Sprintf("%.4g requests/s", o.ArrivalRate)
		}
		reasons := []string{fmt.Sprintf("%s exceed what %s can serve within the SLO by the queueing model", load, plural.Count(o.Desired, "replica"))}
		if note != "" {
			reasons = append(reasons, note)
		}
		return c.Grow(o, c.drain(m, o, n), c.Watch, reasons...)
	}
	return c.Ask(max(o.Desired, c.Min), c.Watch, "inside the control interval")
}

// longest returns the longest queue, including requests in service, that needs no action. If the Ready replicas do not
// keep up, that is QueueFactor times the number that they serve concurrently.
func (c Config) longest(m Memory, o law.Observation) float64 {
	inside := c.system(m, o.Ready, o.ArrivalRate).Requests()
	return c.QueueFactor * max(min(inside, float64(o.Ready)), 1)
}

// drain raises n so that the replicas beyond those that the rate needs work off the queue within DrainTime.
func (c Config) drain(m Memory, o law.Observation, n int) int {
	if !(o.QueueLength > c.longest(m, o)) {
		return n
	}
	lambda := o.ArrivalRate
	mu := m.Speed * c.Model.MuB
	if lambda > 0 {
		mu = m.Speed * c.Model.ServiceRate(lambda)
	}
	extra := math.Ceil((o.QueueLength - float64(n)) / (mu * law.DrainTime(c.DrainTime, mu)))
	return n + int(min(max(extra, 0), float64(c.Max)))
}

// close ends a control interval: it learns from the interval, and decides for the next one.
func (c Config) close(m Memory, o law.Observation, urgent law.Decision) (Memory, law.Decision) {
	p := m.Present
	m.Smoothers = learnRate(m.Smoothers, p.Whole.rate())
	if p.Whole.Requests > 0 {
		if broken := p.Whole.response() > c.SLO.Seconds(); !broken || o.Desired < c.Max {
			m.Margin = c.margin(m.Margin, broken)
		}
	}
	if p.Steady.Seconds >= p.Whole.Seconds/2 {
		m.Speed = c.speed(m.Speed, p.Replicas, p.Steady)
	}
	m.Present = Interval{Began: o.At, Last: o.At, Replicas: o.Ready}
	rate, spread := forecast(m.Smoothers, 1+o.StartUp.Seconds()/c.Interval.Seconds())
	n, note := c.servers(m, (1+c.Headroom)*rate+m.Margin*spread)
	if o.QueueLength > c.longest(m, o) {
		n = max(n, urgent.Replicas) // the queue is not worked off yet
	}
	n = c.Clamp(n)
	reasons := []string{fmt.Sprintf("%.4g requests/s forecast, margin %.3g times %.3g, speed %.3g: %s", rate, m.Margin, spread, m.Speed, plural.Count(n, "replica"))}
	if note != "" {
		reasons = append(reasons, note)
	}
	return m, c.Ask(n, c.Watch, reasons...)
}

// margin follows the share of broken intervals:
//
//	z_k = z_(k-1) + MarginStep·(b - Violations),  b = 1 for a broken interval, else 0
//
// clamped to [0, MaxMargin]. While it is not clamped, the mean of b over K intervals differs from Violations by at most
// MaxMargin/(MarginStep·K), whatever the service does, because the sum telescopes. Intervals that were broken with Max
// replicas do not count, because no margin would have helped.
func (c Config) margin(z float64, broken bool) float64 {
	b := 0.0
	if broken {
		b = 1
	}
	return min(max(z+c.MarginStep*(b-c.Violations), 0), c.MaxMargin)
}
