package inversequeue

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/internal/text/plural"
)

// find selects the reference model for this arrival rate, the nearest within Gap (the lower rate of two), or creates
// one. It does not change the given memory: the list is a copy, and models are copied before they change.
func (s *step) find() {
	models := slices.Clone(s.m.Models)
	at := -1
	for i := range models {
		d := math.Abs(models[i].ArrivalRate - s.lambda)
		if d < s.c.Gap && (at < 0 || d < math.Abs(models[at].ArrivalRate-s.lambda)) {
			at = i
		}
	}
	if at < 0 {
		if len(models) >= s.c.MaxModels {
			oldest := slices.MinFunc(models, func(a, b Reference) int { return cmp.Compare(a.Used, b.Used) })
			models = slices.DeleteFunc(models, func(r Reference) bool { return r.ArrivalRate == oldest.ArrivalRate })
		}
		at, _ = slices.BinarySearchFunc(models, s.lambda, func(r Reference, rate float64) int { return cmp.Compare(r.ArrivalRate, rate) })
		models = slices.Insert(models, at, Reference{ArrivalRate: s.lambda})
	}
	s.m.Models = models
	s.model = &models[at]
	s.model.Used = s.m.Evaluations
	s.before = s.m.Previous == s.model.ArrivalRate
	s.m.Previous = s.model.ArrivalRate
}

// learn adds the sample (Ready, lambda, response time) to the model, if the last evaluation used the same model (the
// rate was steady) and all replicas in the spec serve (the number was). It reports whether the sample is distrusted,
// see [step.late] and [step.early].
func (s *step) learn() (doubted bool) {
	if !s.before || !s.o.Settled() {
		return false
	}
	n := s.o.Ready
	if s.o.ResponseTime > s.slo {
		if s.late() {
			return true
		}
		s.tooFew(n)
		return false
	}
	if s.early() {
		return true
	}
	s.model.Sizes = keep(s.model.Sizes, n, micros(s.o.ResponseTime), s.c.Keep)
	if s.model.TooFew != nil && n <= *s.model.TooFew {
		less := n - 1
		s.model.TooFew = &less
	}
	return false
}

// lateEvaluations is the number of evaluations by which measurements may lag behind the Ready replicas: rates over a window
// of one control interval, scraped once in it, lag by up to two.
const lateEvaluations = 2

// observeReady remembers when the number of Ready replicas rose, until it falls, and when it fell by so many that the
// response times before and after have little in common.
func (s *step) observeReady() {
	switch {
	case s.m.Ready > 0 && s.o.Ready > s.m.Ready:
		s.m.Rose = s.m.Evaluations
	case s.o.Ready < s.m.Ready:
		s.m.Rose = 0
		if s.m.Ready-s.o.Ready > s.c.MatureSizes {
			s.m.Fell = s.m.Evaluations
		}
	}
	s.m.Ready = s.o.Ready
}

// late reports whether a broken SLO may be that of fewer replicas than are Ready now: the arrival rate is that of the
// last evaluation, the number of Ready replicas rose within lateEvaluations, and by the queueing model it keeps the SLO. Such
// a sample does not raise n_r, since nothing would lower n_r again: numbers below n_r are not tried. Otherwise the
// sample counts, as all samples do in the paper.
func (s *step) late() bool {
	return s.before && s.m.Rose > 0 && s.m.Evaluations-s.m.Rose < lateEvaluations && s.response(s.o.Ready) <= s.slo
}

// bound raises n_r to one below the lowest number that kept the SLO, if that is below Min or not stable by the queueing
// model. The paper would try that number; here it counts as too few, without slow responses.
func (s *step) bound() {
	if len(s.model.Sizes) == 0 {
		return
	}
	if below := s.model.Sizes[0].Replicas - 1; below < max(s.stable, s.c.Min) {
		s.tooFew(below)
	}
}

// tooFew raises n_r to n.
func (s *step) tooFew(n int) {
	if s.model.TooFew == nil || n > *s.model.TooFew {
		s.model.TooFew = &n
	}
}

