// Package heap wraps container/heap as a generic priority queue, so that users need not implement [heap.Interface].
package heap

import "container/heap"

// Heap is a priority queue with the least item first. The order of equal items is undefined, so less should have no
// ties if the order matters. Heap is not safe for concurrent use.
type Heap[T any] struct{ items items[T] }

// New returns an empty heap ordered by less. moved, if not nil, is called with the new position of each item that
// moves, for [Heap.Remove]; the position is -1 when the item leaves the heap.
func New[T any](less func(a, b T) bool, moved func(item T, at int)) *Heap[T] {
	return &Heap[T]{items[T]{less: less, moved: moved}}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items.list) }

// First returns the least item without removing it. The heap must not be empty.
func (h *Heap[T]) First() T { return h.items.list[0] }

// Push adds an item. Cost: O(log n).
func (h *Heap[T]) Push(item T) { heap.Push(&h.items, item) }

// Pop removes and returns the least item. The heap must not be empty. Cost: O(log n).
func (h *Heap[T]) Pop() T { return heap.Pop(&h.items).(T) }

// Remove removes the item at the given position. Cost: O(log n).
func (h *Heap[T]) Remove(at int) { heap.Remove(&h.items, at) }

// Clear removes all items without calling moved.
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
	i.notify(a)
	i.notify(b)
}

func (i *items[T]) notify(at int) {
	if i.moved != nil {
		i.moved(i.list[at], at)
	}
}

// Push implements [heap.Interface].
func (i *items[T]) Push(item any) {
	i.list = append(i.list, item.(T))
	i.notify(len(i.list) - 1)
}

// Pop implements [heap.Interface].
func (i *items[T]) Pop() any {
	last := len(i.list) - 1
	item := i.list[last]
	var none T
	i.list[last], i.list = none, i.list[:last] // so that the item can be garbage-collected
	if i.moved != nil {
		i.moved(item, -1)
	}
	return item
}
