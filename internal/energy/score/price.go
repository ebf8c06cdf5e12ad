package score

import (
	"math"
	"time"

	"supercargo.dev/supercargo/internal/energy/tariff"
)

// Prices tell what a kWh costs in a zone at a time, in dollars or grams of CO2, the same
// everywhere. They are safe for concurrent use.
type Prices interface {
	At(zone string, at time.Time) tariff.Price
}

// leastShare is the least that a joule counts somewhere, as a share of the most that it
// counts anywhere. Where energy is free, or its price below 0, less of it is still better;
// and a cost is above 0, as the score needs it.
const leastShare = 0.01

// rates say what a joule counts where: its price as a share of the highest one, but at least
// [leastShare]; where the price is not known, the mean of the others. If none is known or
// above 0 a joule counts the same everywhere. Only ratios matter, so the unit does not.
type rates struct {
	highest float64 // per kWh; 0 when prices do not count
	mean    float64 // share, of the options with a price
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

// priced reports whether the option's price counts for others.
func (o *Option) priced() bool {
	joules, _ := o.trusts()
	return joules > 0 && isPrice(o.Price)
}

// isPrice reports whether a price is one. Tariffs have finite ones only; others may not.
func isPrice(p tariff.Price) bool {
	return p.Known && !math.IsNaN(p.PerKWh) && !math.IsInf(p.PerKWh, 0)
}

// of returns what a joule counts at a price.
func (r rates) of(p tariff.Price) float64 {
	switch {
	case r.highest == 0:
		return 1
	case !isPrice(p):
		return r.mean
	}
	return max(leastShare, min(p.PerKWh/r.highest, 1))
}

// cost is what the option's joules count.
func (r rates) cost(o *Option) float64 {
	cost := float64(o.here()) * r.of(o.Price)
	if o.Before != 0 {
		cost += float64(o.Before) * r.of(o.BeforePrice)
	}
	return cost
}
