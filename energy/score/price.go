package score

import (
	"math"
	"time"

	"supercargo.dev/supercargo/energy/tariff"
)

// Prices provides the price of a kWh in a zone at a time, in dollars or grams of CO2, with the same unit everywhere. It
// must be safe for concurrent use.
type Prices interface {
	At(zone string, at time.Time) tariff.Price
}

// leastShare is the minimum rate of a joule, as a share of the maximum rate. Where energy is free or its price
// negative, using less is therefore still better, and costs are positive, as the score requires.
const leastShare = 0.01

// rates convert energy to cost. The rate of a joule is its price as a share of the highest one, but at least
// [leastShare]; if the price is unknown, it is the mean of the others. If no price is known or positive, all rates are
// 1. Only ratios matter, so the unit does not.
type rates struct {
	highest float64 // per kWh; 0 if prices do not count
	mean    float64 // mean share of the options with a price
}

// ratesOf returns the rates among options whose energy is trusted at all.
func ratesOf(options []Option) (r rates) {
	for i := range options {
		if options[i].priced() {
			r.highest = max(r.highest, options[i].Price.PerKWh)
		}
	}
	if r.highest == 0 {
		return r
	}
	priced := 0
	for i := range options {
		if options[i].priced() {
			r.mean += r.of(options[i].Price)
			priced++
		}
	}
	r.mean /= float64(priced)
	return r
}

// priced reports whether the option's price is used for the rates.
func (o *Option) priced() bool {
	joules, _ := o.trusts()
	return joules > 0 && isPrice(o.Price)
}

// isPrice reports whether a price is known and finite. Tariffs only have finite prices; other sources may not.
func isPrice(p tariff.Price) bool {
	return p.Known && !math.IsNaN(p.PerKWh) && !math.IsInf(p.PerKWh, 0)
}

// of returns the rate of a joule at a price.
func (r rates) of(p tariff.Price) float64 {
	switch {
	case r.highest == 0:
		return 1
	case !isPrice(p):
		return r.mean
	}
	return max(leastShare, min(p.PerKWh/r.highest, 1))
}

// cost returns the cost of the option's energy.
func (r rates) cost(o *Option) float64 {
	cost := float64(o.here()) * r.of(o.Price)
	if o.Before != 0 {
		cost += float64(o.Before) * r.of(o.BeforePrice)
	}
	return cost
}
