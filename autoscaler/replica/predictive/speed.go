package predictive

import "supercargo.dev/supercargo/internal/queueing"

// The learned speed stays within these.
const minSpeed, maxSpeed = 0.2, 5

// speed moves the learned speed towards the one that explains the response time
// of an interval through which n replicas served: the service rate at which W is
// the response time, by what the model says. Nothing is learned where n is 0, its
// mark for an interval with changes, since W is of a steady queue.
func (c Config) speed(s float64, n int, lambda, response float64) float64 {
	if n == 0 || !(lambda > 0) || !(response > 0) {
		return s
	}
	seen := queueing.RateFor(n, lambda, response) / c.Model.ServiceRate(lambda)
	s += c.SpeedWeight * (min(max(seen, minSpeed), maxSpeed) - s)
	return min(max(s, minSpeed), maxSpeed)
}
