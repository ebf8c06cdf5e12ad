package estimate

import (
	"math"
	"slices"
)

// tree finds among many amounts the first that is large enough: of n of them in about log n
// steps, in more where one has enough of this and another of that.
type tree struct {
	leaves int
	// most has at i the most of each thing that 2i and 2i+1 have; the leaves come last.
	most []Resources
}

// nothing is less than anything needs.
var nothing = Resources{math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64}

// reset makes room for n amounts, all of them nothing yet.
func (t *tree) reset(n int) {
	t.leaves = 1
	for t.leaves < n {
		t.leaves *= 2
	}
	t.most = slices.Grow(t.most[:0], 2*t.leaves)[:2*t.leaves]
	for i := range t.most {
		t.most[i] = nothing
	}
}

// put puts an amount at a place; sum must follow.
func (t *tree) put(place int, r Resources) { t.most[t.leaves+place] = r }

// sum brings the tree in order after many were put.
func (t *tree) sum() {
	for at := t.leaves - 1; at > 0; at-- {
		t.most[at] = most(t.most[2*at], t.most[2*at+1])
	}
}

// set puts an amount at a place. One beyond the last makes room for twice as many.
func (t *tree) set(place int, r Resources) {
	if place >= t.leaves {
		before := slices.Clone(t.most[t.leaves:])
		t.reset(2 * len(before))
		copy(t.most[t.leaves:], before)
		t.sum()
	}
	t.put(place, r)
	for at := (place + t.leaves) / 2; at > 0; at /= 2 {
		t.most[at] = most(t.most[2*at], t.most[2*at+1])
	}
}

// all is the most of each thing that any of the amounts has.
func (t *tree) all() Resources { return t.most[1] }

// first returns the first place, from one on, of which the need is no more, or none.
func (t *tree) first(from int, need Resources) int {
	if from >= t.leaves {
		return none
	}
	at := 1
	if from > 0 {
		at = t.leaves + from
	}
	for {
		switch {
		case !need.Fits(t.most[at]):
			for at > 1 && at%2 == 1 { // what is above ends with it
				at /= 2
			}
			if at == 1 {
				return none
			}
			at++
		case at >= t.leaves:
			return at - t.leaves
		default:
			at *= 2
		}
	}
}

// most is the greater of each thing.
func most(a, b Resources) Resources {
	return Resources{
		MilliCores: max(a.MilliCores, b.MilliCores), MemoryBytes: max(a.MemoryBytes, b.MemoryBytes),
		DiskBytes: max(a.DiskBytes, b.DiskBytes), GPUs: max(a.GPUs, b.GPUs),
	}
}

// negated makes the least out of the most.
func (r Resources) negated() Resources { return Resources{}.Plus(r, -1) }
