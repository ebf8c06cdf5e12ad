package mix

import (
	"cmp"
	"math"
	"slices"
)

// Solution is a solution of a problem: machines, and the items without one.
type Solution struct {
	machines []machine
	// waiting is the number of items of each kind without a machine, missing their sum.
	waiting []int32
	missing int
}

// rank orders mixes: fewest items without a machine, lowest bill, fewest machines.
type rank struct {
	missing  int
	bill     bill
	machines int
}

func (r rank) compare(other rank) int {
	return cmp.Or(cmp.Compare(r.missing, other.missing), r.bill.compare(other.bill), cmp.Compare(r.machines, other.machines))
}

func (p *Problem) rank(m *Solution) rank {
	r := rank{missing: m.missing, machines: len(m.machines)}
	for i := range m.machines {
		r.bill = r.bill.plus(p.bill(&m.machines[i]))
	}
	return r
}

// pickedMachines and pickedItems limit how much is destroyed at once: at most this many machines, and none after this
// many items.
const pickedMachines, pickedItems = 6, 160

// searcher improves mixes by large neighbourhood search (destroy and repair). It removes a few
// machines, packs their items again by a random heuristic, and keeps what is no worse.
type searcher struct {
	*builder
	most   int   // machines
	timed  bool  // machines have different billed times
	picked []int // indices of the destroyed machines
	kinds  []int32
	shown  []int32
	made   []machine
	offers []int
}

func newSearcher(p *Problem, most int) *searcher {
	return &searcher{builder: newBuilder(p), most: most, timed: p.timed()}
}

// improve changes a mix into a better or equal one, in about the given number of steps.
func (s *searcher) improve(m *Solution, steps int) {
	for end := s.steps + steps; s.steps < end && len(m.machines) > 0; {
		s.step(m)
	}
}

// step tries one change.
func (s *searcher) step(m *Solution) {
	s.pick(m)
	was := rank{machines: len(s.picked)}
	limit := uint64(1)
	for _, i := range s.picked {
		gone := &m.machines[i]
		limit += s.p.scaledBill(gone)
		was.bill = was.bill.plus(s.p.bill(gone))
		for _, k := range gone.kinds {
			s.release(k, 1)
		}
	}
	if was.missing = s.releaseWaiting(m); was.missing > 0 {
		limit = math.MaxUint64 // placing them may cost more
	}
	slices.Sort(s.kinds)
	made, whole := s.build(s.offered(was.missing > 0), s.randomHeuristic(was.missing > 0), limit, s.most-len(m.machines)+len(s.picked), s.made[:0])
	is := rank{machines: len(made)}
	for _, k := range s.kinds {
		is.missing += int(s.left[k])
	}
	for i := range made {
		is.bill = is.bill.plus(s.p.bill(&made[i]))
	}
	s.made = made
	if whole && is.compare(was) <= 0 {
		s.swap(m, is.missing-was.missing)
	}
	for _, k := range s.kinds {
		s.left[k] = 0
	}
}

// release adds items of a kind to those to pack.
func (s *searcher) release(k, items int32) {
	if s.left[k] == 0 {
		s.kinds = append(s.kinds, k)
	}
	s.left[k] += items
}

// releaseWaiting adds the items without a machine of the released kinds, and of a few more kinds, and returns their
// number.
func (s *searcher) releaseWaiting(m *Solution) int {
	if m.missing == 0 {
		return 0
	}
	n := len(s.kinds)
	sum := 0
	add := func(k int32) {
		s.left[k] += m.waiting[k]
		sum += int(m.waiting[k])
	}
	for _, k := range s.kinds[:n] {
		add(k)
	}
	from := s.intN(len(m.waiting))
	for i := range m.waiting {
		k := int32((from + i) % len(m.waiting))
		s.steps++
		if m.waiting[k] > 0 && s.left[k] == 0 {
			s.kinds = append(s.kinds, k)
			add(k)
		}
		if len(s.kinds) >= n+32 {
			break
		}
	}
	return sum
}

