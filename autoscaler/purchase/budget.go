package purchase

import (
	"math"

	"supercargo.dev/supercargo/internal/cluster"
)

// budget is what may still be bought. The zero value is no limit.
type budget struct {
	machines            int
	cpu, memory, dollar int64
	// each is, by offer, how many machines may be bought; nil means any number of all.
	each []int
	// tight reports that there is any limit.
	tight bool
}

// newBudget returns the budget of limits.
func newBudget(limits cluster.Limits, options MixOptions) *budget {
	b := &budget{machines: math.MaxInt, cpu: math.MaxInt64, memory: math.MaxInt64, dollar: math.MaxInt64}
	limit := func(to *int64, most *int64) {
		if most != nil {
			*to, b.tight = max(0, *most), true
		}
	}
	limit(&b.cpu, limits.MilliCPU)
	limit(&b.memory, limits.MemoryBytes)
	limit(&b.dollar, limits.MicroDollarsPerHour)
	if most := machinesOf(limits, options); most != nil {
		b.machines, b.tight = int(max(0, *most)), true
	}
	return b
}

// machinesOf returns the maximum number of machines; nil means any number.
func machinesOf(limits cluster.Limits, options MixOptions) *int64 {
	if options.MaxMachines > 0 {
		limits = limits.And(cluster.Limits{Machines: new(int64(options.MaxMachines))})
	}
	return limits.Machines
}

// of returns the budget with the maximum number of machines of each offer of a problem.
func (b *budget) of(p *problem) *budget {
	c := b.clone()
	for i := range p.offers {
		if p.offers[i].Most == nil { // flavors that are sold out are no offers
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
func (b *budget) most() int {
	if !b.tight {
		return math.MaxInt
	}
	return b.machines
}

// share returns the largest part of any limit that a machine takes, on the scale of offer.scaledPrice; at least 1.
func (b *budget) share(o *offer) uint64 {
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
func (b *budget) machinesOnly() bool {
	return !b.tight || b.each == nil && b.cpu == math.MaxInt64 && b.memory == math.MaxInt64 && b.dollar == math.MaxInt64
}

func (b *budget) clone() *budget {
	c := *b
	c.each = append([]int(nil), b.each...)
	return &c
}

// allows reports whether a machine of an offer may be bought.
func (b *budget) allows(p *problem, at int) bool {
	return !b.tight || b.has(&p.offers[at].Flavor) && (b.each == nil || b.each[at] > 0)
}

// has reports whether there is enough left for a machine of a flavor.
func (b *budget) has(f *Flavor) bool {
	return !b.tight || b.machines > 0 && f.Size.MilliCPU <= b.cpu && f.Size.MemoryBytes <= b.memory && f.MicroDollarsPerHour <= b.dollar
}

func (b *budget) spend(p *problem, at int) { b.change(p, at, 1) }

func (b *budget) change(p *problem, at, n int) {
	b.pay(&p.offers[at].Flavor, n)
	if b.each != nil && b.each[at] < math.MaxInt {
		b.each[at] -= n
	}
}

// pay subtracts n machines of a flavor.
func (b *budget) pay(f *Flavor, n int) {
	take := func(from *int64, amount int64) {
		if *from < math.MaxInt64 {
			*from -= int64(n) * amount
		}
	}
	if b.tight {
		if b.machines < math.MaxInt {
			b.machines -= n
		}
		take(&b.cpu, f.Size.MilliCPU)
		take(&b.memory, f.Size.MemoryBytes)
		take(&b.dollar, f.MicroDollarsPerHour)
	}
}

// covers reports whether all these machines may be bought.
func (b *budget) covers(p *problem, machines []machine) bool {
	if !b.tight {
		return true
	}
	left := b.clone()
	for i := range machines {
		if !left.allows(p, machines[i].offer) {
			return false
		}
		left.spend(p, machines[i].offer)
	}
	return true
}

// swaps reports whether a bought machine of one offer may become one of another offer.
func (b *budget) swaps(p *problem, from, to int) bool {
	if !b.tight || from == to {
		return true
	}
	b.change(p, from, -1)
	defer b.spend(p, from)
	return b.allows(p, to)
}
