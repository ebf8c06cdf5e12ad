package mix

import (
	"cmp"
	"math"
	"slices"

	"supercargo.dev/supercargo/internal/packing"
)

// machine is a machine of a mix under construction.
type machine struct {
	offer int
	kinds []int32 // one for each item; not changed after construction
	used  packing.Size
	on    int32 // the set of offers that admit its items
	paid  uint64
	// time is paid in the units of scaled; worth is the sum of worth times time of the items.
	time, worth uint64
}

// compareMachines orders machines: longest billed first, then by offer, then by kinds.
func compareMachines(a, b machine) int {
	return cmp.Or(cmp.Compare(b.paid, a.paid), cmp.Compare(a.offer, b.offer), slices.Compare(a.kinds, b.kinds))
}

func (p *Problem) add(m *machine, at int32) {
	k := &p.kinds[at]
	m.kinds = append(m.kinds, at)
	m.used.MilliCPU += k.size.MilliCPU
	m.used.MemoryBytes += k.size.MemoryBytes
	if p.asksExtended {
		m.used.Extended = m.used.Extended.Plus(k.size.Extended)
	}
	if m.used.MilliCPU < 0 || m.used.MemoryBytes < 0 { // overflow
		m.used = packing.Size{MilliCPU: math.MaxInt64, MemoryBytes: math.MaxInt64}
		m.on = p.number(p.make(func(int) bool { return false }))
	}
	m.worth += k.worth * k.time
	m.on = p.meet(m.on, k.on)
	if k.paid > m.paid {
		m.paid, m.time = k.paid, k.time
	}
}

// newMachine returns a machine of the first offer that holds items of the kinds; its offer is the number of offers if
// there is none.
func (p *Problem) newMachine(kinds []int32) machine {
	m := machine{offer: len(p.offers), on: anyOffer}
	for _, at := range kinds {
		p.add(&m, at)
	}
	p.downsize(&m)
	return m
}

// downsize gives a machine the first offer that holds its items, if that is before its own.
func (p *Problem) downsize(m *machine) {
	for i := range p.offers[:m.offer] {
		if p.holds(i, &m.used, m.on, int64(len(m.kinds))) {
			m.offer = i
			return
		}
	}
}

func (p *Problem) bill(m *machine) bill { return newBill(p.offers[m.offer].price, m.paid) }

// scaledBill is bill on the scale of offer.scaledPrice times scaled.time.
func (p *Problem) scaledBill(m *machine) uint64 { return p.offers[m.offer].scaledPrice * m.time }

// heuristic are the parameters of a construction. Any values make a valid mix.
type heuristic struct {
	// window is the number of fitting items, longest first, that are compared before the best is taken.
	window int
	// timePenalty is the penalty of items that are shorter than the machine's longest: the ratio of the times is squared
	// timePenalty-1 times; 0 means no penalty.
	timePenalty int
	// balanced prefers items that take most of the resource that is most free; otherwise all free room counts alike.
	balanced bool
	// noise is the number of random bits in the choice of items.
	noise uint
	// noisyOffers makes offers randomly look up to twice as good.
	noisyOffers bool
	// offers are tried first; if none holds an item, all are.
	offers []int
	// goal is the criterion for offers.
	goal goal
}

type goal int

const (
	worthPerPrice goal = iota
	worthPerMachine
	// itemsPerMachine also takes small items first.
	itemsPerMachine
)

// builder constructs mixes. It is not safe for concurrent use.
type builder struct {
	p *Problem
	// left is the number of items of each kind without a machine.
	left  []int32
	taken []int32  // by kind, while one machine is filled
	noisy []uint64 // by kind: the random factor
	live  []int32  // kinds with items left, in their order
	fits  []int32
	// trial and chosen are the items of the machine being filled and of the best one so far; store holds those of
	// finished machines.
	trial, chosen, store []int32
	// steps counts the work.
	steps int
	random
}

func newBuilder(p *Problem) *builder {
	n := len(p.kinds)
	return &builder{p: p, left: make([]int32, n), taken: make([]int32, n), noisy: make([]uint64, n)}
}

// build makes at most most machines for the items left of the kinds, which must be in order. It stops and returns false
// once the machines will cost the limit or more. The result is valid until the next call; left holds the items without a
// machine.
func (b *builder) build(kinds []int32, t heuristic, limit uint64, most int, made []machine) ([]machine, bool) {
	b.store = b.store[:0]
	b.live = append(b.live[:0], kinds...)
	var remaining, spent uint64
	for _, at := range kinds {
		k := &b.p.kinds[at]
		remaining += k.worth * k.time * uint64(b.left[at])
		b.noisy[at] = 64
		if t.noise > 0 {
			b.noisy[at] += b.draw() >> (64 - t.noise)
		}
	}
	for len(b.live) > 0 && most > 0 {
		if spent+remaining >= limit {
			return made, false
		}
		m := b.best(b.seed(t), t)
		for copies := min(int(b.copies()), most); copies > 0; copies-- {
			start := len(b.store)
			b.store = append(b.store, b.chosen...)
			m.kinds = b.store[start:len(b.store):len(b.store)]
			made = append(made, m)
			spent += b.p.scaledBill(&m)
			remaining -= m.worth
			most--
			for _, at := range m.kinds {
				b.left[at]--
			}
		}
		b.live = slices.DeleteFunc(b.live, func(at int32) bool { return b.left[at] == 0 })
	}
	return made, spent < limit
}

