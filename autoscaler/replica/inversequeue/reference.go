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
// is to have serves (the number was).
func (s *step) learn() {
	if !s.before || !s.o.Settled() {
		return
	}
	n := s.o.Ready
	if s.o.ResponseTime > s.slo {
		s.tooFew(n)
		return
	}
	s.model.Sizes = keep(s.model.Sizes, n, micros(s.o.ResponseTime), s.c.Keep)
	if s.model.TooFew != nil && n <= *s.model.TooFew {
		less := n - 1
		s.model.TooFew = &less
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

// mature reports whether the model can guide: its n_r is known, enough numbers of
// replicas were seen, and there is a stable mean of the rank wanted. Where the limits
// allow fewer numbers above n_r than that, which the paper does not consider, all of
// them are enough.
func (c Config) mature(r *Reference) bool {
	if r.TooFew == nil {
		return false
	}
	means := len(r.means(c.Spread))
	return len(r.Sizes) >= c.MatureSizes && means >= c.Rank || means > 0 && c.unseen(r) == 0
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
// least that kept the SLO, or if that is known to be too few or below Min one above the
// most. Where that is above Max, which the paper does not know, it is the greatest
// that was left out. A model that has seen none starts where the queueing model keeps
// the SLO, as does one that has seen all and found none of them steady.
//
// A number that the queueing model calls not stable is not tried, as the paper
// would: it counts as too few, at no request's expense.
func (s *step) sample() (Memory, law.Decision) {
	r := s.model
	if len(r.Sizes) == 0 || r.TooFew != nil && s.c.unseen(r) == 0 {
		n := s.inverse(s.slo)
		if r.TooFew != nil {
			n = max(n, *r.TooFew+1)
		}
		n = s.c.Clamp(n)
		return s.decide(n, s.inputFor(n), fmt.Sprintf("first sample at %.4g requests/s: %d replicas by the queueing model", s.lambda, n))
	}
	least, greatest := r.Sizes[0].Replicas, r.Sizes[len(r.Sizes)-1].Replicas
	below := least - 1
	if r.TooFew == nil && below < max(s.stable, s.c.Min) {
		s.tooFew(below)
	}
	n := greatest + 1
	if r.TooFew == nil || below > *r.TooFew && below >= s.c.Min {
		n = below
	} else if n > s.c.Max {
		n = s.c.unseen(r)
	}
	n = s.c.Clamp(n)
	return s.decide(n, s.inputFor(n), fmt.Sprintf("sampling at %.4g requests/s: %d of %d sizes known", s.lambda, len(r.Sizes), s.c.MatureSizes))
}
