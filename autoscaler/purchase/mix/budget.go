package mix

import (
	"math"

	"supercargo.dev/supercargo/internal/packing"
)

// Budget is what may still be bought. The zero value is no limit.
type Budget struct {
	machines            int
	cpu, memory, dollar int64
	// each is, by offer, how many machines may be bought; nil means any number of all.
	each []int
	// tight reports that there is any limit.
	tight bool
}

// Limits bound the machines to buy; nil means no limit.
type Limits struct {
	Machines, MilliCPU, MemoryBytes, MicroDollarsPerHour *int64
}

// NewBudget returns the budget of limits.
func NewBudget(limits Limits) *Budget {
	b := &Budget{machines: math.MaxInt, cpu: math.MaxInt64, memory: math.MaxInt64, dollar: math.MaxInt64}
	limit := func(to *int64, most *int64) {
		if most != nil {
			*to, b.tight = max(0, *most), true
		}
	}
	limit(&b.cpu, limits.MilliCPU)
	limit(&b.memory, limits.MemoryBytes)
	limit(&b.dollar, limits.MicroDollarsPerHour)
	if limits.Machines != nil {
		b.machines, b.tight = int(max(0, *limits.Machines)), true
	}
	return b
}

// Limited reports whether there is any limit.
func (b *Budget) Limited() bool { return b.tight }

// of returns the budget with the maximum number of machines of each offer of a problem.
func (b *Budget) of(p *Problem) *Budget {
	c := b.Clone()
	for i := range p.offers {
		if p.offers[i].Most == nil {
			continue
		}
		if c.each == nil {
			c.each = make([]int, len(p.offers))
			for j := range c.each {
				c.each[j] = math.MaxInt
			}
		}
		c.each[i] = *p.offers[i].Most
		if !c.tight {
			c.tight, c.machines, c.cpu, c.memory, c.dollar = true, math.MaxInt, math.MaxInt64, math.MaxInt64, math.MaxInt64
		}
	}
	return c
}

// most returns the maximum number of machines.
func (b *Budget) most() int {
	if !b.tight {
		return math.MaxInt
	}
	return b.machines
}

// share returns the largest part of any limit that a machine takes, on the scale of offer.scaledPrice; at least 1.
func (b *Budget) share(o *offer) uint64 {
	const whole = 1 << priceBits
	taken := uint64(1)
	part := func(amount, most int64) {
		if most < math.MaxInt64 && most > 0 {
			taken = max(taken, portion(uint64(max(amount, 0)), uint64(most), whole))
		}
	}
	part(1, int64(b.machines))
	part(o.Size.MilliCPU, b.cpu)
	part(o.Size.MemoryBytes, b.memory)
	part(o.MicroDollarsPerHour, b.dollar)
	return taken
}

// machinesOnly reports whether the only limit is the total number of machines.
func (b *Budget) machinesOnly() bool {
	return !b.tight || b.each == nil && b.cpu == math.MaxInt64 && b.memory == math.MaxInt64 && b.dollar == math.MaxInt64
}

// Clone returns an independent copy.
func (b *Budget) Clone() *Budget {
	c := *b
	c.each = append([]int(nil), b.each...)
	return &c
}

// allows reports whether a machine of an offer may be bought.
func (b *Budget) allows(p *Problem, at int) bool {
	return !b.tight || b.Has(p.offers[at].Size, p.offers[at].MicroDollarsPerHour) && (b.each == nil || b.each[at] > 0)
}

// Has reports whether there is enough left for a machine of this size and price.
func (b *Budget) Has(size packing.Size, microDollarsPerHour int64) bool {
	return !b.tight || b.machines > 0 && size.MilliCPU <= b.cpu && size.MemoryBytes <= b.memory && microDollarsPerHour <= b.dollar
}

func (b *Budget) spend(p *Problem, at int) { b.change(p, at, 1) }

func (b *Budget) change(p *Problem, at, n int) {
	b.Pay(p.offers[at].Size, p.offers[at].MicroDollarsPerHour, n)
	if b.each != nil && b.each[at] < math.MaxInt {
		b.each[at] -= n
	}
}

// Pay subtracts n machines of this size and price.
func (b *Budget) Pay(size packing.Size, microDollarsPerHour int64, n int) {
	take := func(from *int64, amount int64) {
		if *from < math.MaxInt64 {
			*from -= int64(n) * amount
		}
	}
	if b.tight {
		if b.machines < math.MaxInt {
			b.machines -= n
		}
		take(&b.cpu, size.MilliCPU)
		take(&b.memory, size.MemoryBytes)
		take(&b.dollar, microDollarsPerHour)
	}
}

// covers reports whether all these machines may be bought.
func (b *Budget) covers(p *Problem, machines []machine) bool {
	if !b.tight {
		return true
	}
	left := b.Clone()
	for i := range machines {
		if !left.allows(p, machines[i].offer) {
			return false
		}
		left.spend(p, machines[i].offer)
	}
	return true
}

// swaps reports whether a bought machine of one offer may become one of another offer.
func (b *Budget) swaps(p *Problem, from, to int) bool {
	if !b.tight || from == to {
		return true
	}
	b.change(p, from, -1)
	defer b.spend(p, from)
	return b.allows(p, to)
}
