package packing

import "math"

// FirstFit finds the first of a list of items that fits, without visiting those that do not: a binary tree over their
// indices, each vertex of which stores the least CPU and the least memory that any item below it requests. Changing one
// item costs O(log n). A search costs O(log n), unless items that fit in one resource do not fit in the other.
type FirstFit struct {
	width int
	least []Size
}

// fitsNowhere exceeds every room but an unlimited one.
var fitsNowhere = Size{MilliCPU: math.MaxInt64, MemoryBytes: math.MaxInt64}

// NewFirstFit returns a list of n items. size returns the size of the item at an index, and false if there is none.
func NewFirstFit(n int, size func(at int) (Size, bool)) FirstFit {
	width := 1
	for width < n {
		width *= 2
	}
	f := FirstFit{width: width, least: make([]Size, 2*width)}
	for i := range width {
		f.least[width+i] = fitsNowhere
		if i < n {
			if s, in := size(i); in {
				f.least[width+i] = s
			}
		}
	}
	for v := width - 1; v > 0; v-- {
		f.least[v] = f.childMin(v)
	}
	return f
}

// childMin returns the minimum of both children of a vertex.
func (f *FirstFit) childMin(v int) Size {
	a, b := &f.least[2*v], &f.least[2*v+1]
	return Size{MilliCPU: min(a.MilliCPU, b.MilliCPU), MemoryBytes: min(a.MemoryBytes, b.MemoryBytes)}
}

// Set puts an item of this size at an index.
func (f *FirstFit) Set(at int, s Size) {
	v := f.width + at
	f.least[v] = s
	for v /= 2; v > 0; v /= 2 {
		now := &f.least[v]
		if s.MilliCPU >= now.MilliCPU && s.MemoryBytes >= now.MemoryBytes {
			return
		}
		now.MilliCPU, now.MemoryBytes = min(now.MilliCPU, s.MilliCPU), min(now.MemoryBytes, s.MemoryBytes)
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

// Next returns the first index, starting at from, of an item that fits, or -1, and adds the number of visited vertices
// to steps. An unlimited room, of math.MaxInt64 in both resources, also holds indices without an item, and beyond the
// last.
func (f *FirstFit) Next(from int, room Size, steps *int) int {
	if from >= f.width {
		return -1
	}
	v := f.width + from
	for {
		*steps++
		if s := &f.least[v]; s.MilliCPU <= room.MilliCPU && s.MemoryBytes <= room.MemoryBytes {
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
