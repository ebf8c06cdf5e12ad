package packing

import (
	"iter"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/heap"
)

// IndexedNode is one machine in an [Index].
type IndexedNode struct {
	Name string
	Free Size
	// Finish is when the longest batch job on the node is expected to end. It is zero if the node has none, and
	// [Unending] if a service is on it.
	Finish time.Time
}

// Index keeps nodes ordered so that the most preferred node with room is found without a scan of all nodes. It
// implements [CompareFit] and [CompareTimeBin] for nodes whose remaining runtime shrinks as time passes.
//
// An Index is not safe for concurrent use. Costs for n nodes in b bins: Put and Remove O(√n + log n), a first fit O(b +
// √n) (see shelf for the worst case), Advance O(k·√n), where k nodes changed their bin since the last call.
type Index struct {
	cycle   time.Duration
	now     time.Time
	nodes   map[string]*filed
	shelves map[int64]*shelf
	bins    []int64            // keys of the shelves, ascending
	next    *heap.Heap[*filed] // the nodes that will leave their bin, earliest first
}

// filed is a node and its position in an Index.
type filed struct {
	node IndexedNode
	bin  int64
	// leaves is the time after which the node belongs to the next lower bin; at is its position in the heap next, or -1
	// if it is not in the heap.
	leaves time.Time
	at     int
}

// NewIndex returns an empty index over time bins of the given scaling cycle at the time now. With a cycle of 0 all
// nodes are in one bin, which is plain best fit.
func NewIndex(cycle time.Duration, now time.Time) *Index {
	next := heap.New(func(a, b *filed) bool { return a.leaves.Before(b.leaves) }, func(f *filed, at int) { f.at = at })
	return &Index{cycle: cycle, now: now, nodes: map[string]*filed{}, shelves: map[int64]*shelf{}, next: next}
}

// Len returns the number of nodes in the index.
func (x *Index) Len() int { return len(x.nodes) }

// Put adds a node or replaces the one with the same name.
func (x *Index) Put(n IndexedNode) {
	if old, ok := x.nodes[n.Name]; ok {
		if old.node == n {
			return
		}
		x.take(old)
	}
	x.put(n)
}

// Remove removes the node with the given name, if it exists.
func (x *Index) Remove(name string) {
	if old, ok := x.nodes[name]; ok {
		x.take(old)
		delete(x.nodes, name)
	}
}

// Advance moves the index to a later time: nodes whose remaining runtime has shrunk below their bin move to a lower
// one. If now is earlier, for example because a clock was set back, every node is filed again.
func (x *Index) Advance(now time.Time) {
	if now.Before(x.now) {
		x.refile(now)
		return
	}
	x.now = now
	for x.next.Len() > 0 && x.next.First().leaves.Before(now) {
		crossing := x.next.First()
		x.take(crossing)
		x.put(crossing.node)
	}
}

func (x *Index) refile(now time.Time) {
	x.now = now
	x.shelves, x.bins = map[int64]*shelf{}, nil
	x.next.Clear()
	for _, at := range x.nodes {
		x.put(at.node)
	}
}

// Fitting yields the nodes with room for an item of the given size and runtime
// (0 for a service), most preferred first. The index must not be changed during
// the iteration.
func (x *Index) Fitting(size Size, runtime time.Duration) iter.Seq[IndexedNode] {
	return func(yield func(IndexedNode) bool) {
		for bin := range x.binsFrom(BinOf(runtime, x.cycle)) {
			for e := range x.shelves[bin].fitting(size) {
				if !yield(x.nodes[e.name].node) {
					return
				}
			}
		}
	}
}

// Tied yields, in order of name, the names of the nodes that fit an item exactly as well as the given node: those of
// its bin with the same free room, including itself. It yields none if the index does not hold the node. The index must
// not be changed during the iteration. Cost: O(√n), and O(1) for each name.
func (x *Index) Tied(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		at, ok := x.nodes[name]
		if !ok {
			return
		}
		for tied := range x.shelves[at.bin].sameRoom(at.node.Free) {
			if !yield(tied) {
				return
			}
		}
	}
}

// binsFrom yields the bins in the order of [CompareBins].
func (x *Index) binsFrom(own int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		at, _ := slices.BinarySearch(x.bins, own)
		for _, bin := range x.bins[at:] {
			if !yield(bin) {
				return
			}
		}
		for i := at - 1; i >= 0; i-- {
			if !yield(x.bins[i]) {
				return
			}
		}
	}
}

// put files a node that is on no shelf.
func (x *Index) put(n IndexedNode) {
	var remaining time.Duration
	if !n.Finish.IsZero() {
		remaining = n.Finish.Sub(x.now)
	}
	bin := BinOf(remaining, x.cycle)
	s, ok := x.shelves[bin]
	if !ok {
		s = &shelf{}
		x.shelves[bin] = s
		at, _ := slices.BinarySearch(x.bins, bin)
		x.bins = slices.Insert(x.bins, at, bin)
	}
	s.add(entry{free: n.Free, name: n.Name})
	f := &filed{node: n, bin: bin, at: -1}
	x.nodes[n.Name] = f
	if bin > 0 && bin != endlessBin {
		// The moment at which exactly bin cycles remain still belongs to the bin.
		f.leaves = n.Finish.Add(-time.Duration(bin) * x.cycle)
		x.next.Push(f)
	}
}

// take removes a node from its shelf and the heap. The caller must replace or delete its entry in nodes.
func (x *Index) take(f *filed) {
	if f.at >= 0 {
		x.next.Remove(f.at)
	}
	s := x.shelves[f.bin]
	s.remove(entry{free: f.node.Free, name: f.node.Name})
	if s.empty() {
		delete(x.shelves, f.bin)
		if at, found := slices.BinarySearch(x.bins, f.bin); found {
			x.bins = slices.Delete(x.bins, at, at+1)
		}
	}
}
