// Package score weighs the energy that a pod would take on each node against how fast it
// would run there, as HEATS does (Rocha et al., PDP 2019, algorithm 1, lines 16 to 22).
//
// Nodes of one machine type that are alike in whether they are idle are one [Option]: there
// are few of these, however many nodes there are. The scheduler's plugin, the simulator and
// `supercargo explain` call the same functions.
package score

import (
	"math"
	"time"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/profile"
	"supercargo.dev/supercargo/internal/energy/tariff"
)

const (
	// Best is the greatest score.
	Best = 100
	// Neutral is the score of all nodes where nothing is known of any.
	Neutral = 50
	// least is the lowest score of a node about which something is known, so that there
	// is always room for one about which nothing is below the best.
	least = 1
)

// Option is what a pod would take on a node.
type Option struct {
	// Known is false for a machine type without a sound profile; the rest is not looked at.
	Known bool
	// Energy is in joules, without idle power, Runtime in seconds.
	Energy, Runtime profile.Prediction
	// Waking is the power that the pod would keep drawn by being there: the idle power of
	// a machine that does nothing else and could be switched off, else 0.
	Waking energy.Watts
	// Price is what a kWh costs where the node is.
	Price tariff.Price
	// Before is the energy that the pod takes elsewhere before it is here, BeforePrice what a
	// kWh costs there: of a pod that moves, that of the machine it leaves.
	Before      energy.Joules
	BeforePrice tariff.Price
}

// Predict returns the option of a pod of the given size on a machine that runs under a
// CPU governor: by the models for that, else, with a doubt, by those for the nearest. A nil
// machine or an empty governor is not known. idle says that the machine does nothing else,
// and that this counts.
func Predict(m *profile.Machine, governor string, size profile.Size, idle bool, now time.Time) Option {
	if m == nil {
		return Option{}
	}
	age := m.Age(now)
	p, exact := m.Under(governor)
	o := Option{Known: true, Energy: p.Energy.Predict(size, age), Runtime: p.Runtime.Predict(size, age)}
	if !exact {
		o.Energy, o.Runtime = o.Energy.Doubted(), o.Runtime.Doubted()
	}
	if idle {
		o.Waking = m.Power.Idle
	}
	if !isAmount(float64(o.Joules())) || !isAmount(o.Runtime.Value) {
		return Option{}
	}
	return o
}

// isAmount reports whether a prediction can be one. Those of sound profiles can; a score that
// is none would have the pod rejected, so a machine whose cannot is not known.
func isAmount(v float64) bool { return v > 0 && v <= math.MaxFloat64 }

// Joules returns the marginal energy of the pod: its own, and what the machine draws
// because it is kept awake for it, and what it took before. The first two are of the same
// piece of work, so their ratio between machine types does not depend on how much work there
// is.
func (o Option) Joules() energy.Joules { return o.here() + o.Before }

// here is the energy that the pod takes on the node itself.
func (o *Option) here() energy.Joules {
	return energy.Joules(o.Energy.Value + float64(o.Waking)*o.Runtime.Value)
}

// Cost returns what the marginal energy costs, and false if a price for it is not known.
func (o Option) Cost() (cost float64, known bool) {
	if !o.Price.Known || o.Before != 0 && !o.BeforePrice.Known {
		return 0, false
	}
	return o.Price.Of(o.here()) + o.BeforePrice.Of(o.Before), true
}

// trusts returns how far to trust the two terms of the score. Waking counts by how long.
func (o *Option) trusts() (joules, rate float64) {
	switch {
	case !o.Known:
		return 0, 0
	case o.Waking > 0:
		return min(o.Energy.Trust, o.Runtime.Trust), o.Runtime.Trust
	}
	return o.Energy.Trust, o.Runtime.Trust
}

// Result is an option's score and how it came about.
type Result struct {
	// Score is from 0 to [Best].
	Score int64
	// Energy and Rate are the terms 1 - E/Emax and P/Pmax, moved towards neutral by what
	// they are not trusted: in [0, 1].
	Energy, Rate float64
	// Neutral is true when nothing is known, or nothing to be trusted.
	Neutral bool
}

// Rank scores the options among each other by
//
//	h·(1 - E/Emax) + (1 - h)·(P/Pmax)
//
// with E the marginal energy, P = 1/runtime, and the maxima over the options that are
// trusted at all. Where prices are known, E is what that energy costs: see [rates]. Each term is moved towards the mean of that term, weighted by trust, by
// the part to which it is not trusted. What is in [0, 1] becomes a whole score from 1 to
// 100.
//
// An option that is not known, or not trusted in anything that h counts, gets the mean of
// both terms, and less than the best of the others: the unknown is never the best. Where
// none is known all get [Neutral].
//
// h is in [0, 1]; results is as long as options and is overwritten. Ties are equal scores.
// Cost: four passes, without allocation.
func Rank(h float64, options []Option, results []Result) {
	var mostCost, leastSeconds = 0.0, math.Inf(1)
	prices := ratesOf(options)
	for i := range options {
		o := &options[i]
		joules, rate := o.trusts()
		if joules > 0 {
			mostCost = max(mostCost, prices.cost(o))
		}
		if rate > 0 {
			leastSeconds = min(leastSeconds, o.Runtime.Value)
		}
	}
	var means, sums struct{ energy, rate float64 }
	for i := range options {
		o := &options[i]
		joules, rate := o.trusts()
		results[i] = Result{Neutral: !(h*joules+(1-h)*rate > 0)}
		if joules > 0 {
			results[i].Energy = 1 - prices.cost(o)/mostCost
			means.energy, sums.energy = means.energy+joules*results[i].Energy, sums.energy+joules
		}
		if rate > 0 {
			results[i].Rate = leastSeconds / o.Runtime.Value
			means.rate, sums.rate = means.rate+rate*results[i].Rate, sums.rate+rate
		}
	}
	means.energy, means.rate = mean(means.energy, sums.energy), mean(means.rate, sums.rate)
	best, known := int64(0), false
	for i := range options {
		r := &results[i]
		joules, rate := options[i].trusts()
		r.Energy = means.energy + joules*(r.Energy-means.energy)
		r.Rate = means.rate + rate*(r.Rate-means.rate)
		r.Score = least + int64(math.Round((Best-least)*(h*r.Energy+(1-h)*r.Rate)))
		if !r.Neutral {
			best, known = max(best, r.Score), true
		}
	}
	for i := range results[:len(options)] {
		switch r := &results[i]; {
		case !known:
			r.Score = Neutral
		case r.Neutral:
			r.Score = min(r.Score, best-1)
		}
	}
}

// mean returns the mean of a weighted sum, and the middle of the range when nothing has
// weight.
func mean(sum, weight float64) float64 {
	if weight > 0 {
		return sum / weight
	}
	return 0.5
}
