package purchase

import (
	"cmp"
	"slices"
)

// knapsack finds the pods for one machine that are worth the most together, by branch and bound: see
// mix_knapsack_branch.go. The number of steps is limited, so the result may not be optimal; most is then an upper bound
// of the optimum.
type knapsack struct {
	items []knapsackItem
	has   amounts
	// whole is has as floating-point numbers, at least 1.
	whole   [linear]float64
	relaxed fractional
	counts  []int32
	// best and bestValue are the best counts so far, and their value.
	best      []int32
	bestValue float64
	// unexplored is an upper bound of the worth of pods in unexplored branches.
	unexplored float64
	// steps counts the work of all calls; branching limits the steps of each call.
	steps, branching int
}

// knapsackItem is a kind of pod in a knapsack.
type knapsackItem struct {
	kind  int
	takes amounts // places is the number of pods
	value float64
	// part is the part of the machine that a pod takes, by CPU, memory and slots.
	part    [linear]float64
	density float64
}

// amounts are resources of a machine.
type amounts struct{ cpu, memory, places int64 }

// less returns what is left without the given number of pods.
func (a amounts) less(it *knapsackItem, pods int64) amounts {
	return amounts{a.cpu - pods*it.takes.cpu, a.memory - pods*it.takes.memory, a.places - pods}
}

// fit returns how many pods fit into the amounts, up to most.
func (a amounts) fit(it *knapsackItem, most int64) int64 {
	most = min(most, a.places)
	if it.takes.cpu > 0 {
		most = min(most, a.cpu/it.takes.cpu)
	}
	if it.takes.memory > 0 {
		most = min(most, a.memory/it.takes.memory)
	}
	return most
}

// valid reports whether no amount is negative.
func (a amounts) valid() bool { return a.cpu >= 0 && a.memory >= 0 && a.places >= 0 }

const (
	// fewBranches is enough steps for most machines, manyBranches for nearly all.
	fewBranches, manyBranches = 20_000, 500_000
	// more is the least factor by which a result must exceed the best one to matter.
	more = 1 + 1e-9
)

// fill returns the most valuable counts of kinds for an offer, of kinds with times up to level, and their value.
func (b *knapsack) fill(p *problem, at int, level uint64, values []float64) ([]int32, float64) {
	o := &p.offers[at]
	b.has = amounts{o.Size.MilliCPU, o.Size.MemoryBytes, o.places}
	b.whole = [linear]float64{float64(max(b.has.cpu, 1)), float64(max(b.has.memory, 1)), float64(max(b.has.places, 1))}
	b.items = b.items[:0]
	for i := range p.kinds {
		k := &p.kinds[i]
		if k.time <= level && values[i] > 0 && p.holds(at, k.size, k.on, 1) {
			b.items = append(b.items, knapsackItem{
				kind: i, takes: amounts{k.size.MilliCPU, k.size.MemoryBytes, int64(len(k.pods))}, value: values[i],
				part: [linear]float64{float64(k.size.MilliCPU) / b.whole[byCPU], float64(k.size.MemoryBytes) / b.whole[byMemory], 1 / b.whole[byPlace]},
			})
		}
	}
	b.order()
	b.counts = append(b.counts[:0], make([]int32, len(b.items))...)
	b.best = append(b.best[:0], b.counts...)
	b.bestValue, b.unexplored = 0, 0
	b.search()
	counts := make([]int32, len(p.kinds))
	for i, n := range b.best {
		counts[b.items[i].kind] = n
	}
	return counts, b.bestValue
}

// most returns an upper bound of the worth of the last offer filled.
func (b *knapsack) most() float64 { return max(b.bestValue, b.unexplored) * more }

// order sorts the items by value per cost at the prices of the relaxation.
func (b *knapsack) order() {
	const least = 1e-12
	b.relaxed.reset(b.items, [linear]float64{1, 1, 1})
	b.relaxed.solve()
	prices := b.relaxed.prices()
	for i := range b.items {
		it := &b.items[i]
		it.density = it.value / max(least*it.value, it.costs(prices))
	}
	slices.SortFunc(b.items, func(x, y knapsackItem) int {
		return cmp.Or(cmp.Compare(y.density, x.density), cmp.Compare(x.kind, y.kind))
	})
	b.steps += b.relaxed.steps + 8*len(b.items)
}

// costs returns the cost of a pod at the given prices of the whole machine.
func (it *knapsackItem) costs(prices [linear]float64) float64 {
	return times(prices[byCPU], it.part[byCPU]) + times(prices[byMemory], it.part[byMemory]) + times(prices[byPlace], it.part[byPlace])
}
