package knapsack

import (
	"math"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/lp"
	"supercargo.dev/supercargo/internal/heap"
)

// branch is a subset of the ways to fill the bin: those whose number of items of each kind is between low and high.
type branch struct {
	low, high []int32
	// bound is an upper bound of the worth of items in this branch.
	bound float64
	// split is the kind whose amount in the relaxation is closest to half an item above at.
	split int
	at    int32
}

// search solves the relaxation of the whole bin, and splits branches whose relaxation takes a fraction of an item
// (Land and Doig 1960). The branch with the greatest bound comes first, so that the bound of the unexplored branches is
// as tight as possible if the search is cut short.
func (b *Knapsack) search() {
	limit := b.Steps + max(b.Branching, FewBranches)
	open := heap.New(func(a, b *branch) bool { return a.bound > b.bound }, nil)
	add := func(n *branch) {
		if b.explore(n) {
			open.Push(n)
		}
	}
	all := &branch{low: make([]int32, len(b.kinds)), high: make([]int32, len(b.kinds))}
	for i := range b.kinds {
		all.high[i] = int32(b.kinds[i].takes.Places)
	}
	for add(all); open.Len() > 0; {
		next := open.Pop()
		if next.bound <= lp.Times(b.bestValue, more) {
			return
		}
		if b.Steps > limit {
			b.unexplored = next.bound
			return
		}
		fewer := &branch{low: next.low, high: slices.Clone(next.high)}
		fewer.high[next.split] = next.at
		further := &branch{low: slices.Clone(next.low), high: next.high}
		further.low[next.split] = next.at + 1
		add(fewer)
		add(further)
	}
}

// explore solves the relaxation of a branch. If its result, rounded down to whole items, is the best so far, explore
// keeps it. It reports whether the branch may contain a better one.
func (b *Knapsack) explore(n *branch) bool {
	free, value := b.has, 0.0
	for i, low := range n.low {
		free, value = free.less(&b.kinds[i], int64(low)), value+lp.Times(b.kinds[i].value, float64(low))
	}
	if !free.valid() {
		return false
	}
	room := resources{float64(free.CPU) / b.whole[byCPU], float64(free.Memory) / b.whole[byMemory], float64(free.Places) / b.whole[byPlace]}
	s := &b.relaxed
	s.reset(b.kinds, room)
	for i := range b.kinds {
		s.upper[i] = float64(n.high[i] - n.low[i])
	}
	s.solve()
	b.Steps += s.steps
	n.bound = value + s.worthAtMost(room)
	b.split(n)
	b.complete()
	return n.split >= 0 && n.bound > lp.Times(b.bestValue, more)
}

// split sets where to split a branch, -1 for nowhere, and sets counts to the number of whole items of each kind in its
// relaxation.
func (b *Knapsack) split(n *branch) {
	const nearly = 1e-9
	n.split = -1
	farthest := nearly
	for i := range b.kinds {
		amount := b.relaxed.amount(i)
		whole := math.Floor(amount + nearly)
		b.counts[i] = n.low[i] + int32(whole)
		if apart := min(amount-whole, 1-(amount-whole)); apart > farthest {
			n.split, n.at, farthest = i, b.counts[i], apart
		}
	}
}

// complete adds as many items to the counts as fit, and keeps the result if it is the best.
func (b *Knapsack) complete() {
	free, value := b.has, 0.0
	for i, n := range b.counts {
		free = free.less(&b.kinds[i], int64(n))
	}
	if !free.valid() { // by rounding
		return
	}
	for i := range b.kinds {
		it := &b.kinds[i]
		n := free.fit(it, it.takes.Places-int64(b.counts[i]))
		free = free.less(it, n)
		b.counts[i] += int32(n)
		value += lp.Times(it.value, float64(b.counts[i]))
	}
	if value > b.bestValue {
		b.bestValue = value
		copy(b.best, b.counts)
	}
}