// copies returns how many machines with the chosen items can be made.
func (b *builder) copies() int32 {
	most := int32(math.MaxInt32)
	for _, at := range b.chosen {
		b.taken[at]++
	}
	for _, at := range b.chosen {
		most = min(most, b.left[at]/b.taken[at])
	}
	for _, at := range b.chosen {
		b.taken[at] = 0
	}
	return most
}

// seed returns the item that the next machine must take: of the longest, the one worth the most or, if items are counted,
// the one worth the least of all.
func (b *builder) seed(t heuristic) int32 {
	seed := b.live[0]
	longest, top := b.p.kinds[seed].paid, uint64(0)
	for _, at := range b.live {
		k := &b.p.kinds[at]
		value := (k.worth + 1) * b.noisy[at]
		if t.goal == itemsPerMachine {
			value = math.MaxUint64 - value
		} else if k.paid < longest {
			break
		}
		b.steps++
		if value > top {
			seed, top = at, value
		}
	}
	return seed
}

// best returns the best machine for the seed, with its items in chosen.
func (b *builder) best(seed int32, t heuristic) machine {
	found := machine{offer: -1}
	var foundValue, foundPrice uint64
	for _, offers := range [][]int{t.offers, b.p.all} {
		for _, at := range offers {
			if !b.p.holds(at, &b.p.kinds[seed].size, b.p.kinds[seed].on, 1) {
				continue
			}
			m := b.fill(at, seed, t)
			// The number of items counts if they are worth nothing.
			value, price := m.worth/m.time+uint64(len(m.kinds)), b.p.offers[m.offer].scaledPrice
			switch t.goal {
			case worthPerPrice:
			case worthPerMachine:
				price = 1
			case itemsPerMachine:
				value, price = uint64(len(m.kinds)), 1
			}
			if t.noisyOffers {
				value += value >> 3 * (b.draw() >> 61)
			}
			if found.offer < 0 || value*foundPrice > foundValue*price || value*foundPrice == foundValue*price && m.offer < found.offer {
				found, foundValue, foundPrice = m, value, price
				b.chosen = append(b.chosen[:0], m.kinds...)
			}
		}
		if found.offer >= 0 {
			break
		}
	}
	return found
}

// fill packs one machine, the seed first. Its items are valid until the next call.
func (b *builder) fill(at int, seed int32, t heuristic) machine {
	o := &b.p.offers[at]
	m := machine{offer: at, on: anyOffer, kinds: b.trial[:0]}
	cpu, memory := o.cpu, o.memory
	b.fits = append(b.fits[:0], b.live...)
	for next := seed; next >= 0; next = b.next(&m, o, [2]uint64{cpu, memory}, t) {
		k := &b.p.kinds[next]
		b.p.add(&m, next)
		b.taken[next]++
		cpu, memory = cpu-min(cpu, k.cpu), memory-min(memory, k.memory)
	}
	for _, k := range m.kinds {
		b.taken[k] = 0
	}
	b.trial = m.kinds
	b.p.downsize(&m)
	return m
}

// next returns the kind that the machine takes next, or -1. It drops from fits what no longer fits.
func (b *builder) next(m *machine, o *offer, free [2]uint64, t heuristic) int32 {
	if int64(len(m.kinds)) >= o.places {
		return -1
	}
	room := o.Size.Minus(m.used)
	cpuWeight, memoryWeight := uint64(1<<40)/o.cpu, uint64(1<<40)/o.memory
	if t.balanced {
		cpuWeight, memoryWeight = free[0]<<40/(o.cpu*o.cpu), free[1]<<40/(o.memory*o.memory)
	}
	best, top := int32(-1), uint64(0)
	kept, fitting, seen := 0, 0, 0
	for _, at := range b.fits {
		if fitting == t.window {
			break
		}
		seen++
		k := &b.p.kinds[at]
		if !b.p.fits(&k.size, &room) || b.taken[at] == b.left[at] || !b.p.has(k.on, m.offer) || b.p.cliques > 0 && !b.p.joins(at, m.kinds) {
			continue
		}
		b.fits[kept] = at
		kept++
		fitting++
		value := (k.cpu*cpuWeight + k.memory*memoryWeight) >> 24 * b.noisy[at]
		if t.timePenalty > 0 && k.time < m.time {
			value = value >> 8 * decay(k.time, m.time, t.timePenalty) >> 8
		}
		if t.goal == itemsPerMachine {
			value = math.MaxUint64 - value*k.time
		}
		if best < 0 || value > top {
			best, top = at, value
		}
	}
	b.steps += seen
	b.fits = append(b.fits[:kept], b.fits[seen:]...)
	return best
}

// decay returns time as a part of longest in 1/1<<16, squared times-1 times.
func decay(time, longest uint64, times int) uint64 {
	f := time << 16 / longest
	for range times - 1 {
		f = f * f >> 16
	}
	return f
}

// random is a fixed sequence of numbers (SplitMix64), equal in all runs.
type random struct{ state uint64 }

func (c *random) draw() uint64 {
	c.state += 0x9e3779b97f4a7c15
	z := c.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// intN returns a number from 0 to n-1.
func (c *random) intN(n int) int { return int((c.draw() >> 32) * uint64(n) >> 32) }
