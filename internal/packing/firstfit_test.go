package packing

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPoolsFindTheFirstThatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() Size {
			return Size{MilliCPU: rapid.Int64Range(0, 9).Draw(t, "cpu"), MemoryBytes: rapid.Int64Range(0, 9).Draw(t, "memory")}
		}
		items := make([]Size, rapid.IntRange(1, 20).Draw(t, "items"))
		in := make([]bool, len(items))
		for i := range items {
			items[i] = draw()
			in[i] = rapid.Bool().Draw(t, "in")
		}
		q := NewFirstFit(len(items), func(at int) (Size, bool) { return items[at], in[at] })
		for range 20 {
			at, room := rapid.IntRange(0, len(items)-1).Draw(t, "at"), draw()
			switch rapid.IntRange(0, 2).Draw(t, "do") {
			case 0:
				q.Set(at, items[at])
				in[at] = true
			case 1:
				q.Clear(at)
				in[at] = false
			}
			want, steps := -1, 0
			for i := len(items) - 1; i >= at; i-- {
				if in[i] && items[i].MilliCPU <= room.MilliCPU && items[i].MemoryBytes <= room.MemoryBytes {
					want = i
				}
			}
			if got := q.Next(at, &room, &steps); got != want {
				t.Fatalf("from %d into %v: %d, want %d", at, room, got, want)
			}
		}
	})
}
