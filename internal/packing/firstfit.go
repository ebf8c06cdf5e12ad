package packing

import "math"

// FirstFit finds the first of a list of items whose CPU and memory fit, without visiting those that do not: a binary tree
// over their indices, each vertex of which stores the least CPU and the least memory that any item below it requests.
// Changing one item costs O(log n). A search costs O(log n), unless items that fit in one resource do not fit in the other.
// Callers check the other resources of what it finds: they make the tree larger, and most items request none.
type FirstFit struct {
	width int
	least []vertex
}

// vertex is the least that any item below a vertex requests.
type vertex struct{ memoryBytes, milliCPU int64 }

func vertexOf(s Size) vertex { return vertex{s.MemoryBytes, s.MilliCPU} }

// fitsNowhere exceeds every room but an unlimited one.
var fitsNowhere = vertex{math.MaxInt64, math.MaxInt64}

// NewFirstFit returns a list of n items. size returns the size of the item at an index, and false if there is none.
func NewFirstFit(n int, size func(at int) (Size, bool)) FirstFit {
	width := 1
	for width < n {
		width *= 2
	}
	f := FirstFit{width: width, least: make([]vertex, 2*width)}
	for i := range width {
		f.least[width+i] = fitsNowhere
		if i < n {
			if s, in := size(i); in {
				f.least[width+i] = vertexOf(s)
			}
		}
	}
	for v := width - 1; v > 0; v-- {
		f.least[v] = f.childMin(v)
	}
	return f
}

// childMin returns the minimum of both children of a vertex.
func (f *FirstFit) childMin(v int) vertex {
	a, b := &f.least[2*v], &f.least[2*v+1]
	return vertex{min(a.memoryBytes, b.memoryBytes), min(a.milliCPU, b.milliCPU)}
}

// Set puts an item of this size at an index.
func (f *FirstFit) Set(at int, s Size) {
	v := f.width + at
	f.least[v] = vertexOf(s)
	for v /= 2; v > 0; v /= 2 {
		now := &f.least[v]
		if s.MilliCPU >= now.milliCPU && s.MemoryBytes >= now.memoryBytes {
			return
		}
		now.milliCPU, now.memoryBytes = min(now.milliCPU, s.MilliCPU), min(now.memoryBytes, s.MemoryBytes)
	}
}

// Clear removes the item at an index.
func (f *FirstFit) Clear(at int) {
	v := f.width + at
	f.least[v] = fitsNowhere
	for v /= 2; v > 0; v /= 2 {
		now := f.childMin(v)
		if f.least[v] == now {
			return
		}
		f.least[v] = now
	}
}

// Next returns the first index, starting at from, of an item whose CPU and memory fit, or -1, and adds the number of
// visited vertices to steps. An unlimited room, of math.MaxInt64 in both resources, also holds indices without an item, and beyond the
// last.
func (f *FirstFit) Next(from int, room *Size, steps *int) int {
	memory, cpu := room.MemoryBytes, room.MilliCPU
	if from >= f.width {
		return -1
	}
	v := f.width + from
	for {
		*steps++
		if s := &f.least[v]; s.milliCPU <= cpu && s.memoryBytes <= memory {
			if v >= f.width {
				return v - f.width
			}
			v *= 2
			continue
		}
		for v&1 == 1 { // up to where there is a subtree on the right
			v /= 2
		}
		if v == 0 {
			return -1
		}
		v++
	}
}
