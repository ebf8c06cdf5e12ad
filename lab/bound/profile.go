package bound

import (
	"math"
	"math/big"
)

// maxPeriods is the number of billing periods that are counted as whole periods. A machine that
// exists for longer is treated as billed exactly.
const maxPeriods = 8

// forever is later than the end of any run.
const forever = math.MaxInt64

// arithmetic abstracts exact fractions, which make the bounds, and floating-point numbers, which
// find good profiles quickly.
type arithmetic[N any] struct {
	of                 func(*big.Rat) N
	whole              func(int64) N
	add, sub, mul, quo func(a, b N) N
	less               func(a, b N) bool
}

var exact = arithmetic[*big.Rat]{
	of:    func(x *big.Rat) *big.Rat { return x },
	whole: func(x int64) *big.Rat { return new(big.Rat).SetInt64(x) },
	add:   func(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) },
	sub:   func(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) },
	mul:   func(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) },
	quo:   func(a, b *big.Rat) *big.Rat { return new(big.Rat).Quo(a, b) },
	less:  func(a, b *big.Rat) bool { return a.Cmp(b) < 0 },
}

var quick = arithmetic[float64]{
	of:    func(x *big.Rat) float64 { f, _ := x.Float64(); return f },
	whole: func(x int64) float64 { return float64(x) },
	add:   func(a, b float64) float64 { return a + b },
	sub:   func(a, b float64) float64 { return a - b },
	mul:   func(a, b float64) float64 { return a * b },
	quo:   func(a, b float64) float64 { return a / b },
	less:  func(a, b float64) bool { return a < b },
}

// demand is what must be on machines, at given prices. A profile is a height for each stretch of
// the run; it multiplies the prices of that stretch.
type demand struct {
	// times are the starts of the stretches, the first at 0, and the end of the last. The run ends
	// no later.
	times []int64
	// fixed is the value of the services in each stretch at height 1. free is the value of the
	// batch work that arrives in it, which counts with the lowest height from there on.
	fixed, free []*big.Rat
	// missed is the maximum value of the time that services are without a machine. It counts with
	// the greatest height.
	missed *big.Rat
	// supplies are the initial machines. They are billed for at least the time least.
	supplies []supply
	least    int64
	// later returns the bound of an even profile for runs that end at end or later.
	later func(end int64) *big.Rat
}

// supply is the value of initial machines per unit of time at height 1, and their price.
type supply struct{ worth, price *big.Rat }

func (s supply) times(count int64) supply {
	by := new(big.Rat).SetInt64(count)
	return supply{worth: new(big.Rat).Mul(s.worth, by), price: new(big.Rat).Mul(s.price, by)}
}

// even returns the bound of the profile that is 1 throughout, whenever the run ends. With this
// profile no machine earns more than it costs, and an initial machine comes closest at the time for
// which it is billed in any case.
func (d demand) even() *big.Rat {
	sum := new(big.Rat).Neg(d.missed)
	for i := range d.fixed {
		sum.Add(sum, d.fixed[i])
		sum.Add(sum, d.free[i])
	}
	for _, s := range d.supplies {
		lost := new(big.Rat).Sub(s.price, s.worth)
		sum.Add(sum, lost.Mul(lost, new(big.Rat).SetInt64(d.least)))
	}
	return sum
}

// valuation computes the bound that a profile proves for a demand.
type valuation[N any] struct {
	arithmetic[N]
	// ready is the time from which pods can run on a bought machine, and lag the billed time before
	// that. least is the minimum billed time of an initial machine.
	ready, lag, period, least int64
	times                     []int64
	fixed, free               []N
	missed                    N
	supplies                  [][2]N // worth and price
}

func valuate[N any](how arithmetic[N], s *serving, d demand) *valuation[N] {
	v := &valuation[N]{
		arithmetic: how, ready: s.ready, lag: s.lag, period: s.period, least: d.least, times: d.times, missed: how.of(d.missed),
	}
	for i := range d.fixed {
		v.fixed, v.free = append(v.fixed, how.of(d.fixed[i])), append(v.free, how.of(d.free[i]))
	}
	for _, s := range d.supplies {
		v.supplies = append(v.supplies, [2]N{how.of(s.worth), how.of(s.price)})
	}
	return v
}

// course is a profile and its integral.
type course[N any] struct {
	heights []N
	areas   []N // integral up to each of the times
}

// bound returns the bound that a profile proves. If some machine would earn more than it costs, the
// whole profile is lowered until none does. Cost: O(k²) for k stretches.
func (v *valuation[N]) bound(heights []N) N {
	c := v.course(heights)
	if strain := v.strain(c); v.less(v.whole(1), strain) {
		lower := make([]N, len(heights))
		for i, h := range heights {
			lower[i] = v.quo(h, strain)
		}
		c = v.course(lower)
	}
	last := len(heights) - 1
	sum, least, most := v.whole(0), c.heights[last], c.heights[last]
	for i := last; i >= 0; i-- {
		h := c.heights[i]
		if v.less(h, least) {
			least = h
		}
		if v.less(most, h) {
			most = h
		}
		sum = v.add(sum, v.add(v.mul(h, v.fixed[i]), v.mul(least, v.free[i])))
	}
	sum = v.sub(sum, v.mul(most, v.missed))
	for _, s := range v.supplies {
		sum = v.sub(sum, v.gain(c, s[0], s[1]))
	}
	return sum
}

