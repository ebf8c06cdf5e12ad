package mix

import "testing"

// expensive returns a search whose only mix is about two percent above its bound.
func expensive(t *testing.T) *solver {
	t.Helper()
	const linear, bimodal = 4, 2
	p := problemOfFamily(t, linear, bimodal, manyItems)
	s := &solver{Problem: p, budget: &Budget{}, stop: never, effort: 32_000_000}
	s.constructed(strategies[0], p.counts(), p.basic)
	s.steps = 0
	if least := p.Least(); p.price(&s.best) < least+least/100 {
		t.Fatalf("the price is %d, and the bound %d: want a price more than one percent above it", p.price(&s.best), least)
	}
	return s
}

func TestASearchPersistsWhileItsMixIsExpensive(t *testing.T) {
	s := expensive(t)
	s.persist()
	least := s.Least()
	if price := s.price(&s.best); price > least+least/100 || held(&s.best) != manyItems {
		t.Errorf("the price is %d for %d items, and the bound %d: want at most one percent more for %d", price, held(&s.best), least, manyItems)
	}
	s.steps = 0
	if s.persist(); s.steps > 0 {
		t.Errorf("a search whose mix is cheap enough takes %d steps, want none", s.steps)
	}
}

func TestASearchDoesNotPersistBeyondItsEffort(t *testing.T) {
	s := expensive(t)
	s.steps = s.effort / 4 * 5
	was := s.steps
	if s.persist(); s.steps > was {
		t.Errorf("the search takes %d steps more, want none", s.steps-was)
	}
}

// TestASearchThatIsStoppedKeepsItsBestMix stops before, between and amid attempts, later each time.
func TestASearchThatIsStoppedKeepsItsBestMix(t *testing.T) {
	s := expensive(t)
	first, before := s.best, s.price(&s.best)
	for most := 0; most < 2_000; most += most/4 + 1 {
		polls := 0
		s.best, s.steps, s.stop = first, 0, func() bool {
			polls++
			return polls > most
		}
		s.rebuild(longer(0), s.effort)
		if after := s.price(&s.best); after > before || held(&s.best) != manyItems {
			t.Fatalf("stopped after %d polls, %d items cost %d, and %d before: want at most that for %d", most, held(&s.best), after, before, manyItems)
		}
		before = s.price(&s.best)
		if polls > most+2 {
			t.Fatalf("stopped after %d polls, the search continues for %d more", most, polls-most)
		}
	}
}

// TestLargeMachinesTakeItemsOfAllSizes has items that fill a machine by CPU when half of its places are used, unless
// small ones use them.
func TestLargeMachinesTakeItemsOfAllSizes(t *testing.T) {
	const places = 20
	var items []Item
	for range 200 {
		items = append(items, item(100, 100), item(10, 10))
	}
	b := bin(1000, 1000, 1000)
	b.Places = places
	p := problemOf(items, b)
	for _, tc := range []struct {
		even        bool
		least, most int
	}{{false, 10, 10}, {true, 18, places}} {
		k := &packer{p: p}
		k.stock(p.counts(), p.basic)
		f := filling{space: space{size: b.Size, places: places, enough: 1 << 63}, room: b.Size}
		k.fill(&f, &k.pool, 24, tc.even)
		if n := len(f.lots); n < tc.least || n > tc.most {
			t.Errorf("even %t: %d items on the machine, want %d to %d", tc.even, n, tc.least, tc.most)
		}
	}
}

// TestALongerSearchDestroysAPartOfThePrice has a machine that costs as much as ten others together.
func TestALongerSearchDestroysAPartOfThePrice(t *testing.T) {
	items := []Item{item(100, 100)}
	for range 10 {
		items = append(items, item(10, 10))
	}
	p := problemOf(items, bin(10, 10, 10), bin(100, 100, 100))
	s := &solver{Problem: p}
	small, large := []int{}, -1
	for k := range p.kinds {
		for range p.kinds[k].items {
			s.best.machines = append(s.best.machines, p.newMachine([]int32{int32(k)}))
			if at := len(s.best.machines) - 1; p.offers[s.best.machines[at].offer].price == 100 {
				large = at
			} else {
				small = append(small, at)
			}
		}
	}
	if n := s.ofPrice(append([]int{large}, small...), 40); n != 1 {
		t.Errorf("%d machines are 40 %% of the price, the large one first: want 1", n)
	}
	if n := s.ofPrice(append(small, large), 40); n != 8 {
		t.Errorf("%d machines are 40 %% of the price, small ones first: want 8", n)
	}
	byPrice, byNumber, lengths := longer(0), usual(), map[int]bool{}
	for range 100 {
		if gone := s.wasteful(byNumber, 40); len(gone) != 4 {
			t.Errorf("%d of 11 machines are destroyed, want 40 %%", len(gone))
		}
		gone, price := s.wasteful(byPrice, 40), uint64(0)
		for _, at := range gone {
			price += p.offers[s.best.machines[at].offer].price
		}
		if lengths[len(gone)] = true; price < 80 {
			t.Errorf("machines for %d of 200 are destroyed, want 40 %%", price)
		}
	}
	if len(lengths) < 2 {
		t.Errorf("the number of machines is always one of %v", lengths)
	}
}
