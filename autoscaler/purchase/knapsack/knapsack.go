// Package knapsack finds the items that are worth the most together of all that fit into a bin with limits on CPU,
// memory and the number of items, by branch and bound. It is pure and deterministic.
package knapsack

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/lp"
)

// Knapsack is one bin after the other. The number of steps is limited, so the result may not be optimal;
// [Knapsack.Most] is then an upper bound of the optimum. The zero value is ready for [Knapsack.Empty]. It is not safe
// for concurrent use.
type Knapsack struct {
	kinds []kind
	has   Amounts
	// whole is has as floating-point numbers, at least 1.
	whole   resources
	relaxed fractional
	counts  []int32
	// best and bestValue are the best counts so far, and their value.
	best      []int32
	bestValue float64
	// unexplored is an upper bound of the worth of items in unexplored branches.
	unexplored float64
	// Steps counts the work of all calls; Branching limits the steps of each call, at least [FewBranches].
	Steps, Branching int
}

// kind is a set of equal items.
type kind struct {
	id    int
	takes Amounts // by one item; Places is the number of items
	value float64
	// part is the part of the bin that an item takes, by resource.
	part    resources
	density float64
}

// resources has a number for each of CPU, memory and places.
type resources [rows]float64

const (
	byCPU = iota
	byMemory
	byPlace
	rows
)

// Amounts are the resources of a bin.
type Amounts struct{ CPU, Memory, Places int64 }

// less returns what is left without n of the items.
func (a Amounts) less(it *kind, n int64) Amounts {
	return Amounts{a.CPU - n*it.takes.CPU, a.Memory - n*it.takes.Memory, a.Places - n}
}

// fit returns how many items fit into the amounts, up to most.
func (a Amounts) fit(it *kind, most int64) int64 {
	most = min(most, a.Places)
	if it.takes.CPU > 0 {
		most = min(most, a.CPU/it.takes.CPU)
	}
	if it.takes.Memory > 0 {
		most = min(most, a.Memory/it.takes.Memory)
	}
	return most
}

// valid reports whether no amount is negative.
func (a Amounts) valid() bool { return a.CPU >= 0 && a.Memory >= 0 && a.Places >= 0 }

const (
	// FewBranches is enough steps for most bins.
	FewBranches = 20_000
	// ManyBranches is enough steps for nearly all bins.
	ManyBranches = 500_000
	// more is the least factor by which a result must exceed the best one to matter.
	more = 1 + 1e-9
)

// Empty starts over with a bin that has these amounts.
func (b *Knapsack) Empty(has Amounts) {
	b.has = has
	b.whole = resources{float64(max(has.CPU, 1)), float64(max(has.Memory, 1)), float64(max(has.Places, 1))}
	b.kinds = b.kinds[:0]
}

// Offer adds the items of kind id, all of the same value. takes are the CPU and memory of one of them, and Places the number
// of items.
func (b *Knapsack) Offer(id int, takes Amounts, value float64) {
	b.kinds = append(b.kinds, kind{
		id: id, takes: takes, value: value,
		part: resources{float64(takes.CPU) / b.whole[byCPU], float64(takes.Memory) / b.whole[byMemory], 1 / b.whole[byPlace]},
	})
}

// Fill returns the most valuable counts of the offered items for the bin, by kind, and their value. Kinds are less than
// the given number.
func (b *Knapsack) Fill(kinds int) ([]int32, float64) {
	b.order()
	b.counts = append(b.counts[:0], make([]int32, len(b.kinds))...)
	b.best = append(b.best[:0], b.counts...)
	b.bestValue, b.unexplored = 0, 0
	b.search()
	counts := make([]int32, kinds)
	for i, n := range b.best {
		counts[b.kinds[i].id] = n
	}
	return counts, b.bestValue
}

// Exact reports whether the last result is optimal.
func (b *Knapsack) Exact() bool { return b.unexplored <= b.bestValue }

// Most returns an upper bound of the worth of items in the last bin.
func (b *Knapsack) Most() float64 { return max(b.bestValue, b.unexplored) * more }

// order sorts the kinds by value per cost at the prices of the relaxation.
func (b *Knapsack) order() {
	const least = 1e-12
	b.relaxed.reset(b.kinds, resources{1, 1, 1})
	b.relaxed.solve()
	prices := b.relaxed.prices()
	for i := range b.kinds {
		it := &b.kinds[i]
		it.density = it.value / max(least*it.value, it.costs(prices))
	}
	slices.SortFunc(b.kinds, func(x, y kind) int {
		return cmp.Or(cmp.Compare(y.density, x.density), cmp.Compare(x.id, y.id))
	})
	b.Steps += b.relaxed.steps + 8*len(b.kinds)
}

// costs returns the cost of an item at the given prices of the whole bin.
func (it *kind) costs(prices resources) float64 {
	return lp.Times(prices[byCPU], it.part[byCPU]) + lp.Times(prices[byMemory], it.part[byMemory]) + lp.Times(prices[byPlace], it.part[byPlace])
}
