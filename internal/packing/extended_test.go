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
		{"nothing where devices have failed", Extended{}, Amounts(-1), true},
		{"one of another where devices have failed", Amounts(0, 1), Amounts(-1, 1), true},
		{"as much as is free", Amounts(2), Amounts(2), true},
		{"more than is free", Amounts(3), Amounts(2), false},
		{"another than is free", Amounts(0, 1), Amounts(1), false},
		{"too much of one of two", Amounts(1, 0, 0, 2), Amounts(1, 0, 0, 1), false},
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
	most, least := Amounts(math.MaxInt16, 1), Amounts(math.MinInt16, 1)
	if got, want := most.Plus(Amounts(1, 1)), Amounts(math.MaxInt16, 2); got != want {
		t.Errorf("the sum is %v, want %v", got, want)
	}
	if got, want := least.Minus(Amounts(1, 2)), Amounts(math.MinInt16, -1); got != want {
		t.Errorf("the difference is %v, want %v", got, want)
	}
}

// TestRoomIsWhatIsLeftOfEachResource puts items into a room and takes them out again.
func TestRoomIsWhatIsLeftOfEachResource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (s Size) {
			s = Size{MilliCPU: rapid.Int64Range(0, 9).Draw(t, name), MemoryBytes: rapid.Int64Range(0, 9).Draw(t, name)}
			for i := range Slots {
				s.Extended = s.Extended.With(i, rapid.Int16Range(0, 3).Draw(t, name))
			}
			return s
		}
		room, item := draw("room"), draw("item")
		left := room.Minus(item)
		fits := left.MilliCPU >= 0 && left.MemoryBytes >= 0
		for i := range Slots {
			fits = fits && (left.Extended.At(i) >= 0 || item.Extended.At(i) == 0)
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
	if got, want := Amounts(3, 1, 0, 1).Beyond(Amounts(2, 1, -1)), Amounts(3, 0, 0, 1); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if Amounts(1, 0).Shares(Amounts(0, 1)) || !Amounts(1, 1).Shares(Amounts(0, 1)) {
		t.Error("sizes share the resources of which both have some")
	}
}

// TestEachSlotIsComputedByItself compares each method with the same on single numbers.
func TestEachSlotIsComputedByItself(t *testing.T) {
	limited := func(n int) int16 { return int16(min(max(n, math.MinInt16), math.MaxInt16)) }
	amount := rapid.OneOf(rapid.Int16Range(-2, 2), rapid.SampledFrom([]int16{math.MinInt16, math.MinInt16 + 1, math.MaxInt16 - 1, math.MaxInt16}), rapid.Int16())
	rapid.Check(t, func(t *rapid.T) {
		as, bs := rapid.SliceOfN(amount, Slots, Slots).Draw(t, "a"), rapid.SliceOfN(amount, Slots, Slots).Draw(t, "b")
		a, b := Amounts(as...), Amounts(bs...)
		methods := []struct {
			name string
			got  Extended
			want func(a, b int16) int16
		}{
			{"plus", a.Plus(b), func(a, b int16) int16 { return limited(int(a) + int(b)) }},
			{"minus", a.Minus(b), func(a, b int16) int16 { return limited(int(a) - int(b)) }},
			{"most", a.Most(b), func(a, b int16) int16 { return max(a, b) }},
			{"least", a.Least(b), func(a, b int16) int16 { return min(a, b) }},
			{"only", a.Only(b), func(a, b int16) int16 { return when(b > 0, a) }},
			{"beyond", a.Beyond(b), func(a, b int16) int16 { return when(a > 0 && a > b, a) }},
			{"requested", a.Requested(), func(a, _ int16) int16 { return when(a > 0, 1) }},
		}
		fits, shares := true, false
		for i := range Slots {
			for _, m := range methods {
				if want := m.want(as[i], bs[i]); m.got.At(i) != want {
					t.Errorf("%v %s %v is %v, want %d in slot %d", a, m.name, b, m.got, want, i)
				}
			}
			fits, shares = fits && (as[i] <= 0 || as[i] <= bs[i]), shares || as[i] > 0 && bs[i] > 0
		}
		if a.Fits(b) != fits || a.Shares(b) != shares {
			t.Errorf("%v fits into %v: %t, shares: %t; want %t, %t", a, b, a.Fits(b), a.Shares(b), fits, shares)
		}
	})
}

// when returns the amount if a condition holds, else 0.
func when(holds bool, amount int16) int16 {
	if holds {
		return amount
	}
	return 0
}

func TestOneAmountIsSetWithoutTheOthers(t *testing.T) {
	if got, want := Amounts(1, -2, 3, -4).With(1, 5).With(3, -1), Amounts(1, 5, 3, -1); got != want || got.String() != "[1 5 3 -1]" {
		t.Errorf("%v, want %v", got, want)
	}
	if !Amounts().None() || !Amounts(0, 0).None() || Amounts(0, 0, 0, -1).None() {
		t.Error("a size has none of what it has 0 of")
	}
}
