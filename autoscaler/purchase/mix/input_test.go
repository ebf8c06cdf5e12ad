package mix

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEveryItemIsBoughtForOrLeft within all limits.
func TestEveryItemIsBoughtForOrLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bins := append(drawBins(t), bin(12, 12, 9))
		items := fitting(append(drawItems(t), item(3, 4), item(3, 4)), bins)
		p := problemOf(items, bins...)
		limits := Limits{Machines: rapid.Ptr(rapid.Int64Range(0, 3), true).Draw(t, "machines")}
		s := p.Solve(NewBudget(limits), nil, 20_000, never)
		machines, left := p.Bought(&s)
		seen := slices.Clone(left)
		for _, m := range machines {
			b := bins[slices.IndexFunc(bins, func(b Bin) bool { return b.Number == m.Bin })]
			used := size(0, 0)
			for _, at := range m.Items {
				used = used.Plus(items[at].Size)
				if b.Admits[items[at].Class] != Admitted || items[at].Paid > m.Paid {
					t.Fatalf("item %+v is on a machine of %+v, paid for %v", items[at], b, m.Paid)
				}
			}
			if used != m.Used || !used.Fits(b.Size) || int64(len(m.Items)) > b.Places {
				t.Fatalf("%d items use %v, said to be %v, on %+v", len(m.Items), used, m.Used, b)
			}
			seen = append(seen, m.Items...)
		}
		slices.Sort(seen)
		if len(seen) != len(items) || len(slices.Compact(seen)) != len(items) {
			t.Fatalf("%d items are bought for or left, want each of %d once", len(seen), len(items))
		}
		if limits.Machines == nil && len(left) > 0 || limits.Machines != nil && len(machines) > int(*limits.Machines) {
			t.Fatalf("%d machines, %d items left", len(machines), len(left))
		}
	})
}

// TestABinSoldInSmallNumbersReplacesNoOther: the larger bin is cheaper, but there is one of it.
func TestABinSoldInSmallNumbersReplacesNoOther(t *testing.T) {
	few := bin(4, 4, 1)
	few.Most = new(1)
	p := problemOf([]Item{item(3, 3), item(3, 3)}, few, bin(3, 3, 2))
	s := p.Solve(NewBudget(Limits{}), nil, 20_000, never)
	if machines, left := p.Bought(&s); len(machines) != 2 || machines[0].Bin == machines[1].Bin || len(left) > 0 {
		t.Errorf("bought %+v, left %v: want one machine of each bin", machines, left)
	}
}

// TestARivalIsTakenIfItIsBetterAndStoppedIfNot gives a search that may take no steps a rival.
func TestARivalIsTakenIfItIsBetterAndStoppedIfNot(t *testing.T) {
	var items []Item
	for range 2 * (ExactItems + 1) {
		items = append(items, item(1, 1))
	}
	for _, dear := range []bool{false, true} {
		p := problemOf(items, bin(2, 2, 2), bin(1, 1, 2))
		asked, stopped := 0, false
		rival := func(most int, enough func(items []int) bool) (left []int, whole bool) {
			if most != 0 {
				t.Errorf("the rival may buy %d machines, want any number", most)
			}
			for i := range items {
				held := []int{i}
				if !dear {
					if i%2 == 1 {
						continue
					}
					held = []int{i, i + 1}
				}
				asked++
				if stopped = enough(held); stopped {
					return nil, false
				}
			}
			return nil, true
		}
		s := p.Solve(NewBudget(Limits{}), []Rival{rival}, 1, never)
		machines, left := p.Bought(&s)
		if len(machines) != len(items)/2 || len(left) > 0 {
			t.Errorf("%d machines, %d items left, want %d full machines", len(machines), len(left), len(items)/2)
		}
		if asked == 0 || stopped != dear {
			t.Errorf("rival with dear=%v: asked %d times, stopped %v", dear, asked, stopped)
		}
		if dear && asked > 3 {
			t.Errorf("a rival whose machines are half empty is stopped after %d of them, want few: what is left costs money, too", asked)
		}
	}
}

func TestARivalThatPlacesMoreIsNotStoppedForItsPrice(t *testing.T) {
	var items []Item
	for range ExactItems + 10 {
		items = append(items, item(1, 1))
	}
	p := problemOf(items, bin(4, 4, 10))
	var asked []int // how many machines it may buy; 0 for any number
	rival := func(most int, enough func(items []int) bool) (left []int, whole bool) {
		asked = append(asked, most)
		if most > 0 && enough([]int{0, 1, 2, 3}) {
			t.Error("the rival is stopped although items have no machine")
		}
		return nil, false
	}
	s := p.Solve(NewBudget(Limits{Machines: new(int64(1))}), []Rival{rival}, 1, never)
	if machines, left := p.Bought(&s); len(machines) != 1 || len(left) != len(items)-4 {
		t.Errorf("%d machines, %d items left", len(machines), len(left))
	}
	if !slices.Equal(asked, []int{0, 1}) {
		t.Errorf("the rival is asked for %v machines, want any number, then 1", asked)
	}
}

func TestRoomsTakeFirstWhatNoMachineHolds(t *testing.T) {
	for _, exact := range []bool{false, true} {
		in := &Input{
			Items: []Item{item(1, 1), item(4, 4)}, Classes: make([]Class, 1), Bins: []Bin{bin(2, 2, 20)},
			Rooms: []Room{{Size: size(4, 4), Places: math.MaxInt64, Admits: "+"}},
		}
		if got := New(in).FillRooms(exact); len(got) != 1 || !slices.Equal(got[0], []int{1}) {
			t.Errorf("exact %v: the room takes items %v, want item 1", exact, got)
		}
	}
}

// TestRoomsTakeWhatIsWorthMost elsewhere, and no more than they hold.
func TestRoomsTakeWhatIsWorthMost(t *testing.T) {
	for _, exact := range []bool{false, true} {
		in := &Input{
			Items: []Item{item(1, 1), item(4, 4), item(2, 2)}, Classes: make([]Class, 1),
			Bins:  []Bin{bin(1, 1, 10), bin(2, 2, 20), bin(4, 4, 40)},
			Rooms: []Room{{Size: size(4, 4), Places: 2, Admits: "-"}, {Size: size(4, 4), Places: math.MaxInt64, Admits: "+"}},
		}
		if got := New(in).FillRooms(exact); len(got) != 2 || len(got[0]) > 0 || !slices.Equal(got[1], []int{1}) {
			t.Errorf("exact %v: rooms take items %v, want item 1 in the second", exact, got)
		}
	}
}
