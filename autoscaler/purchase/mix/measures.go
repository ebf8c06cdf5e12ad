package mix

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/lp"
	"supercargo.dev/supercargo/internal/packing"
)

// measures quantify how much of a machine an item takes; by none of them do the items that a machine holds exceed the
// whole machine. They are the parts of CPU, memory and places that items take, functions of the first two that account for
// indivisible items (see [dualFeasible]), and a few extra measures: cliques, of which a machine holds one item each, and the
// parts of extended resources. Problems without either use no extra measure.
const (
	byCPU = iota
	byMemory
	byPlace
	// byCPUDual and byMemoryDual are the first of len(dualFeasibles) measures each.
	byCPUDual
	byMemoryDual = byCPUDual + len(dualFeasibles)
	// byExtra is the first of the extra measures.
	byExtra  = byMemoryDual + len(dualFeasibles)
	measures = byExtra + extraMeasures

	// linear is the number of measures, from the first, that are parts of a machine's resources.
	linear = byCPUDual
)

// The vectors of package lp have a number for each measure.
var (
	_ [measures]float64 = lp.Vector{}
	_ [linear]struct{}  = [lp.Linear]struct{}{}
)

// basicMeasures are those of a basic pricing, allMeasures those of an extended one. They do not include the extra ones: see
// [Problem.measuresOf].
var basicMeasures, allMeasures = between(0, linear), between(0, byExtra)

// between returns the measures from one up to, but not including, another.
func between(from, to int) []int {
	var found []int
	for r := from; r < to; r++ {
		found = append(found, r)
	}
	return found
}

// dualFeasible is a dual feasible function: by it, items for which a machine has room sum to at most the whole machine.
// Fekete and Schepers (2001) collect such functions.
type dualFeasible func(asks, has uint64) uint64

var dualFeasibles = [...]dualFeasible{
	// An item of more than half counts as a whole machine, a smaller one as nothing.
	func(asks, has uint64) uint64 { return beyond(asks, has, has/2) },
	func(asks, has uint64) uint64 { return beyond(asks, has, has/3) },
	// A machine holds two items of more than a third.
	func(asks, has uint64) uint64 {
		switch {
		case asks > has-has/3:
			return has
		case asks > has/3:
			return has / 2
		}
		return 0
	},
}

// beyond counts an item smaller than the margin as nothing, one that leaves less than the margin as the whole, and any
// other as its request. margin is at most half of the whole. Items of the second kind share a machine only with items of
// the first.
func beyond(asks, has, margin uint64) uint64 {
	switch {
	case asks < margin:
		return 0
	case asks > has-margin:
		return has
	}
	return asks
}

// small reports whether an item of the kind takes nothing of the offer by any dual feasible function.
func (o *offer) small(k *kind) bool {
	return k.size.MilliCPU < o.Size.MilliCPU/3 && k.size.MemoryBytes < o.Size.MemoryBytes/3
}

// part returns, by a measure, what an item of the kind takes and what the offer has.
func (o *offer) part(k *kind, measure int) (takes, has uint64) {
	cpu, memory := uint64(max(k.size.MilliCPU, 0)), uint64(max(k.size.MemoryBytes, 0))
	hasCPU, hasMemory := uint64(max(o.Size.MilliCPU, 0)), uint64(max(o.Size.MemoryBytes, 0))
	switch {
	case measure == byCPU:
		return cpu, hasCPU
	case measure == byMemory:
		return memory, hasMemory
	case measure == byPlace:
		return 1, uint64(max(o.places, 0))
	case measure < byMemoryDual:
		return dualFeasibles[measure-byCPUDual](cpu, hasCPU), hasCPU
	case measure >= byExtra:
		return k.extra[measure-byExtra], o.extra[measure-byExtra]
	}
	return dualFeasibles[measure-byMemoryDual](memory, hasMemory), hasMemory
}

const (
	// extraMeasures is the maximum number of extra measures. Those of cliques come first, of which there are at most two; an
	// extended resource without a measure is not priced, though machines are never overfilled.
	extraMeasures = 2
	// wholeClique is the maximum that all cliques of a measure take of a machine together. As a power of two it divides and
	// multiplies without rounding.
	wholeClique = 1 << 20
)

// scarceSlots returns the slots of which items request something, those with the most such items first, at most most of them.
// extended reports whether there are any.
func scarceSlots(items []Item, most int) (slots []int, extended bool) {
	var counts [packing.Slots]int
	for i := range items {
		if items[i].Size.Extended.None() {
			continue
		}
		for slot, amount := range items[i].Size.Extended.BySlot() {
			if amount > 0 {
				counts[slot]++
			}
		}
	}
	for slot, n := range counts {
		if n > 0 {
			slots = append(slots, slot)
		}
	}
	slices.SortStableFunc(slots, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	return slots[:min(len(slots), most)], len(slots) > 0
}

// wholes returns what a machine or room of a size has by the extra measures.
func (p *Problem) wholes(size packing.Size) (all [extraMeasures]uint64) {
	cliques := p.extraMeasures - len(p.scarce)
	for r := range cliques {
		all[r] = wholeClique
	}
	for r, slot := range p.scarce {
		all[cliques+r] = uint64(max(size.Extended.At(slot), 0))
	}
	return all
}

// cliqueSizes returns the number of items of each clique.
func cliqueSizes(items []Item) []int {
	var sizes []int
	for i := range items {
		if c := int(items[i].Clique); c >= 0 {
			sizes = append(sizes, make([]int, max(0, c+1-len(sizes)))...)
			sizes[c]++
		}
	}
	return sizes
}

// cliqueParts returns, by measure and clique, the part of a machine that an item takes, in 1/wholeClique. A machine has at most
// one item of each clique, so parts that sum to no more than the whole over all cliques are a measure. One measure
// divides the machine among the largest cliques, the other among those of more than half that size: prices determine
// which of them require more machines than the items' sizes do.
func cliqueParts(sizes []int) [][]uint64 {
	var found [][]uint64
	if len(sizes) == 0 {
		return nil
	}
	most := slices.Max(sizes)
	for _, least := range []int{most, most/2 + 1} {
		among := uint64(0)
		for _, size := range sizes {
			if size >= least {
				among++
			}
		}
		parts := make([]uint64, len(sizes))
		for i, size := range sizes {
			if size >= least {
				parts[i] = wholeClique / among
			}
		}
		if len(found) == 0 || !slices.Equal(found[0], parts) {
			found = append(found, parts)
		}
	}
	return found
}

// measuresOf returns some measures and the extra ones of the problem.
func (p *Problem) measuresOf(some []int) []int {
	return slices.Concat(some, between(byExtra, byExtra+p.extraMeasures))
}

// together reports whether one machine may hold items of all these kinds: no two of one clique.
func (p *Problem) together(kinds []int32) bool {
	if p.cliques == 0 {
		return true
	}
	for i, k := range kinds {
		if !p.joins(k, kinds[:i]) {
			return false
		}
	}
	return true
}

// joins reports whether a machine that holds items of some kinds may also hold one of kind k.
func (p *Problem) joins(k int32, kinds []int32) bool {
	c := p.kinds[k].clique
	return c == None || !slices.ContainsFunc(kinds, func(other int32) bool { return p.kinds[other].clique == c })
}
