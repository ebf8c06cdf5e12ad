package mix

import (
	"encoding/binary"
)

// sets numbers sets of offers: those that admit an item, regardless of its size, and those that admit all of some items.
// Number 0 is the set of all offers. Equal sets have equal numbers, so that few are stored however many machines are
// tried.
type sets struct {
	offers  int
	members [][]uint64 // by number: a bit for each offer
	numbers map[string]int32
	meets   map[[2]int32]int32
}

const anyOffer int32 = 0

func newSets(offers int) *sets {
	s := &sets{offers: offers, numbers: map[string]int32{}, meets: map[[2]int32]int32{}}
	s.number(s.make(func(int) bool { return true }))
	return s
}

// make returns the set of the offers for which in returns true.
func (s *sets) make(in func(at int) bool) []uint64 {
	members := make([]uint64, (s.offers+63)/64)
	for at := range s.offers {
		if in(at) {
			members[at/64] |= 1 << (at % 64)
		}
	}
	return members
}

func (s *sets) number(members []uint64) int32 {
	key := make([]byte, 0, 8*len(members))
	for _, word := range members {
		key = binary.LittleEndian.AppendUint64(key, word)
	}
	n, ok := s.numbers[string(key)]
	if !ok {
		n = int32(len(s.members))
		s.numbers[string(key)] = n
		s.members = append(s.members, members)
	}
	return n
}

func (s *sets) has(set int32, at int) bool {
	return set == anyOffer || s.members[set][at/64]>>(at%64)&1 == 1
}

// meet returns the intersection of two sets.
func (s *sets) meet(a, b int32) int32 {
	switch {
	case a == b || b == anyOffer:
		return a
	case a == anyOffer:
		return b
	case a > b:
		a, b = b, a
	}
	n, ok := s.meets[[2]int32{a, b}]
	if !ok {
		both := make([]uint64, len(s.members[a]))
		for i := range both {
			both[i] = s.members[a][i] & s.members[b][i]
		}
		n = s.number(both)
		s.meets[[2]int32{a, b}] = n
	}
	return n
}
