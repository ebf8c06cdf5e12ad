package mix

import (
	"cmp"
	"math/bits"
)

// ExactItems is the number of items up to which the best mix is found by exhaustive search.
const ExactItems = 12

// exact returns the best mix of at most ExactItems items on at most most machines, by dynamic programming over the sets
// of items. Cost: O(3ⁿ) for n items, times most if the best mix for all items has more machines than that.
func (p *Problem) exact(most int) Solution {
	e := newExhaustive(p)
	all := len(e.alone) - 1
	free := e.solve(nil)
	if free[all].machines <= most {
		return e.mix([][]cover{free}, all)
	}
	layers := [][]cover{make([]cover, len(e.alone))}
	for set := 1; set <= all; set++ {
		layers[0][set].none = true
	}
	for range most {
		layers = append(layers, e.solve(layers[len(layers)-1]))
	}
	return e.mix(layers, e.fullest(layers[most]))
}

// exactRooms returns, by room, the kinds that go there, so that machines for the others are the best, with as few items
// left out as possible: a cover of any set of items takes some of them into the next room. On a tie, more items in rooms
// win. Cost: O(3ⁿ) for n items and each room.
func (p *Problem) exactRooms() [][]int32 {
	e := newExhaustive(p)
	covers := e.solve(nil)
	taken := make([][]int, len(p.rooms))
	for i := range p.rooms {
		next := make([]cover, len(covers))
		taken[i] = make([]int, len(covers))
		for set := range next {
			next[set] = covers[set]
			for part := set; part > 0; part = (part - 1) & set {
				other := covers[set^part]
				other.inRooms += bits.OnesCount(uint(part))
				if !other.none && (next[set].none || other.compare(next[set]) < 0) && e.fitsRoom(part, i) {
					next[set], taken[i][set] = other, part
				}
			}
		}
		covers = next
	}
	set := e.fullest(covers)
	found := make([][]int32, len(p.rooms))
	for i := len(p.rooms) - 1; i >= 0; i-- {
		part := taken[i][set]
		found[i] = e.kinds(part)
		set ^= part
	}
	return found
}

// fitsRoom reports whether a room takes a set of items.
func (e *exhaustive) fitsRoom(set, room int) bool {
	m, r := &e.alone[set], &e.p.rooms[room]
	return m.used.Fits(r.Size) && int64(len(m.kinds)) <= r.Places && e.p.together(m.kinds) && e.p.has(m.on, len(e.p.offers)+room)
}

// exhaustive is the state of exact. Sets of items are bit masks.
type exhaustive struct {
	p     *Problem
	items []int32
	// alone is the cheapest machine for each set of items; fits reports whether there is one.
	alone []machine
	fits  []bool
}

func newExhaustive(p *Problem) *exhaustive {
	var items []int32
	for k := range p.kinds {
		for range p.kinds[k].items {
			items = append(items, int32(k))
		}
	}
	e := &exhaustive{p: p, items: items, alone: make([]machine, 1<<len(items)), fits: make([]bool, 1<<len(items))}
	for set := 1; set < len(e.alone); set++ {
		m := p.newMachine(e.kinds(set))
		e.alone[set], e.fits[set] = m, m.offer < len(p.offers) && p.together(m.kinds)
	}
	return e
}

// cover is the cheapest purchase of machines for a set of items.
type cover struct {
	none     bool // the set has no cover
	bill     bill
	machines int
	first    int // the items of one of the machines
	inRooms  int // the number of items in rooms
}

func (e *exhaustive) kinds(set int) []int32 {
	var kinds []int32
	for ; set > 0; set &= set - 1 {
		kinds = append(kinds, e.items[bits.TrailingZeros(uint(set))])
	}
	return kinds
}

// solve returns the cover of every set by one machine more than in fewer, or by any number of machines if fewer is nil.
func (e *exhaustive) solve(fewer []cover) []cover {
	covers := make([]cover, len(e.alone))
	if fewer == nil {
		fewer = covers
	}
	for set := 1; set < len(covers); set++ {
		best := cover{none: true}
		lowest := set & -set
		// The machine with the first item takes any of the other items too.
		for rest := set ^ lowest; ; rest = (rest - 1) & (set ^ lowest) {
			if other := &fewer[set^lowest^rest]; e.fits[lowest|rest] && !other.none {
				c := cover{bill: other.bill.plus(e.p.bill(&e.alone[lowest|rest])), machines: other.machines + 1, first: lowest | rest}
				if best.none || c.compare(best) < 0 {
					best = c
				}
			}
			if rest == 0 {
				break
			}
		}
		covers[set] = best
	}
	return covers
}

func (c cover) compare(other cover) int {
	return cmp.Or(rank{bill: c.bill, machines: c.machines}.compare(rank{bill: other.bill, machines: other.machines}),
		cmp.Compare(other.inRooms, c.inRooms))
}

// fullest returns the set with the most items that has a cover, and of these the one with the cheapest.
func (e *exhaustive) fullest(covers []cover) int {
	best := 0
	for set := range covers {
		more := bits.OnesCount(uint(set)) - bits.OnesCount(uint(best))
		if !covers[set].none && (more > 0 || more == 0 && covers[set].compare(covers[best]) < 0) {
			best = set
		}
	}
	return best
}

// mix returns the machines of the cover of a set in the last layer. If there are several layers, each adds one machine.
func (e *exhaustive) mix(layers [][]cover, set int) Solution {
	m := Solution{waiting: make([]int32, len(e.p.kinds))}
	for at, k := range e.items {
		if set&(1<<at) == 0 {
			m.waiting[k]++
			m.missing++
		}
	}
	for set > 0 {
		last := layers[len(layers)-1]
		if len(layers) > 1 {
			layers = layers[:len(layers)-1]
		}
		m.machines = append(m.machines, e.alone[last[set].first])
		set ^= last[set].first
	}
	return m
}
