// Package score weighs the energy that a pod would use on each node against its speed there, as HEATS does (Rocha et
// al., PDP 2019, algorithm 1, lines 16 to 22).
//
// Nodes with the same machine type, idleness, governor and price share one [Option], so there are few options however
// many nodes there are. The scheduler's plugin, the simulator and `supercargo explain` call the same functions.
package score

import (
	"math"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/tariff"
)

const (
	// Best is the maximum score.
	Best = 100
	// Neutral is the score of all nodes if nothing is known about any of them.
	Neutral = 50
	// least is the minimum score of a known node, so that an unknown node can always score less than the best.
	least = 1
)

// Option is the predicted energy and runtime of a pod on a kind of node.
type Option struct {
	// Known is false for a machine type without a valid profile. The other fields are then ignored.
	Known bool
	// Energy is in joules, without idle power, Runtime in seconds.
	Energy, Runtime profile.Prediction
	// Waking is the power that the pod would keep drawn: the idle power of a machine without other work that could be
	// switched off, else 0.
	Waking energy.Watts
	// Price is the price of a kWh at the node.
	Price tariff.Price
	// Before is the energy that the pod uses elsewhere before it runs here, and BeforePrice the price of a kWh there.
	// For a pod that moves, that is the machine that it leaves.
	Before      energy.Joules
	BeforePrice tariff.Price
}

// Predict returns the option of a pod of the given size on a machine that runs under a CPU governor. It uses the models
// for that governor, else, with a doubt, those for the nearest one. A nil machine or an empty governor is unknown. idle
// means that the machine has no other work, and that this counts.
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

// isAmount reports whether a prediction is positive and finite. An invalid score would make the scheduler reject the
// pod, so a machine with an invalid prediction counts as unknown.
func isAmount(v float64) bool { return v > 0 && v <= math.MaxFloat64 }

// Joules returns the marginal energy of the pod: its own energy, that of keeping the machine awake, and Before. The
// first two are for the same amount of work, so their ratio between machine types does not depend on the amount.
func (o Option) Joules() energy.Joules { return o.here() + o.Before }

// here returns the energy that the pod uses on the node itself.
func (o *Option) here() energy.Joules {
	return energy.Joules(o.Energy.Value + float64(o.Waking)*o.Runtime.Value)
}

// Cost returns the cost of the marginal energy, and false if one of its prices is unknown.
func (o Option) Cost() (cost float64, known bool) {
	if !o.Price.Known || o.Before != 0 && !o.BeforePrice.Known {
		return 0, false
	}
	return o.Price.Of(o.here()) + o.BeforePrice.Of(o.Before), true
}

// trusts returns the trust in the two terms of the score. The energy of Waking also depends on the runtime.
func (o *Option) trusts() (joules, rate float64) {
	switch {
	case !o.Known:
		return 0, 0
	case o.Waking > 0:
		return min(o.Energy.Trust, o.Runtime.Trust), o.Runtime.Trust
	}
	return o.Energy.Trust, o.Runtime.Trust
}

// Result is an option's score and its terms.
type Result struct {
	// Score is from 0 to [Best].
	Score int64
	// Energy and Rate are the terms 1 - E/Emax and P/Pmax, in [0, 1], moved towards neutral by their lack of trust.
	Energy, Rate float64
	// Neutral is true if nothing is known or trusted.
	Neutral bool
}

// Rank scores the options relative to each other by
//
//	h·(1 - E/Emax) + (1 - h)·(P/Pmax)
//
// with E the marginal energy, P = 1/runtime, and the maxima over the options that are trusted at all. If prices are
// known, E is the cost of that energy: see [rates]. Each term is moved towards the trust-weighted mean of that term in
// proportion to its lack of trust. The value in [0, 1] is mapped to an integer score from 1 to 100.
//
// An option that is unknown, or not trusted in any term that h weighs, gets the means of both terms, but less than the
// best of the others: an unknown option is never the best. If none is known, all get [Neutral].
//
// h is in [0, 1]; results must be as long as options and is overwritten. Ties get equal scores. Cost: four passes, no
// allocation.
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

// mean returns the mean of a weighted sum, or the middle of the range if the weight is 0.
func mean(sum, weight float64) float64 {
	if weight > 0 {
		return sum / weight
	}
	return 0.5
}