func (v *valuation[N]) course(heights []N) course[N] {
	c := course[N]{heights: heights, areas: []N{v.whole(0)}}
	for i, h := range heights {
		c.areas = append(c.areas, v.add(c.areas[i], v.mul(h, v.whole(v.times[i+1]-v.times[i]))))
	}
	return c
}

// area returns the integral of the profile up to a time.
func (v *valuation[N]) area(c course[N], to int64) N {
	i := 0
	for i+1 < len(c.heights) && v.times[i+1] < to {
		i++
	}
	return v.add(c.areas[i], v.mul(c.heights[i], v.whole(to-v.times[i])))
}

// strain returns the greatest ratio of the profile's integral over the usable time of a bought
// machine to its billed time.
//
// The ratio is greatest either for a window that fills whole billing periods and begins or ends at
// the edge of a stretch or, where periods do not count, for a window that begins and ends at edges:
// in between it is monotonic.
func (v *valuation[N]) strain(c course[N]) N {
	worst := v.whole(0)
	end := v.times[len(v.times)-1]
	edges := []int64{min(v.ready, end)}
	for _, t := range v.times {
		if t > v.ready {
			edges = append(edges, t)
		}
	}
	consider := func(from, to, paid int64) {
		ratio := v.quo(v.sub(v.area(c, to), v.area(c, from)), v.whole(paid))
		if v.less(worst, ratio) {
			worst = ratio
		}
	}
	counted := int64(0) // windows up to this length have been considered
	for k := int64(1); v.period > 0 && k <= maxPeriods && counted < end-edges[0]; k++ {
		paid := k * v.period
		length := min(paid-v.lag, end-edges[0])
		if length <= 0 {
			continue
		}
		counted = length
		for _, at := range edges {
			consider(at, at+min(length, end-at), paid)
			consider(max(at-length, edges[0]), at, paid)
		}
	}
	for i, from := range edges {
		for _, to := range edges[i+1:] {
			if to-from > counted {
				consider(from, to, max(to-from, to-from+v.lag)) // the sum may overflow if to is forever
			}
		}
	}
	return worst
}

// gain returns the maximum by which the earnings of initial machines, from the start to their
// release, can exceed their cost. It may be negative.
func (v *valuation[N]) gain(c course[N], worth, price N) N {
	end := v.times[len(v.times)-1]
	best := v.sub(v.whole(0), v.mul(price, v.whole(v.least)))
	consider := func(to, paid int64) {
		gain := v.sub(v.mul(worth, v.area(c, to)), v.mul(price, v.whole(max(paid, v.least))))
		if v.less(best, gain) {
			best = gain
		}
	}
	consider(min(v.least, end), v.least)
	counted := int64(0)
	for k := int64(1); v.period > 0 && k <= maxPeriods && counted < end; k++ {
		counted = min(k*v.period, end)
		consider(counted, k*v.period)
	}
	for _, to := range v.times {
		if to > counted {
			consider(to, to)
		}
	}
	return best
}

// climb returns the best profile that it finds, starting from an even profile and from one with
// peaks a billing period apart. Any profile that it returns proves a valid bound.
func climb(v *valuation[float64]) []float64 {
	n := len(v.times) - 1
	even := make([]float64, n)
	for i := range even {
		even[i] = 1
	}
	best := climbFrom(v, even)
	peaks, next := make([]float64, n), v.ready
	for i := range n - 1 {
		if v.times[i] >= next {
			peaks[i] = 1
			next = v.times[i] + v.period - v.lag
		}
	}
	if v.period-v.lag > v.times[1]-v.times[0] {
		if other := climbFrom(v, peaks); v.bound(other) > v.bound(best) {
			best = other
		}
	}
	return best
}

// climbFrom scales single stretches of a profile, and all stretches before or after each of the
// times, as long as the bound improves.
func climbFrom(v *valuation[float64], heights []float64) []float64 {
	n := len(heights)
	if strain := v.strain(v.course(heights)); strain > 0 && strain < 1 {
		raised := make([]float64, n)
		for i, h := range heights {
			raised[i] = h / strain
		}
		heights = raised
	}
	best := v.bound(heights)
	try := func(from, to int, factor float64) {
		changed := append([]float64(nil), heights...)
		for i := from; i < to; i++ {
			changed[i] = min(changed[i]*factor, maxHeight)
		}
		if found := v.bound(changed); found > best+math.Abs(best)*1e-9 {
			heights, best = changed, found
		}
	}
	for range maxSweeps {
		before := best
		for _, factor := range []float64{2, 0.5, 1.25, 0.8, 1.06, 0.94, 1.015, 0.985, 0} {
			for i := range n {
				try(i, i+1, factor)
				try(0, i, factor)
				try(i, n, factor)
			}
		}
		if best <= before+math.Abs(before)*1e-4 {
			break
		}
	}
	return heights
}

const (
	maxSweeps = 12
	maxHeight = 1 << 20
)

// fractions returns the heights as exact numbers, slightly raised. A profile that should be as high
// as possible is then lowered exactly to the limit.
func fractions(heights []float64) []*big.Rat {
	all := make([]*big.Rat, len(heights))
	for i, h := range heights {
		all[i] = new(big.Rat).SetFloat64(h * (1 + 1e-12))
	}
	return all
}
