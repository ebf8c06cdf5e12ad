package inversequeue

import (
	"fmt"
	"math"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// overload sizes the service by its queue (algorithm 3, QLP):
//
//  1. n_r of this arrival rate rises to the number of Ready replicas, unless the measurements may be of fewer, see
//     [step.late], which the paper does not consider;
//  2. the least N with alpha·y + (1 - alpha)·W(N) <= SLO; or, if no N satisfies that because the past weighs too much
//     (the paper's loop does not terminate then), with W(N) <= SLO;
//  3. at least one more than the wanted number;
//  4. more, until the added replicas work off the excess over L_s(N) within T_r:
//     mu·(N - N_before)·T_r >= L_r - L_s(N).
//
// Both L count requests waiting and in service. N_before is the wanted number. While some of its replicas start, their
// effect is not measured yet: then step 3 is skipped, and step 4 counts from the Ready replicas, so that no replica is
// requested twice.
func (s *step) overload(why string) (Memory, law.Decision) {
	if s.o.Settled() && !s.late() {
		s.tooFew(s.o.Ready)
	}
	n := s.recover()
	if s.o.Starting() == 0 {
		n = max(n, s.o.Desired+1)
	}
	n = s.drain(max(n, s.o.Desired))
	n = s.c.Clamp(n)
	purpose := fmt.Sprintf("%s to serve the requests and drain the queue of %.4g", plural.Count(n, "replica"), s.o.QueueLength)
	if math.IsNaN(s.o.QueueLength) {
		purpose = plural.Count(n, "replica") + " to serve the requests"
	}
	return s.decide(n, s.inputFor(n), why, purpose)
}

// recover implements step 2. Without a response time, only W(N) counts.
func (s *step) recover() int {
	alpha := s.c.Model.Alpha
	if math.IsNaN(s.o.ResponseTime) {
		return s.inverse(s.slo)
	}
	w := (s.slo - alpha*s.o.ResponseTime) / (1 - alpha)
	if n, err := queueing.Inverse(s.lambda, s.mu, w, s.c.Max); err == nil {
		return n
	}
	return s.inverse(s.slo)
}

// drain implements step 4. The search is short, because only L_s(N) changes with N, and the excess over it bounds the
// result from above.
func (s *step) drain(n int) int {
	perReplica := s.mu * law.DrainTime(s.c.DrainTime, s.mu)
	before := min(s.o.Desired, s.o.Ready)
	for n < s.c.Max {
		inside := s.system(n).Requests()
		if math.IsInf(inside, 1) {
			n = max(n+1, s.stable)
			continue
		}
		missing := math.Ceil((s.o.QueueLength-inside)/perReplica) - float64(n-before)
		if !(missing > 0) {
			return n
		}
		// L_s falls as N rises, so N needs at least this many more.
		n += int(min(missing, float64(s.c.Max)))
	}
	return n
}
