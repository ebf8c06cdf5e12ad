package purchase

import (
	"math"

	"supercargo.dev/supercargo/internal/packing"
)

// pool finds the first kind of pod that fits without visiting those that do not: a binary tree over the indices, each
// node of which stores the least CPU and the least memory that any pod below it requests, as in queue.
type pool struct {
	width int
	least []packing.Size
}

// fitsNowhere exceeds every machine.
var fitsNowhere = packing.Size{MilliCPU: math.MaxInt64, MemoryBytes: math.MaxInt64}

// newPool returns a pool of the items for which in returns true.
func newPool(items []item, in func(*item) bool) pool {
	width := 1
	for width < len(items) {
		width *= 2
	}
	q := pool{width: width, least: make([]packing.Size, 2*width)}
	for i := range width {
		q.least[width+i] = fitsNowhere
		if i < len(items) && in(&items[i]) {
			q.least[width+i] = items[i].size
		}
	}
	for node := width - 1; node > 0; node-- {
		q.least[node] = q.childMin(node)
	}
	return q
}

// childMin returns the minimum of both children of a tree node.
func (q *pool) childMin(node int) packing.Size {
	a, b := &q.least[2*node], &q.least[2*node+1]
	return packing.Size{MilliCPU: min(a.MilliCPU, b.MilliCPU), MemoryBytes: min(a.MemoryBytes, b.MemoryBytes)}
}

// set puts a kind of this size at an index.
func (q *pool) set(at int, s packing.Size) {
	node := q.width + at
	q.least[node] = s
	for node /= 2; node > 0; node /= 2 {
		now := &q.least[node]
		if s.MilliCPU >= now.MilliCPU && s.MemoryBytes >= now.MemoryBytes {
			return
		}
		now.MilliCPU, now.MemoryBytes = min(now.MilliCPU, s.MilliCPU), min(now.MemoryBytes, s.MemoryBytes)
	}
}

// clear removes the kind at an index.
func (q *pool) clear(at int) {
	node := q.width + at
	q.least[node] = fitsNowhere
	for node /= 2; node > 0; node /= 2 {
		now := q.childMin(node)
		if q.least[node] == now {
			return
		}
		q.least[node] = now
	}
}

// next returns the first index, starting at from, of a kind that fits, or -1, and adds the number of visited tree nodes
// to steps.
func (q *pool) next(from int, room packing.Size, steps *int) int {
	if from >= q.width {
		return -1
	}
	node := q.width + from
	for {
		*steps++
		if s := &q.least[node]; s.MilliCPU <= room.MilliCPU && s.MemoryBytes <= room.MemoryBytes {
			if node >= q.width {
				return node - q.width
			}
			node *= 2
			continue
		}
		for node&1 == 1 { // up to where there is a subtree on the right
			node /= 2
		}
		if node == 0 {
			return -1
		}
		node++
	}
}
