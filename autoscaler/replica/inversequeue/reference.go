package inversequeue

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"supercargo.dev/supercargo/autoscaler/replica/law"
)

// find sets the reference model of this arrival rate, the nearest within Gap (the
// lower rate of two), or makes one. The memory that was given stays as it was: the
// list is a copy, and models are copied before they change.
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
	s.model.Used = s.m.Looks
	s.before = s.m.Previous == s.model.ArrivalRate
	s.m.Previous = s.model.ArrivalRate
}

// learn adds the sample (Ready, lambda, response time) to the model, if the last
// look was at the same model (the rate was steady) and every replica that the service
// is to have serves (the number was). It reports whether the sample is not
// used, see [step.late] and [step.early].
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

// lateLooks is how many looks measurements may lag behind the Ready replicas: rates over
// a window of one control interval, scraped once in it, lag up to two.
const lateLooks = 2

// observeReady remembers when the Ready replicas became more, and forgets it when they become
// fewer; and when they became fewer by so many that their response times have little in common.
func (s *step) observeReady() {
	switch {
	case s.m.Ready > 0 && s.o.Ready > s.m.Ready:
		s.m.Rose = s.m.Looks
	case s.o.Ready < s.m.Ready:
		s.m.Rose = 0
		if s.m.Ready-s.o.Ready > s.c.MatureSizes {
			s.m.Fell = s.m.Looks
		}
	}
	s.m.Ready = s.o.Ready
}

// late reports whether a broken SLO may be that of fewer replicas than are Ready now: the
// arrival rate is that of the last look, they became more within the last looks, and the
// queueing model says that so many keep the SLO. Such a sample does not raise n_r, since
// nothing would lower it again: the numbers below n_r are not tried. Where the rate has
// changed, the model agrees that they are too few, or their number fell or has stayed the
// same, the sample counts, as all do in the paper.
func (s *step) late() bool {
	return s.before && s.m.Rose > 0 && s.m.Looks-s.m.Rose < lateLooks && s.response(s.o.Ready) <= s.slo
}

// bound raises n_r to one below the least number that kept the SLO where that is below
// Min, or the queueing model calls it not stable: it is not tried, as the paper would, but
// counts as too few, at no request's expense.
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

// keep returns a copy of sizes with one more response time of n replicas, of
// which the last most are kept.
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

// means are the stable points: for each number of replicas the mean response
// time in seconds, without those further than Spread from the mean of all. They
// are sorted, the largest first.
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

// early reports whether an SLO that was kept may be that of far more replicas than are Ready
// now, since they became fewer within the last looks by more than a model needs sizes. Such
// response times would say that few replicas answer as quickly as many, and so make the
// largest of the stable means, which the controller steers to, those of many. Where they
// became fewer by less, the sample counts, as all do in the paper.
func (s *step) early() bool {
	return s.m.Fell > 0 && s.m.Looks-s.m.Fell < lateLooks
}

// mature reports whether the model can guide: its n_r is known, enough numbers of
// replicas were seen, there is a stable mean of the rank wanted, and the numbers that the
// ranks up to that are of adjoin n_r. The last the paper does not ask for: its sampling
// goes by one from a first sample near n_r. Here an overload leaves numbers far above
// n_r, whose response times are all alike: the integral controller would follow their
// noise, and keep the service large. Where the limits allow fewer numbers above
// n_r than that, which the paper does not consider either, all of them are enough.
func (c Config) mature(r *Reference) bool {
	if r.TooFew == nil {
		return false
	}
	means := len(r.means(c.Spread))
	return len(r.Sizes) >= c.MatureSizes && means >= c.Rank && c.adjoins(r) || means > 0 && c.unseen(r) == 0
}

// adjoins reports whether none was left out between n_r and the least numbers of replicas
// that kept the SLO, as many as Rank. [step.bound] has raised n_r to what is not tried.
func (c Config) adjoins(r *Reference) bool {
	for i, s := range r.Sizes[:min(c.Rank, len(r.Sizes))] {
		if s.Replicas > *r.TooFew+1+i {
			return false
		}
	}
	return true
}

// rank is that of the reference response time among the stable means of a model: Rank, or
// where the limits allow fewer than MatureSizes numbers above n_r as large a part of
// those, rounded up. The third largest of three means would always be that of Max.
func (c Config) rank(r *Reference) int {
	numbers := c.Max - max(*r.TooFew, c.Min-1)
	if numbers >= c.MatureSizes {
		return c.Rank
	}
	return max(1, (c.Rank*numbers+c.MatureSizes-1)/c.MatureSizes)
}

// unseen is the greatest number of replicas above n_r within the limits that the model
// has not seen keep the SLO; 0 if it has seen all.
func (c Config) unseen(r *Reference) int {
	for n := c.Max; n > *r.TooFew && n >= c.Min; n-- {
		if _, seen := find(r.Sizes, n); !seen {
			return n
		}
	}
	return 0
}

// find returns where among sizes a number of replicas is or would be, and whether it is.
func find(sizes []Size, n int) (at int, seen bool) {
	return slices.BinarySearchFunc(sizes, n, func(s Size, n int) int { return cmp.Compare(s.Replicas, n) })
}

// guide is the nearest mature model within Reach, the lower rate of two; nil if
// there is none.
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
		best.Used = s.m.Looks
	}
	return best
}

// sample tries a number of replicas that the model has not seen: one below the
// least that kept the SLO, or if that is known to be too few or below Min the first number
// above n_r that it has not seen: where none was left out that is one above the most, as
// in the paper. Where the limits allow too few numbers for a mature model, which the paper
// does not consider, it is the greatest that was left out. A model that has seen none starts
// where the queueing model keeps the SLO, as does one that has seen all and found none of
// them steady, and one that has seen only numbers far above that, as an overload leaves
// them: in the paper it would go down by one at each look.
func (s *step) sample() (Memory, law.Decision) {
	r := s.model
	if len(r.Sizes) == 0 || r.TooFew != nil && s.c.unseen(r) == 0 || s.far() {
		n := s.inverse(s.slo)
		if r.TooFew != nil {
			n = max(n, *r.TooFew+1)
		}
		n = s.c.Clamp(n)
		return s.decide(n, s.inputFor(n), fmt.Sprintf("first sample at %.4g requests/s: %d replicas by the queueing model", s.lambda, n))
	}
	n := r.Sizes[0].Replicas - 1
	if r.TooFew != nil && n <= *r.TooFew {
		n = s.above()
	}
	n = s.c.Clamp(n)
	return s.decide(n, s.inputFor(n), fmt.Sprintf("sampling at %.4g requests/s: %d of %d sizes known", s.lambda, len(r.Sizes), s.c.MatureSizes))
}

// far reports whether all numbers that the model has seen lie so far above n_r and what
// the queueing model says that sampling by one would take longer than two models take to
// become mature.
func (s *step) far() bool {
	n := s.c.Clamp(s.inverse(s.slo))
	return s.model.Sizes[0].Replicas-n > 2*s.c.MatureSizes && (s.model.TooFew == nil || n > *s.model.TooFew)
}

// above is the number to sample where none below those seen is left: the least that the
// model has not seen keep the SLO, or where the limits allow few the greatest. There is one.
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

// stay keeps the replicas there are until what is measured is of them.
func (s *step) stay() (Memory, law.Decision) {
	n := s.c.Clamp(s.o.Wanted)
	return s.decide(n, s.inputFor(n), fmt.Sprintf("response time %.4g s may be from before %d replicas were Ready: %d stay", s.o.ResponseTime, s.o.Ready, n))
}