func micros(seconds float64) int64 { return int64(math.Round(seconds * 1e6)) }

// keep returns a copy of sizes with one more response time of n replicas. It keeps the last most of them.
func keep(sizes []Size, n int, response int64, most int) []Size {
	sizes = slices.Clone(sizes)
	at, known := find(sizes, n)
	if !known {
		sizes = slices.Insert(sizes, at, Size{Replicas: n})
	}
	kept := sizes[at].ResponseMicros
	kept = slices.Concat(kept[max(0, len(kept)-most+1):], []int64{response})
	sizes[at].ResponseMicros = kept
	return sizes
}

// means returns the stable points: for each number of replicas the mean response time in seconds, without response
// times further than spread from the mean of all. They are sorted, the largest first.
func (r *Reference) means(spread float64) []float64 {
	var means []float64
	for _, s := range r.Sizes {
		var all, near, count float64
		for _, t := range s.ResponseMicros {
			all += float64(t) / float64(len(s.ResponseMicros))
		}
		for _, t := range s.ResponseMicros {
			if math.Abs(float64(t)-all) <= spread*all {
				near, count = near+float64(t), count+1
			}
		}
		if count > 0 {
			means = append(means, near/count/1e6)
		}
	}
	slices.SortFunc(means, func(a, b float64) int { return cmp.Compare(b, a) })
	return means
}

// early reports whether a kept SLO may be that of far more replicas than are Ready now, because their number fell by
// more than MatureSizes within lateEvaluations. Such response times would suggest that few replicas answer as fast as many,
// and would distort the largest stable means, which the controller steers to. After a smaller fall the sample counts,
// as all samples do in the paper.
func (s *step) early() bool {
	return s.m.Fell > 0 && s.m.Evaluations-s.m.Fell < lateEvaluations
}

// mature reports whether the model can be a guide: its n_r is known, it has enough sizes, it has a stable mean of the
// wanted rank, and its lowest sizes, up to that rank, adjoin n_r. The paper does not need the last condition, because
// its sampling goes down by one from a first sample near n_r. Here, an overload leaves sizes far above n_r with similar
// response times: the integral controller would follow their noise, and keep the service large. If the limits allow
// fewer numbers above n_r than MatureSizes, which the paper does not consider either, all of them are enough.
func (c Config) mature(r *Reference) bool {
	if r.TooFew == nil {
		return false
	}
	means := len(r.means(c.Spread))
	return len(r.Sizes) >= c.MatureSizes && means >= c.Rank && c.adjoins(r) || means > 0 && c.unseen(r) == 0
}

// adjoins reports whether the Rank lowest numbers of replicas that kept the SLO follow n_r without a gap. [step.bound]
// has raised n_r to cover numbers that are not tried.
func (c Config) adjoins(r *Reference) bool {
	for i, s := range r.Sizes[:min(c.Rank, len(r.Sizes))] {
		if s.Replicas > *r.TooFew+1+i {
			return false
		}
	}
	return true
}

// rank returns the rank of the reference response time among the stable means of a model: Rank, or, if the limits allow
// fewer than MatureSizes numbers above n_r, the same share of those, rounded up. The third largest of three means would
// always be that of Max.
func (c Config) rank(r *Reference) int {
	numbers := c.Max - max(*r.TooFew, c.Min-1)
	if numbers >= c.MatureSizes {
		return c.Rank
	}
	return max(1, (c.Rank*numbers+c.MatureSizes-1)/c.MatureSizes)
}

// unseen returns the greatest number of replicas above n_r within the limits for which the model has no sample that
// kept the SLO; 0 if there is none.
func (c Config) unseen(r *Reference) int {
	for n := c.Max; n > *r.TooFew && n >= c.Min; n-- {
		if _, seen := find(r.Sizes, n); !seen {
			return n
		}
	}
	return 0
}