// offered returns the kinds to pack: all released ones, or all but a few if items may be left out.
func (s *searcher) offered(missing bool) []int32 {
	s.shown = append(s.shown[:0], s.kinds...)
	for hidden := s.intN(4); missing && hidden > 0 && len(s.shown) > 1; hidden-- {
		at := s.intN(len(s.shown))
		s.shown = slices.Delete(s.shown, at, at+1)
	}
	return s.shown
}

// swap replaces the picked machines by the made ones.
func (s *searcher) swap(m *Solution, missing int) {
	slices.Sort(s.picked)
	for _, i := range slices.Backward(s.picked) {
		last := len(m.machines) - 1
		m.machines[i] = m.machines[last]
		m.machines = m.machines[:last]
	}
	for _, made := range s.made {
		made.kinds = slices.Clone(made.kinds)
		m.machines = append(m.machines, made)
	}
	m.missing += missing
	if m.waiting != nil {
		for _, k := range s.kinds {
			m.waiting[k] = s.left[k]
		}
	}
}

// pick draws machines to destroy: a wasteful one, and others, mostly of similar time.
func (s *searcher) pick(m *Solution) {
	ms := m.machines
	s.kinds, s.picked = s.kinds[:0], s.picked[:0]
	first, other := s.intN(len(ms)), s.intN(len(ms))
	if s.waste(&ms[other]) > s.waste(&ms[first]) {
		first = other
	}
	s.picked = append(s.picked, first)
	items := len(ms[first].kinds)
	near := s.timed && s.intN(4) > 0
	n := min(2+s.intN(pickedMachines-1), len(ms))
	for tries := 0; len(s.picked) < n && tries < 10 && items < pickedItems; tries++ {
		at := s.intN(len(ms))
		for i := 0; i < 24 && near; i++ {
			if o := s.intN(len(ms)); gap(ms[o].time, ms[first].time) < gap(ms[at].time, ms[first].time) {
				at = o
			}
		}
		if !slices.Contains(s.picked, at) {
			s.picked = append(s.picked, at)
			items += len(ms[at].kinds)
		}
	}
	s.steps += 40 + 8*len(s.picked)
}

