package inversequeue

import (
	"fmt"
	"math"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

// overload sizes the service by its queue (algorithm 3, QLP):
//
//  1. n_r of this arrival rate rises to the Ready replicas, unless what is measured may
//     be of fewer, see [step.late], which the paper does not consider;
//  2. the least N with alpha·y + (1 - alpha)·W(N) <= SLO, or where no N can do
//     that, since the past weighs too much (the paper's loop never ends there),
//     with W(N) <= SLO;
//  3. at least one more than were asked for before;
//  4. more, until those added work off within T_r what is inside beyond L_s(N):
//     mu·(N - N_before)·T_r >= L_r - L_s(N).
//
// Both L count requests waiting and in service. N_before is what was asked for.
// While some of that still starts its effect is not seen: then step 3 waits, and
// step 4 counts from the Ready replicas, so that none is ordered twice.
func (s *step) overload(why string) (Memory, law.Decision) {
	if s.o.Settled() && !s.late() {
		s.tooFew(s.o.Ready)
	}
	n := s.recover()
	if s.o.Starting() == 0 {
		n = max(n, s.o.Wanted+1)
	}
	n = s.drain(max(n, s.o.Wanted))
	n = s.c.Clamp(n)
	return s.decide(n, s.inputFor(n), why, fmt.Sprintf("%d replicas work off the queue of %.4g", n, s.o.QueueLength))
}

// recover is step 2.
func (s *step) recover() int {
	alpha := s.c.Model.Alpha
	w := (s.slo - alpha*s.o.ResponseTime) / (1 - alpha)
	if n, err := queueing.Inverse(s.lambda, s.mu, w, s.c.Max); err == nil {
		return n
	}
	return s.inverse(s.slo)
}

// drain is step 4. Only the difference of L_s needs a search, and it is small:
// what is inside beyond it bounds the answer from above.
func (s *step) drain(n int) int {
	perReplica := s.mu * s.c.DrainTime.Seconds()
	before := min(s.o.Wanted, s.o.Ready)
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
		// L_s falls as N rises, so that what is missing now is missing then too.
		n += int(min(missing, float64(s.c.Max)))
	}
	return n
}
