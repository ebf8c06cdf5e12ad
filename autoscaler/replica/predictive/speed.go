package predictive

import "supercargo.dev/supercargo/autoscaler/replica/queueing"

// minSpeed and maxSpeed bound the learned speed.
const minSpeed, maxSpeed = 0.2, 5

// speed moves the learned speed s towards the one that explains the response time of a span throughout which n replicas
// served: the service rate at which W is the response time, relative to the model's. W holds for a steady queue, so a
// span with changes cannot be used.
func (c Config) speed(s float64, n int, span Span) float64 {
	if n == 0 || !(span.Requests > 0) || !(span.ResponseSeconds > 0) {
		return s
	}
	lambda := span.rate()
	seen := queueing.RateFor(n, lambda, span.response()) / c.Model.ServiceRate(lambda)
	s += c.SpeedWeight * (min(max(seen, minSpeed), maxSpeed) - s)
	return min(max(s, minSpeed), maxSpeed)
}
