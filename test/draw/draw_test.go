package draw

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestInputsAreTheSameInEachRunAndOnlyThere(t *testing.T) {
	drawn := func() (all [][]int) {
		Fixed(t, 20, func(t *rapid.T) {
			all = append(all, rapid.SliceOfN(rapid.IntRange(0, 1000), 5, 50).Draw(t, "numbers"))
		})
		return all
	}
	first, second := drawn(), drawn()
	if len(first) != 20 || !slices.EqualFunc(first, second, slices.Equal) {
		t.Errorf("%d inputs %v, then %v, want 20 and the same", len(first), first, second)
	}
	if slices.EqualFunc(first[:1], first[19:], slices.Equal) {
		t.Errorf("the first and the last are %v", first[0])
	}
	var random [][]int
	rapid.Check(t, func(t *rapid.T) {
		random = append(random, rapid.SliceOfN(rapid.IntRange(0, 1000), 5, 50).Draw(t, "numbers"))
	})
	if len(random) < 20 || slices.EqualFunc(random[:20], first, slices.Equal) {
		t.Errorf("%d inputs %v, want others", len(random), random)
	}
}
