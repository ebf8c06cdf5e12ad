// Package heap is container/heap for a type: a priority queue without the five methods that its
// interface wants of each.
package heap

import "container/heap"

// Heap is a queue that has the least item first. Of items that are alike, no order is kept: a
// less that knows no ties makes the order certain. It is not safe for concurrent use.
type Heap[T any] struct{ items items[T] }

// New returns an empty heap by an order. moved, unless it is nil, is told of each item where it
// is from now on, for [Heap.Remove]: -1 once it is not in the heap.
func New[T any](less func(a, b T) bool, moved func(item T, at int)) *Heap[T] {
	return &Heap[T]{items[T]{less: less, moved: moved}}
}

// Len returns how many items there are.
func (h *Heap[T]) Len() int { return len(h.items.list) }

// First returns the least item without taking it out. The heap must not be empty.
func (h *Heap[T]) First() T { return h.items.list[0] }

// Push adds an item. Cost: O(log n).
func (h *Heap[T]) Push(item T) { heap.Push(&h.items, item) }

// Pop takes out the least item. The heap must not be empty. Cost: O(log n).
func (h *Heap[T]) Pop() T { return heap.Pop(&h.items).(T) }

// Remove takes out the item at a place. Cost: O(log n).
func (h *Heap[T]) Remove(at int) { heap.Remove(&h.items, at) }

// Clear takes out all items; moved is not told.
func (h *Heap[T]) Clear() { h.items.list = nil }

// items implements [heap.Interface].
type items[T any] struct {
	list  []T
	less  func(a, b T) bool
	moved func(item T, at int)
}

func (i *items[T]) Len() int           { return len(i.list) }
func (i *items[T]) Less(a, b int) bool { return i.less(i.list[a], i.list[b]) }

func (i *items[T]) Swap(a, b int) {
	i.list[a], i.list[b] = i.list[b], i.list[a]
	i.tell(a)
	i.tell(b)
}

func (i *items[T]) tell(at int) {
	if i.moved != nil {
		i.moved(i.list[at], at)
	}
}

// Push implements [heap.Interface].
func (i *items[T]) Push(item any) {
	i.list = append(i.list, item.(T))
	i.tell(len(i.list) - 1)
}

// Pop implements [heap.Interface].
func (i *items[T]) Pop() any {
	last := len(i.list) - 1
	item := i.list[last]
	var none T
	i.list[last], i.list = none, i.list[:last] // what it refers to can go
	if i.moved != nil {
		i.moved(item, -1)
	}
	return item
}
