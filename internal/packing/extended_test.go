package packing

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatIsNotRequestedFitsWhateverIsFree(t *testing.T) {
	tests := []struct {
		name       string
		asks, free Extended
		want       bool
	}{
		{"nothing into nothing", Extended{}, Extended{}, true},
		{"nothing where devices have failed", Extended{}, Extended{-1}, true},
		{"one of another where devices have failed", Extended{0, 1}, Extended{-1, 1}, true},
		{"as much as is free", Extended{2}, Extended{2}, true},
		{"more than is free", Extended{3}, Extended{2}, false},
		{"another than is free", Extended{0, 1}, Extended{1}, false},
		{"too much of one of two", Extended{1, 0, 0, 2}, Extended{1, 0, 0, 1}, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.asks.Fits(tc.free); got != tc.want {
				t.Errorf("%v fits into %v: %t, want %t", tc.asks, tc.free, got, tc.want)
			}
			if got := (Size{MilliCPU: 1, MemoryBytes: 1, Extended: tc.asks}).Fits(Size{MilliCPU: 1, MemoryBytes: 1, Extended: tc.free}); got != tc.want {
				t.Errorf("a size with %v fits into one with %v: %t, want %t", tc.asks, tc.free, got, tc.want)
			}
		})
	}
}

func TestAmountsOfExtendedResourcesDoNotOverflow(t *testing.T) {
	most, least := Extended{math.MaxInt16, 1}, Extended{math.MinInt16, 1}
	if got, want := most.Plus(Extended{1, 1}), (Extended{math.MaxInt16, 2}); got != want {
		t.Errorf("the sum is %v, want %v", got, want)
	}
	if got, want := least.Minus(Extended{1, 2}), (Extended{math.MinInt16, -1}); got != want {
		t.Errorf("the difference is %v, want %v", got, want)
	}
}

// TestRoomIsWhatIsLeftOfEachResource puts items into a room and takes them out again.
func TestRoomIsWhatIsLeftOfEachResource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (s Size) {
			s = Size{MilliCPU: rapid.Int64Range(0, 9).Draw(t, name), MemoryBytes: rapid.Int64Range(0, 9).Draw(t, name)}
			for i := range s.Extended {
				s.Extended[i] = rapid.Int16Range(0, 3).Draw(t, name)
			}
			return s
		}
		room, item := draw("room"), draw("item")
		left := room.Minus(item)
		fits := left.MilliCPU >= 0 && left.MemoryBytes >= 0
		for i := range left.Extended {
			fits = fits && (left.Extended[i] >= 0 || item.Extended[i] == 0)
		}
		if item.Fits(room) != fits {
			t.Errorf("%v fits into %v: %t, and %v would be left", item, room, !fits, left)
		}
		if back := left.Plus(item); back != room {
			t.Errorf("%v minus and plus %v is %v", room, item, back)
		}
		if most := room.Most(item); !room.Fits(most) || !item.Fits(most) || !room.Least(item).Fits(room) {
			t.Errorf("of %v and %v, %v is the most and %v the least", room, item, most, room.Least(item))
		}
	})
}

func TestWhatExceedsTheFreeAmountsIsSingledOut(t *testing.T) {
	if got, want := (Extended{3, 1, 0, 1}).Beyond(Extended{2, 1, -1}), (Extended{3, 0, 0, 1}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if (Extended{1, 0}).Shares(Extended{0, 1}) || !(Extended{1, 1}).Shares(Extended{0, 1}) {
		t.Error("sizes share the resources of which both have some")
	}
}