// find returns the index of n in sizes, or where to insert it, and whether it is present.
func find(sizes []Size, n int) (at int, seen bool) {
	return slices.BinarySearchFunc(sizes, n, func(s Size, n int) int { return cmp.Compare(s.Replicas, n) })
}

// guide returns the nearest mature model within Reach, the lower rate of two; nil if there is none.
func (s *step) guide() *Reference {
	var best *Reference
	for i := range s.m.Models {
		r := &s.m.Models[i]
		d := math.Abs(r.ArrivalRate - s.lambda)
		if d < s.c.Reach && (best == nil || d < math.Abs(best.ArrivalRate-s.lambda)) && s.c.mature(r) {
			best = r
		}
	}
	if best != nil {
		best.Used = s.m.Evaluations
	}
	return best
}

// sample tries a number of replicas that the model has not seen: one below the lowest that kept the SLO. If that is
// known to be too few or is below Min, it tries the lowest unseen number above n_r; without gaps that is one above the
// greatest, as in the paper. If the limits allow too few numbers for a mature model, which the paper does not consider,
// it tries the greatest unseen number. It starts with the number by the queueing model if the model has no sizes, if
// all sizes are seen and none of them is steady, or if all sizes are far above that number, as after an overload. In
// the last case, the paper would go down by one at each evaluation.
func (s *step) sample() (Memory, law.Decision) {
	r := s.model
	if len(r.Sizes) == 0 || r.TooFew != nil && s.c.unseen(r) == 0 || s.far() {
		return s.restart()
	}
	n := r.Sizes[0].Replicas - 1
	if r.TooFew != nil && n <= *r.TooFew {
		n = s.above()
	}
	n = s.c.Clamp(n)
	return s.decide(n, s.inputFor(n), fmt.Sprintf("sampling at %.4g requests/s: %s known, %d needed", s.lambda, plural.Count(len(r.Sizes), "size"), s.c.MatureSizes))
}

// restart samples with the number by the queueing model, above the numbers that count as too few.
func (s *step) restart() (Memory, law.Decision) {
	r := s.model
	n, enough := s.c.Servers(s.lambda, s.slo)
	origin := "by the queueing model"
	if !enough {
		origin = "the maximum, which is too few by the queueing model"
	}
	if r.TooFew != nil && *r.TooFew >= n {
		n, origin = *r.TooFew+1, fmt.Sprintf("since %d %s as too few", *r.TooFew, plural.Form(*r.TooFew, "counts", "count"))
	}
	which := "first sample"
	if len(r.Sizes) > 0 {
		which = "sampling again from the beginning"
	}
	n = s.c.Clamp(n)
	return s.decide(n, s.inputFor(n), fmt.Sprintf("%s at %.4g requests/s: %s, %s", which, s.lambda, plural.Count(n, "replica"), origin))
}

// far reports whether all sizes of the model are so far above n_r and the number by the queueing model that sampling by
// one would take longer than two models take to become mature.
func (s *step) far() bool {
	n := s.c.Clamp(s.inverse(s.slo))
	return s.model.Sizes[0].Replicas-n > 2*s.c.MatureSizes && (s.model.TooFew == nil || n > *s.model.TooFew)
}

// above returns the number to sample if no lower one is left: the lowest unseen number above n_r, or, if the limits
// allow few, the greatest. There always is one.
func (s *step) above() int {
	if s.c.Max-max(*s.model.TooFew, s.c.Min-1) < s.c.MatureSizes {
		return s.c.unseen(s.model)
	}
	n := *s.model.TooFew + 1
	for _, size := range s.model.Sizes {
		if size.Replicas == n {
			n++
		}
	}
	return n
}

// stay keeps the desired number of replicas until the measurements are of that number.
func (s *step) stay() (Memory, law.Decision) {
	n := s.c.Clamp(s.o.Desired)
	return s.decide(n, s.inputFor(n), fmt.Sprintf("response time %.4g s may have been measured before %s Ready: keeping %d", s.o.ResponseTime, plural.Form(s.o.Ready, "1 replica was", fmt.Sprintf("%d replicas were", s.o.Ready)), n))
}
