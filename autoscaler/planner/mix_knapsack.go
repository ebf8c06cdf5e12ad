package planner

import (
	"cmp"
	"slices"
)

// knapsack finds pods for one machine that are worth the most together, by branch and
// bound. It looks at no more than so many branches, so the answer need not be the best;
// it then knows what the best is worth at most.
//
// Its bound takes prices for what the machine has: those of the relaxation in which parts
// of pods count, which a simplex method finds. At these prices, what is free is worth no
// less than any pods that fit there, but for what some are worth beyond their price.
type knapsack struct {
	items []knapsackItem
	whole [linear]float64
	// unit are the prices: of all CPU of the machine, all memory and all places.
	unit [linear]float64
	// excess is by item what it and all later ones are worth beyond their prices.
	excess []float64
	counts []int32
	// best and bestValue are the best counts so far.
	best      []int32
	bestValue float64
	// unexplored is what pods are worth at most in branches that were not looked at.
	unexplored float64
	// steps counts the work of all calls; this one stops at limit, after so many branches.
	steps, limit, branches int
}

// knapsackItem is a kind in a knapsack.
type knapsackItem struct {
	kind  int
	takes amounts // places is how many pods there are
	value float64
	// part is the part of the machine that a pod takes, by CPU, memory and places.
	part    [linear]float64
	density float64
	// whole is how many of it the relaxation takes, parts of a pod left out.
	whole int64
}

// amounts is an amount of what a machine has.
type amounts struct{ cpu, memory, places int64 }

const (
	// fewBranches are enough for most machines, manyBranches for nearly all.
	fewBranches, manyBranches = 20_000, 500_000
	// more is by how much the best must be exceeded to be worth looking for.
	more = 1 + 1e-9
)

// fill returns the most valuable counts of kinds for an offer, none with a time
// above level, and their value.
func (b *knapsack) fill(p *problem, at int, level uint64, values []float64) ([]int32, float64) {
	o := &p.offers[at]
	b.items, b.bestValue, b.unexplored = b.items[:0], 0, 0
	b.whole = [linear]float64{float64(max(o.Size.MilliCPU, 1)), float64(max(o.Size.MemoryBytes, 1)), float64(max(o.places, 1))}
	for i := range p.kinds {
		k := &p.kinds[i]
		if k.time <= level && values[i] > 0 && p.holds(at, k.size, k.on, 1) {
			b.items = append(b.items, knapsackItem{
				kind: i, takes: amounts{k.size.MilliCPU, k.size.MemoryBytes, int64(len(k.pods))}, value: values[i],
				part: [linear]float64{float64(k.size.MilliCPU) / b.whole[byCPU], float64(k.size.MemoryBytes) / b.whole[byMemory], 1 / b.whole[byPlace]},
			})
		}
	}
	free := amounts{o.Size.MilliCPU, o.Size.MemoryBytes, o.places}
	b.price()
	b.limit = b.steps + max(b.branches, fewBranches)
	b.counts = append(b.counts[:0], make([]int32, len(b.items))...)
	b.best = append(b.best[:0], b.counts...)
	b.round(free)
	b.search(0, free, 0)
	counts := make([]int32, len(p.kinds))
	for i, n := range b.best {
		counts[b.items[i].kind] = n
	}
	return counts, b.bestValue
}

// most returns what the last offer filled can be worth at most.
func (b *knapsack) most() float64 { return max(b.bestValue, b.unexplored) * more }

// price sets the prices, and orders the items by value for what they cost.
func (b *knapsack) price() {
	const least = 1e-12
	b.unit = b.relax()
	for i := range b.items {
		it := &b.items[i]
		it.density = it.value / max(least*it.value, b.costs(it))
	}
	slices.SortFunc(b.items, func(x, y knapsackItem) int {
		return cmp.Or(cmp.Compare(y.density, x.density), cmp.Compare(x.kind, y.kind))
	})
	b.excess = append(b.excess[:0], make([]float64, len(b.items)+1)...)
	for i := len(b.items) - 1; i >= 0; i-- {
		it := &b.items[i]
		b.excess[i] = b.excess[i+1] + times(float64(it.takes.places), max(0, it.value-b.costs(it)))
	}
	b.steps += 8 * len(b.items)
}

func (b *knapsack) costs(it *knapsackItem) float64 {
	return times(b.unit[byCPU], it.part[byCPU]) + times(b.unit[byMemory], it.part[byMemory]) + times(b.unit[byPlace], it.part[byPlace])
}

// round takes what the relaxation does, without parts of pods, and as many more as fit: of
// a machine that holds many pods, that is nearly the best.
func (b *knapsack) round(free amounts) {
	for _, more := range []bool{false, true} {
		for i := range b.items {
			it := &b.items[i]
			n := min(it.takes.places-int64(b.best[i]), free.places)
			if !more {
				n = min(n, it.whole)
			}
			n = min(n, most(free.cpu, it.takes.cpu, n), most(free.memory, it.takes.memory, n))
			b.best[i] += int32(n)
			free = amounts{free.cpu - n*it.takes.cpu, free.memory - n*it.takes.memory, free.places - n}
			b.bestValue += times(it.value, float64(n))
		}
	}
	b.steps += 2 * len(b.items)
}

// most is how many fit into what is free, or all if they take nothing.
func most(free, takes, all int64) int64 {
	if takes <= 0 {
		return all
	}
	return free / takes
}

// bound returns what the items from one on can be worth at most in the free amounts.
func (b *knapsack) bound(from int, free amounts) float64 {
	return times(b.unit[byCPU], float64(free.cpu)/b.whole[byCPU]) + times(b.unit[byMemory], float64(free.memory)/b.whole[byMemory]) +
		times(b.unit[byPlace], float64(free.places)/b.whole[byPlace]) + b.excess[from]
}

// search tries all numbers of the item, the most first, with value in the
// machine already.
func (b *knapsack) search(at int, free amounts, value float64) {
	b.steps++
	if value > b.bestValue {
		b.bestValue = value
		copy(b.best, b.counts)
	}
	if at == len(b.items) || free.places == 0 {
		return
	}
	bound := value + b.bound(at, free)
	if bound <= times(b.bestValue, more) {
		return
	}
	if b.steps > b.limit {
		b.unexplored = max(b.unexplored, bound)
		return
	}
	it := &b.items[at]
	n := min(it.takes.places, free.places)
	n = min(n, most(free.cpu, it.takes.cpu, n), most(free.memory, it.takes.memory, n))
	for ; n >= 0; n-- {
		b.counts[at] = int32(n)
		b.search(at+1, amounts{free.cpu - n*it.takes.cpu, free.memory - n*it.takes.memory, free.places - n}, value+times(it.value, float64(n)))
	}
	b.counts[at] = 0
}
