package estimate

import (
	"math"
	"slices"
)

// tree finds the first of n amounts that is large enough, in about log n steps; in more if some amounts have enough of
// one resource but not of another.
type tree struct {
	leaves int
	// most[i] is the maximum of 2i and 2i+1, by resource. The leaves come last.
	most []Resources
}

// nothing is less than any need.
var nothing = Resources{math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64}

// reset makes room for n amounts, all of them nothing.
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

// put stores an amount; sum must follow.
func (t *tree) put(place int, r Resources) { t.most[t.leaves+place] = r }

// sum updates the tree after calls of put.
func (t *tree) sum() {
	for at := t.leaves - 1; at > 0; at-- {
		t.most[at] = most(t.most[2*at], t.most[2*at+1])
	}
}

// set stores an amount and updates the tree. A place beyond the last one doubles the tree.
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

// all returns the maximum of all amounts, by resource.
func (t *tree) all() Resources { return t.most[1] }

// first returns the first place, starting at from, whose amount fits the need; none if there is none.
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
			for at > 1 && at%2 == 1 { // its parent ends with it
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

// most returns the maximum, by resource.
func most(a, b Resources) Resources {
	return Resources{
		MilliCores: max(a.MilliCores, b.MilliCores), MemoryBytes: max(a.MemoryBytes, b.MemoryBytes),
		DiskBytes: max(a.DiskBytes, b.DiskBytes), GPUs: max(a.GPUs, b.GPUs),
	}
}

// negated turns a search for the maximum into one for the minimum.
func (r Resources) negated() Resources { return Resources{}.Plus(r, -1) }
