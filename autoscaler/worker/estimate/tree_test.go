package estimate

import (
	"testing"

	"pgregory.net/rapid"
)

func TestATreeFindsTheFirstThatIsLargeEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr tree
		amounts := rapid.SliceOfN(anyNeedAtAll, 0, 20).Draw(t, "amounts")
		tr.reset(len(amounts))
		for i, r := range amounts {
			tr.put(i, r)
		}
		tr.sum()
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			place, r := rapid.IntRange(0, len(amounts)).Draw(t, "place"), anyNeedAtAll.Draw(t, "amount")
			tr.set(place, r)
			if place == len(amounts) {
				amounts = append(amounts, r)
			} else {
				amounts[place] = r
			}
		}
		from, need := rapid.IntRange(0, len(amounts)+2).Draw(t, "from"), anyNeedAtAll.Draw(t, "need")
		want := none
		for i := from; i < len(amounts) && want == none; i++ {
			if need.Fits(amounts[i]) {
				want = i
			}
		}
		if got := tr.first(from, need); got != want {
			t.Errorf("from %d on %+v fits %d first, want %d of %+v", from, need, got, want, amounts)
		}
	})
}
