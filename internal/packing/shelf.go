package packing

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// blockSize is the maximum number of entries of a block of a shelf. A lookup scans at most one block and the list of
// blocks, so the best value is near the square root of the number of nodes; 128 is suitable for up to about 20,000
// nodes.
const blockSize = 128

// entry is a node on a shelf.
type entry struct {
	free Size
	name string
}

func compareEntries(a, b entry) int {
	return cmp.Or(
		cmp.Compare(a.free.MemoryBytes, b.free.MemoryBytes),
		cmp.Compare(a.free.MilliCPU, b.free.MilliCPU),
		cmp.Compare(a.name, b.name),
	)
}

// shelf is a set of nodes in the order of [CompareFit]: a sorted list cut into blocks. Each block knows the maximum
// free CPU of its nodes, so that a search skips blocks without enough CPU. The zero value is an empty shelf.
//
// Costs for n nodes: add, remove and finding the first fit O(blockSize + n/blockSize). A search may visit more blocks
// if nodes have memory but no CPU left: it costs one comparison per block, plus blockSize for each block in which one
// node has enough CPU but no node has enough of both.
type shelf struct {
	blocks []block
}

type block struct {
	entries []entry // never empty
	maxCPU  int64
}

func (s *shelf) empty() bool { return len(s.blocks) == 0 }

// find returns the index of the block that holds e, or would hold it.
func (s *shelf) find(e entry) int {
	return sort.Search(len(s.blocks), func(i int) bool {
		entries := s.blocks[i].entries
		return compareEntries(entries[len(entries)-1], e) >= 0
	})
}

// add adds e, which must not be on the shelf yet.
func (s *shelf) add(e entry) {
	b := s.find(e)
	if b == len(s.blocks) {
		if b == 0 {
			s.blocks = append(s.blocks, block{entries: []entry{e}, maxCPU: e.free.MilliCPU})
			return
		}
		b--
	}
	at, _ := slices.BinarySearchFunc(s.blocks[b].entries, e, compareEntries)
	s.blocks[b].entries = slices.Insert(s.blocks[b].entries, at, e)
	s.blocks[b].maxCPU = max(s.blocks[b].maxCPU, e.free.MilliCPU)
	if len(s.blocks[b].entries) > blockSize {
		s.split(b)
	}
}

// remove removes e and reports whether it was on the shelf.
func (s *shelf) remove(e entry) bool {
	b := s.find(e)
	if b == len(s.blocks) {
		return false
	}
	at, found := slices.BinarySearchFunc(s.blocks[b].entries, e, compareEntries)
	if !found {
		return false
	}
	s.blocks[b].entries = slices.Delete(s.blocks[b].entries, at, at+1)
	switch {
	case len(s.blocks[b].entries) == 0:
		s.blocks = slices.Delete(s.blocks, b, b+1)
	case b+1 < len(s.blocks) && len(s.blocks[b].entries)+len(s.blocks[b+1].entries) <= blockSize/2:
		s.merge(b)
	case e.free.MilliCPU == s.blocks[b].maxCPU:
		s.blocks[b].measure()
	}
	return true
}

func (s *shelf) split(b int) {
	half := len(s.blocks[b].entries) / 2
	upper := block{entries: slices.Clone(s.blocks[b].entries[half:])}
	upper.measure()
	clear(s.blocks[b].entries[half:]) // so that the names can be garbage-collected
	s.blocks[b].entries = s.blocks[b].entries[:half]
	s.blocks[b].measure()
	s.blocks = slices.Insert(s.blocks, b+1, upper)
}

func (s *shelf) merge(b int) {
	s.blocks[b].entries = append(s.blocks[b].entries, s.blocks[b+1].entries...)
	s.blocks = slices.Delete(s.blocks, b+1, b+2)
	s.blocks[b].measure()
}

func (b *block) measure() {
	b.maxCPU = b.entries[0].free.MilliCPU
	for _, e := range b.entries[1:] {
		b.maxCPU = max(b.maxCPU, e.free.MilliCPU)
	}
}

// fitting yields the nodes with room for size, tightest first.
func (s *shelf) fitting(size Size) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		from := sort.Search(len(s.blocks), func(i int) bool {
			entries := s.blocks[i].entries
			return entries[len(entries)-1].free.MemoryBytes >= size.MemoryBytes
		})
		for _, b := range s.blocks[from:] {
			if b.maxCPU < size.MilliCPU {
				continue
			}
			for _, e := range b.entries {
				if size.Fits(e.free) && !yield(e) {
					return
				}
			}
		}
	}
}

// sameRoom yields the names of the nodes with exactly this free room.
func (s *shelf) sameRoom(free Size) iter.Seq[string] {
	return func(yield func(string) bool) {
		first := entry{free: free} // names are not empty, so this sorts before all of them
		from := s.find(first)
		for _, b := range s.blocks[from:] {
			at, _ := slices.BinarySearchFunc(b.entries, first, compareEntries)
			for _, e := range b.entries[at:] {
				if e.free != free || !yield(e.name) {
					return
				}
			}
		}
	}
}