func gap(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// waste returns approximately what a machine costs beyond the worth of its items.
func (s *searcher) waste(m *machine) uint64 { return s.p.scaledBill(m) - m.worth }

// randomHeuristic draws a heuristic.
func (s *searcher) randomHeuristic(missing bool) heuristic {
	t := heuristic{window: 1 << s.intN(5), timePenalty: s.intN(10), noise: uint(s.intN(8)), balanced: s.intN(2) == 0,
		noisyOffers: s.intN(4) == 0, offers: s.p.all}
	if t.noisyOffers {
		t.noise = uint(s.intN(11))
	}
	if few := s.intN(4); few > 0 {
		s.offers = s.offers[:0]
		for _, o := range s.p.all {
			if s.intN(4) < few {
				s.offers = append(s.offers, o)
			}
		}
		t.offers = s.offers
	}
	if missing {
		t.goal = goal(s.intN(3))
	}
	return t
}

// destruction is how [solver.rebuild] chooses what to destroy, and how it buys again.
type destruction struct {
	// percents are how much of all machines to destroy, in turn: of their price or, if not ofPrice, of their number.
	percents []int
	ofPrice  bool
	// halvings makes the choice more random: see [destruction.factor].
	halvings int
	// strategies are those of which one is drawn each time.
	strategies []strategy
	// enough is the price per hour, in micro-dollars, at which the mix is cheap enough; 0 means none.
	enough int64
	random
}

// usual is the destruction of every search for many items.
func usual() *destruction {
	return &destruction{percents: []int{50, 25, 12, 6}, strategies: strategies}
}

// longer is the destruction of a search that persists until a price is reached. In most mixes that are too expensive, a
// large machine is not full, or small machines hold what another large one could. It helps to destroy a part of the
// price at once, of which large machines are much and small ones little. It also helps to fill large machines with items
// of all sizes, so that small ones use their places.
func longer(enough int64) *destruction {
	return &destruction{percents: []int{40, 20}, ofPrice: true, halvings: 4, strategies: persistent, enough: enough}
}

// persist continues to rebuild the best mix of 500 items or more while it may be more than one percent too expensive,
// until five quarters of the effort are used up.
func (s *solver) persist() {
	const percent, effort = 1, 125
	if s.total < someItems || s.timed() || s.budget.tight || s.done(effort) {
		return
	}
	least := s.LeastFor(&s.best)
	enough := least + min(least/100*percent, math.MaxInt64-least)
	s.rebuild(longer(enough), s.effort*effort/100-s.steps)
}

// rebuild improves the best mix by large neighbourhood search: it destroys the most wasteful machines, chosen with some
// randomness, and buys for their items again at recalculated prices. It continues until the effort is used up or the mix
// is cheap enough.
func (s *solver) rebuild(c *destruction, effort int) {
	for end, round := s.steps+effort, 0; s.steps < end && s.improvable(c) && !s.stop(); round++ {
		gone := s.wasteful(c, c.percents[round%len(c.percents)])
		counts, was := make([]int32, len(s.kinds)), Solution{}
		for _, i := range gone {
			was.machines = append(was.machines, s.best.machines[i])
			for _, k := range s.best.machines[i].kinds {
				counts[k]++
			}
		}
		m := c.strategies[c.intN(len(c.strategies))]
		at := s.solvePricing(counts, m.extended)
		s.steps += at.steps + 50*len(s.kinds) + 1000
		made, whole := s.construct(m, counts, at, s.budget.Clone())
		if !whole {
			return
		}
		if s.rank(&made).compare(s.rank(&was)) <= 0 {
			s.best = s.best.with(made.machines, gone)
		}
	}
}

// improvable reports whether the best mix has several machines and is not cheap enough.
func (s *solver) improvable(c *destruction) bool {
	return len(s.best.machines) > 1 && (c.enough == 0 || s.price(&s.best) > c.enough)
}

// wasteful returns the indices, ordered, of the most wasteful machines, at least two. Waste is the part of the price that
// exceeds the worth of the items, times a random factor.
func (s *solver) wasteful(c *destruction, percent int) []int {
	waste, order := make([]float64, len(s.best.machines)), make([]int, len(s.best.machines))
	for i := range s.best.machines {
		m := &s.best.machines[i]
		cost := float64(s.scaledBill(m))
		waste[i] = (cost - float64(m.worth)) / (cost + 1) * c.factor()
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(waste[b], waste[a]) })
	n := len(order) * percent / 100
	if c.ofPrice {
		n = s.ofPrice(order, percent)
	}
	order = order[:max(2, n)]
	slices.Sort(order)
	return order
}

// factor draws a factor of one to three, or of one to 1/2^halvings, where each power of two is as likely.
func (c *destruction) factor() float64 {
	if c.halvings == 0 {
		return 1 + float64(c.intN(1024))/512
	}
	return math.Ldexp(1-float64(c.intN(1024))/2048, -c.intN(c.halvings))
}

// ofPrice returns how many of the first machines have the given percentage of the price of all together.
func (s *solver) ofPrice(order []int, percent int) int {
	price := func(at int) uint64 { return s.offers[s.best.machines[at].offer].scaledPrice }
	total, sum, n := uint64(0), uint64(0), 0
	for _, at := range order {
		total += price(at)
	}
	for ; n < len(order) && sum < total/100*uint64(percent); n++ {
		sum += price(order[n])
	}
	return n
}

// with returns a mix in which made replaces the machines at the ordered indices gone.
func (m *Solution) with(made []machine, gone []int) Solution {
	next := Solution{waiting: m.waiting, missing: m.missing, machines: make([]machine, 0, len(m.machines)-len(gone)+len(made))}
	for i := range m.machines {
		if _, destroyed := slices.BinarySearch(gone, i); !destroyed {
			next.machines = append(next.machines, m.machines[i])
		}
	}
	next.machines = append(next.machines, made...)
	return next
}
