package planner

import (
	"cmp"
	"math"
	"slices"
)

// knapsack finds pods for one machine that are worth the most together, by
// branch and bound. It looks at no more than so many branches, so the answer need
// not be the best.
type knapsack struct {
	items []item
	whole amounts
	// cpu is the weight of CPU, the rest to 1 that of memory.
	cpu    float64
	counts []int32
	// best and bestValue are the best counts so far.
	best      []int32
	bestValue float64
	// steps counts the work of all calls; this one stops at limit.
	steps, limit int
}

// item is a kind in a knapsack.
type item struct {
	kind  int
	takes amounts // places is how many pods there are
	value float64
	// weight is the part of the machine that a pod takes, if CPU and memory were
	// one resource.
	weight, density float64
}

// amounts is an amount of what a machine has.
type amounts struct{ cpu, memory, places int64 }

const (
	// splits is in how many parts the weight of CPU against memory is divided.
	splits = 8
	// leastWeight is what a pod weighs at least, and a place for one holds.
	leastWeight   = 1e-9
	knapsackSteps = 20_000
	// more is by how much the best must be exceeded to be worth looking for.
	more = 1 + 1e-9
)

// fill returns the most valuable counts of kinds for an offer, none with a time
// above level, and their value. *split is the weight of CPU in parts of splits
// at which the bound was lowest, here and in the next call.
func (b *knapsack) fill(p *problem, at int, level uint64, values []float64, split *int) ([]int32, float64) {
	o := &p.offers[at]
	b.items, b.bestValue, b.limit = b.items[:0], 0, b.steps+knapsackSteps
	for i := range p.kinds {
		k := &p.kinds[i]
		if k.time <= level && values[i] > 0 && p.holds(at, k.size, k.on, 1) {
			b.items = append(b.items, item{kind: i, takes: amounts{k.size.MilliCPU, k.size.MemoryBytes, int64(len(k.pods))}, value: values[i]})
		}
	}
	b.whole = amounts{max(o.Size.MilliCPU, 1), max(o.Size.MemoryBytes, 1), o.places}
	b.choose(split)
	b.counts = append(b.counts[:0], make([]int32, len(b.items))...)
	b.best = append(b.best[:0], b.counts...)
	b.search(0, amounts{o.Size.MilliCPU, o.Size.MemoryBytes, o.places}, 0)
	counts := make([]int32, len(p.kinds))
	for i, n := range b.best {
		counts[b.items[i].kind] = n
	}
	return counts, b.bestValue
}

// most returns what the last offer filled can be worth at most.
func (b *knapsack) most() float64 {
	if b.steps > b.limit {
		return b.bound(0, b.whole)
	}
	return b.bestValue * more
}

// choose weighs the items with the split or a neighbour of it, whichever has the
// lowest bound.
func (b *knapsack) choose(split *int) {
	first, last := max(*split-1, 0), min(*split+1, splits)
	lowest := math.Inf(1)
	for s := first; s <= last; s++ {
		b.weigh(s)
		if bound := b.bound(0, b.whole); bound < lowest {
			lowest, *split = bound, s
		}
	}
	if *split != last {
		b.weigh(*split)
	}
}

// weigh sets the weights and orders the items by value for weight.
func (b *knapsack) weigh(split int) {
	b.cpu = float64(split) / splits
	for i := range b.items {
		it := &b.items[i]
		it.weight = leastWeight + b.weight(it.takes)
		it.density = it.value / it.weight
	}
	slices.SortFunc(b.items, func(x, y item) int {
		return cmp.Or(cmp.Compare(y.density, x.density), cmp.Compare(x.kind, y.kind))
	})
	b.steps += 4 * len(b.items)
}

func (b *knapsack) weight(r amounts) float64 {
	return times(b.cpu, float64(r.cpu)/float64(b.whole.cpu)) + times(1-b.cpu, float64(r.memory)/float64(b.whole.memory))
}

// bound returns what the items from one on can be worth at most in the free amounts.
func (b *knapsack) bound(from int, free amounts) float64 {
	left, sum := b.weight(free)+times(leastWeight, float64(free.places)), 0.0
	for i := from; i < len(b.items); i++ {
		it := &b.items[i]
		b.steps++
		if it.takes.cpu > free.cpu || it.takes.memory > free.memory {
			continue
		}
		n := float64(it.takes.places)
		if times(it.weight, n) > left {
			return sum + times(it.value, left/it.weight)
		}
		left -= times(it.weight, n)
		sum += times(it.value, n)
	}
	return sum
}

// search tries all numbers of the item, the most first, with value in the
// machine already.
func (b *knapsack) search(at int, free amounts, value float64) {
	if value > b.bestValue {
		b.bestValue = value
		copy(b.best, b.counts)
	}
	if at == len(b.items) || free.places == 0 || b.steps > b.limit || value+b.bound(at, free) <= times(b.bestValue, more) {
		return
	}
	it := &b.items[at]
	n := min(it.takes.places, free.places)
	if it.takes.cpu > 0 {
		n = min(n, free.cpu/it.takes.cpu)
	}
	if it.takes.memory > 0 {
		n = min(n, free.memory/it.takes.memory)
	}
	for ; n >= 0; n-- {
		b.counts[at] = int32(n)
		b.search(at+1, amounts{free.cpu - n*it.takes.cpu, free.memory - n*it.takes.memory, free.places - n}, value+times(it.value, float64(n)))
	}
	b.counts[at] = 0
}
