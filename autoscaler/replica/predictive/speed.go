package predictive

import "supercargo.dev/supercargo/autoscaler/replica/queueing"

// The learned speed stays within these.
const minSpeed, maxSpeed = 0.2, 5

// speed moves the learned speed towards the one that explains the response time
// of a span through which n replicas served: the service rate at which W is the
// response time, by what the model says. W is of a steady queue, so that a span
// in which something changed teaches nothing.
func (c Config) speed(s float64, n int, span Span) float64 {
	if n == 0 || !(span.Requests > 0) || !(span.ResponseSeconds > 0) {
		return s
	}
	lambda := span.rate()
	seen := queueing.RateFor(n, lambda, span.response()) / c.Model.ServiceRate(lambda)
	s += c.SpeedWeight * (min(max(seen, minSpeed), maxSpeed) - s)
	return min(max(s, minSpeed), maxSpeed)
}
