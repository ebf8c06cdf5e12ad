package inversequeue

import (
	"fmt"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/internal/text/plural"
)

// control moves the control input by the error of the service, mapped to the queueing model (equations 12 to 16):
//
//	W_d = W(Max),  W_u = mean of W(n_r) and W(n_r - 1), each at the least stable N or above
//	u clamped into [W_d, W_u]
//	K_a = (u - W_d)/(y - Wd_m) if y > W_r, else (W_u - u)/(Wu_m - y), clamped into [0, 1]
//	u_k = u + K_I·K_a·(W_r - y),  N_k = least N with W(N) <= u_k
//
// where W_r is the guide's reference response time, and Wd_m and Wu_m its least and greatest stable means. A quotient
// whose divisor is not above 0 counts as 1. If W_u is below W_d, because Max replicas are no faster, W_u is set to W_d.
func (s *step) control(guide *Reference) (Memory, law.Decision) {
	means := guide.means(s.c.Spread)
	reference, greatest, least := means[min(s.c.rank(guide), len(means))-1], means[0], means[len(means)-1]
	down := s.response(s.c.Max)
	up := (s.response(max(*guide.TooFew, s.stable)) + s.response(max(*guide.TooFew-1, s.stable))) / 2
	up = max(up, down)
	u := s.m.Input
	if u == 0 {
		u = s.inputFor(max(s.o.Desired, 1))
	}
	u = min(max(u, down), up)
	y := s.o.ResponseTime
	gain := share(up-u, greatest-y)
	if y > reference {
		gain = share(u-down, y-least)
	}
	u += s.c.Gain * gain * (reference - y)
	if bare := 1 / s.mu; u <= bare { // W_d is near bare if Max is great; no N answers faster
		u = max(down, bare*(1+1e-9))
	}
	n := s.inverse(u)
	model := fmt.Sprintf("%s %.4g s", plural.Form(n, "1 replica achieves", fmt.Sprintf("%d replicas achieve", n)), u)
	if !s.system(n).Stable() || s.response(n) > u { // Max is below what serves the requests
		model = plural.Form(n, "1 replica is", fmt.Sprintf("%d replicas are", n)) + " too few"
	}
	return s.decide(n, u, fmt.Sprintf("response time %.4g s, reference %.4g s learned at %.4g requests/s: %s by the queueing model", y, reference, guide.ArrivalRate, model))
}

// share returns a/b clamped to [0, 1], or 1 if b is not above 0.
func share(a, b float64) float64 {
	if !(b > 0) {
		return 1
	}
	return min(max(a/b, 0), 1)
}
