package planner

import "math/bits"

// prices are what CPU, memory and places for pods are worth: such that no
// machine full of pods is worth more than it costs. What pods are worth at such
// prices is then no more than any machines that hold them cost.
type prices struct {
	weights [3]uint64
	// price over capacity is the least that an offer costs for a weighted unit.
	price, capacity uint64
}

// of returns what amounts are worth, rounded down.
func (p prices) of(amounts [3]uint64) uint64 {
	if p.capacity == 0 {
		return 0
	}
	// No pod is worth more than 1<<priceBits, so the quotient fits.
	high, low := bits.Mul64(weigh(p.weights, amounts), p.price)
	q, _ := bits.Div64(high, low, p.capacity)
	return q
}

func weigh(weights, amounts [3]uint64) uint64 {
	return weights[0]*amounts[0] + weights[1]*amounts[1] + weights[2]*amounts[2]
}

// setWorth gives each kind its worth, at the prices at which all pods together are
// worth the most, of those with weights on a grid: coarse for three resources,
// fine for CPU and memory alone.
func (p *problem) setWorth() {
	const parts, coarse = 64, 8
	slot := uint64(1<<unitBits) / uint64(max(p.total, 1))
	var demand [3]uint64
	for _, k := range p.kinds {
		n := k.time * uint64(len(k.pods))
		demand[0] += k.cpu * n >> timeBits
		demand[1] += k.memory * n >> timeBits
		demand[2] += slot * n >> timeBits
	}
	var best prices
	try := func(weights [3]uint64) {
		if now := p.highest(weights); now.of(demand) > best.of(demand) {
			best = now
		}
	}
	for cpu := uint64(0); cpu <= parts; cpu++ {
		try([3]uint64{cpu, parts - cpu, 0})
		for memory := uint64(0); cpu%coarse == 0 && cpu+memory < parts; memory += coarse {
			try([3]uint64{cpu, memory, parts - cpu - memory})
		}
	}
	for i := range p.kinds {
		p.kinds[i].worth = best.of([3]uint64{p.kinds[i].cpu, p.kinds[i].memory, slot})
	}
}

// highest returns the highest prices in the ratio of the weights.
func (p *problem) highest(weights [3]uint64) prices {
	var found prices
	for i := range p.offers {
		o := &p.offers[i]
		capacity := weigh(weights, [3]uint64{o.cpu, o.memory, o.slots})
		if found.capacity == 0 || o.about*found.capacity < found.price*capacity {
			found = prices{weights, o.about, capacity}
		}
	}
	return found
}
