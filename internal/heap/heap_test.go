package heap_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"supercargo.dev/supercargo/internal/heap"
)

type item struct{ key, at int }

func TestItemsComeLeastFirstAndKnowTheirPlace(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	h := heap.New(func(a, b *item) bool { return a.key < b.key }, func(i *item, at int) { i.at = at })
	var left []*item // the items in the heap, in no order
	for step := range 10_000 {
		switch at := random.IntN(3); {
		case at == 0 || len(left) == 0:
			i := &item{key: random.IntN(50)}
			h.Push(i)
			left = append(left, i)
		case at == 1:
			least := slices.MinFunc(left, func(a, b *item) int { return cmp.Compare(a.key, b.key) }).key
			first := h.First()
			if got := h.Pop(); got != first || got.key != least || got.at != -1 {
				t.Fatalf("seed %d, step %d: %+v comes, want the first, %+v, with key %d and out of the heap", seed, step, got, first, least)
			}
			left = slices.DeleteFunc(left, func(i *item) bool { return i == first })
		default:
			gone := random.IntN(len(left))
			h.Remove(left[gone].at)
			if left[gone].at != -1 {
				t.Fatalf("seed %d, step %d: a removed item is at %d", seed, step, left[gone].at)
			}
			left = slices.Delete(left, gone, gone+1)
		}
		if h.Len() != len(left) {
			t.Fatalf("seed %d, step %d: %d items, want %d", seed, step, h.Len(), len(left))
		}
	}
	h.Clear()
	if h.Len() != 0 {
		t.Errorf("a heap that was cleared has %d items", h.Len())
	}
}

func TestPlacesAreNotToldWhereNobodyAsks(t *testing.T) {
	h := heap.New(func(a, b int) bool { return a < b }, nil)
	for _, i := range []int{3, 1, 2} {
		h.Push(i)
	}
	if got := []int{h.Pop(), h.Pop(), h.Pop()}; !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("%v", got)
	}
}
