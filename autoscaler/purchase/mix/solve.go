package mix

import (
	"cmp"
	"math"
	"slices"
)

// solver is the state of a search for the best mix.
type solver struct {
	*Problem
	budget *Budget
	rivals []Rival
	best   Solution
	found  bool
	stop   func() bool
	// steps is the number of steps taken, effort the maximum.
	steps, effort int
}

// Rival makes another mix of all items, machine by machine, of at most the given number of machines; 0 means any number.
// It passes the items of each machine to enough, and stops once that returns true; whole is false then. left are the
// items without a machine. Items are indices in the input.
type Rival func(most int, enough func(items []int) bool) (left []int, whole bool)

// Solve returns the best solution that it finds within a budget, at least as good as that of each rival; rivals are not
// asked if there are limits other than the number of machines, or at most [ExactItems] items. effort is the approximate
// number of steps; stop ends the search once there is a solution.
//
// Cost: O(steps), that of the rivals as long as they are not more expensive, and O(k·f) for each calculation of prices,
// for k kinds of items and f bins that no cheaper one replaces.
func (p *Problem) Solve(b *Budget, rivals []Rival, effort int, stop func() bool) Solution {
	b = b.of(p)
	if p.total <= ExactItems {
		most := math.MaxInt
		if b.machinesOnly() {
			most = b.most()
		}
		if m := p.exact(most); b.covers(p, m.machines) {
			p.optimal = !p.timed() && !b.tight
			return m
		}
	}
	s := &solver{Problem: p, budget: &Budget{}, rivals: rivals, stop: stop, effort: effort}
	s.unlimited()
	if b.covers(p, s.best.machines) {
		return s.best
	}
	s = &solver{Problem: p, budget: b, rivals: rivals, stop: stop, effort: effort}
	s.limited()
	return s.best
}

func (s *solver) consider(m Solution) {
	if !s.budget.covers(s.Problem, m.machines) {
		return
	}
	if is, was := s.rank(&m), s.rank(&s.best); !s.found || is.compare(was) < 0 {
		s.best, s.found = m, true
	}
}

func never() bool { return false }

// constructed considers the mix that a strategy makes. The first one cannot be stopped.
func (s *solver) constructed(m strategy, counts []int32, at pricing) {
	if made, ok := s.construct(m, counts, at, s.budget.Clone()); ok {
		s.consider(made)
	}
}

// constructedByTime considers the mix that a strategy makes if items are packed separately by billed time, in groups
// within a factor of two.
func (s *solver) constructedByTime(m strategy) {
	budget, all := s.budget.Clone(), s.counts()
	whole := Solution{waiting: make([]int32, len(s.kinds))}
	for from := 0; from < len(s.kinds); {
		to, counts := from, make([]int32, len(s.kinds))
		for ; to < len(s.kinds) && 2*s.kinds[to].time > s.kinds[from].time; to++ {
			counts[to] = all[to]
		}
		part, ok := s.construct(m, counts, s.solvePricing(counts, m.extended), budget)
		if !ok {
			return
		}
		whole.machines = append(whole.machines, part.machines...)
		for i, n := range part.waiting {
			whole.waiting[i] += n
		}
		whole.missing += part.missing
		from = to
	}
	s.consider(whole)
}

// construct returns the mix that a strategy makes, and false if it was stopped.
func (s *solver) construct(m strategy, counts []int32, at pricing, left *Budget) (Solution, bool) {
	b := &buyer{packer: packer{p: s.Problem}, strategy: m, budget: left}
	stop := s.stop
	if !s.found {
		stop = never
	}
	whole := b.construct(counts, at, stop)
	s.steps += b.steps
	made := Solution{machines: b.made, waiting: b.counts()}
	for _, n := range made.waiting {
		made.missing += int(n)
	}
	return made, whole
}

// done reports whether the given percentage of the effort is used up.
func (s *solver) done(part int) bool { return s.found && (s.steps >= s.effort*part/100 || s.stop()) }

// timed reports whether machines have different billed times.
func (p *Problem) timed() bool { return p.kinds[0].paid > p.kinds[len(p.kinds)-1].paid }

// unlimited searches for the best mix of any machines.
func (s *solver) unlimited() {
	part := 50
	if s.total >= manyItems {
		part = 40 // the rest is for rebuild
	}
	for _, m := range s.strategies() {
		if s.done(part) {
			break
		}
		at := s.pricing
		if !m.extended {
			at = s.basic
		}
		s.constructed(m, s.counts(), at)
		if s.timed() {
			s.constructedByTime(m)
		}
	}
	s.polish()
	s.persist()
	s.compete()
}

// compete considers the mixes of the rivals. Each stops as soon as its mix will cost more than the best one, by the
// machines bought plus the worth of the other items, which is a lower bound of their machines. It stops early unless the
// two are close.
func (s *solver) compete() {
	if !s.budget.machinesOnly() {
		return
	}
	limit := 0
	if s.budget.tight {
		limit = s.budget.machines
	}
	kindOf := make([]int32, s.total)
	for k := range s.kinds {
		for _, item := range s.kinds[k].items {
			kindOf[item] = int32(k)
		}
	}
	for _, r := range s.rivals {
		var most, left, spent uint64
		for i := range s.best.machines {
			most += (s.offers[s.best.machines[i].offer].scaledPrice + 1) * (s.best.machines[i].time + 1)
		}
		for i := range s.kinds {
			left += s.kinds[i].worth * s.kinds[i].time * uint64(len(s.kinds[i].items))
		}
		var made Solution
		missing, whole := r(limit, func(items []int) bool {
			m := s.newMachine(kindsOf(items, kindOf))
			made.machines = append(made.machines, m)
			spent, left = spent+s.offers[m.offer].atLeast()*m.time, left-m.worth
			return s.best.missing == 0 && spent+left > most
		})
		if whole {
			made.waiting, made.missing = make([]int32, len(s.kinds)), len(missing)
			for _, k := range kindsOf(missing, kindOf) {
				made.waiting[k]++
			}
			s.consider(made)
		}
	}
}

// kindsOf returns the kinds of some items, given the kind of every item.
func kindsOf(items []int, kindOf []int32) []int32 {
	kinds := make([]int32, len(items))
	for i, item := range items {
		kinds[i] = kindOf[item]
	}
	return kinds
}

// polish improves the best mix by local search.
func (s *solver) polish() {
	search := newSearcher(s.Problem, s.budget.most())
	if s.timed() {
		for _, t := range s.heuristics(s.budget.tight) {
			if s.done(60) {
				break
			}
			s.consider(search.construct(t))
			s.steps += search.steps
			search.steps = 0
		}
	}
	// The relaxation packs CPU, memory and places only.
	if n := int64(len(s.kinds)); s.cliques == 0 && !s.asksExtended && !s.budget.tight && 50*n*n*n <= int64(s.effort) && !s.stop() {
		s.byColumns()
	}
	if s.budget.tight && !s.budget.machinesOnly() {
		return
	}
	if s.total >= manyItems && !s.timed() && !s.budget.tight {
		s.rebuild(usual(), s.effort*7/10-s.steps)
	}
	// With many items, nearly all machines are full, and random choices rarely improve the mix.
	const many = 2000
	effort := max(s.effort/4, s.effort-s.steps)
	if !s.timed() && !s.budget.tight {
		effort = min(effort, 4_000_000*many/max(many, 10*s.total))
	}
	for search.steps < effort && len(s.best.machines) > 0 && !s.stop() {
		search.improve(&s.best, 50_000)
	}
}

// limited searches for a mix within the budget: the fewest items left out, then the lowest price. It chooses machines by
// their price and by their share of the budget, and items by their worth or alike.
func (s *solver) limited() {
	scarce := make([]uint64, len(s.offers))
	for i := range s.offers {
		scarce[i] = s.budget.share(&s.offers[i])
	}
	alike := pricing{parts: s.pricing.parts, worth: make([]uint64, len(s.kinds))}
	for i := range alike.worth {
		alike.worth[i] = 1
	}
	worth := pricing{parts: s.pricing.parts, worth: s.pricing.worth}
	s.within(worth, scarce)
	if s.best.missing == 0 {
		s.balance(worth, scarce)
	} else {
		s.within(s.pricing, nil)
		s.within(worth, nil)
		s.within(alike, scarce)
		s.within(alike, nil)
	}
	s.polish()
	s.compete()
	s.settle(&s.best)
}

// within considers the mix of the machines with the most worth per cost. It reports whether no item is left out.
func (s *solver) within(at pricing, costs []uint64) bool {
	if s.found && s.stop() {
		return false
	}
	m := strategy{window: 24, trial: 1, rounds: 3, reprice: 100, costs: costs, some: s.bestCapacityPerCost(costs)}
	made, ok := s.construct(m, s.counts(), at, s.budget.Clone())
	if ok {
		s.consider(made)
	}
	return ok && made.missing == 0
}

// balance gives the price as much weight against the scarcity as possible without leaving items out, in powers of two.
func (s *solver) balance(at pricing, scarce []uint64) {
	const most = 12
	costs := make([]uint64, len(scarce))
	for low, high := 0, most+1; high-low > 1; {
		weight := (low + high) / 2
		for i := range costs {
			costs[i] = scarce[i]<<(most/2) + s.offers[i].scaledPrice<<weight
		}
		if s.within(at, costs) {
			low = weight
		} else {
			high = weight
		}
	}
}

// bestCapacityPerCost returns the offers with the most capacity per cost, for several weights of CPU against memory.
func (p *Problem) bestCapacityPerCost(costs []uint64) []int {
	const parts = 8
	var found []int
	for cpu := range uint64(parts + 1) {
		best, most, least := -1, uint64(0), uint64(0)
		for i := range p.offers {
			o := &p.offers[i]
			has, cost := cpu*o.cpu+(parts-cpu)*o.memory, o.scaledPrice
			if costs != nil {
				cost = costs[i]
			}
			if best < 0 || newBill(has, least).compare(newBill(most, cost)) > 0 {
				best, most, least = i, has, cost
			}
		}
		if !slices.Contains(found, best) {
			found = append(found, best)
		}
	}
	return found
}

// heuristics returns the heuristics of the first constructions, the most promising first. timePenalty makes no
// difference if all items have the same billed time.
func (p *Problem) heuristics(limited bool) []heuristic {
	base := heuristic{window: 256, timePenalty: 8, balanced: true, offers: p.all}
	var found []heuristic
	add := func(change func(*heuristic)) {
		t := base
		change(&t)
		found = append(found, t)
	}
	if limited {
		add(func(t *heuristic) { t.goal = worthPerMachine })
		add(func(t *heuristic) { t.goal = itemsPerMachine })
	}
	add(func(*heuristic) {})
	add(func(t *heuristic) { t.balanced = false })
	add(func(t *heuristic) { t.window = 16 })
	add(func(t *heuristic) { t.window = 1 })
	if p.timed() {
		for _, timePenalty := range []int{6, 10, 4} {
			add(func(t *heuristic) { t.timePenalty = timePenalty })
			add(func(t *heuristic) { t.timePenalty, t.balanced = timePenalty, false })
		}
	}
	return found
}

// construct makes a mix of all items by one heuristic. It packs at most chunk kinds at once, because the work grows with
// their square: those of similar times together, in random order among equal ones.
func (s *searcher) construct(t heuristic) Solution {
	const chunk = 1000
	p := s.p
	order := make([]int32, len(p.kinds))
	draw := make([]uint64, len(p.kinds))
	for i := range p.kinds {
		order[i], draw[i] = int32(i), s.draw()
		s.left[i] = int32(len(p.kinds[i].items))
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(p.kinds[b].paid, p.kinds[a].paid), cmp.Compare(draw[a], draw[b]))
	})
	var m Solution
	for part := range slices.Chunk(order, chunk) {
		slices.Sort(part)
		made, _ := s.build(part, t, math.MaxUint64, s.most-len(m.machines), nil)
		for i := range made {
			made[i].kinds = slices.Clone(made[i].kinds)
		}
		m.machines = append(m.machines, made...)
	}
	m.waiting = slices.Clone(s.left)
	for i, n := range m.waiting {
		m.missing += int(n)
		s.left[i] = 0
	}
	return m
}

// byColumns considers the mixes that follow from the relaxation: its whole machines plus a construction for the rest,
// and a construction by its values.
func (s *solver) byColumns() {
	r := newRelaxation(s.Problem)
	r.solve(s.effortForColumns())
	machines, waiting := r.roundDown()
	if s.covered() {
		s.duals = r.feasibleDuals()
	}
	const long = 4 // its steps per step of the search
	s.steps += (r.steps + r.knapsack.Steps) / long
	at := pricing{parts: s.pricing.parts, worth: make([]uint64, len(s.kinds))}
	for i, v := range r.duals {
		at.worth[i] = uint64(min(max(v, 0), 1<<priceBits))
	}
	for _, c := range r.basis {
		if c.number > 0 && !slices.Contains(at.preferred, c.offer) {
			at.preferred = append(at.preferred, c.offer)
		}
	}
	slices.Sort(at.preferred)
	s.considerDive(machines, waiting)
	for _, m := range s.strategies()[:2] {
		if rest, ok := s.construct(m, waiting, s.solvePricing(waiting, m.extended), s.budget.Clone()); ok {
			s.consider(Solution{machines: append(slices.Clone(machines), rest.machines...), waiting: rest.waiting, missing: rest.missing})
		}
		s.constructed(m, s.counts(), at)
	}
}

// considerDive considers the mix of these machines and of what dive makes for the other items.
func (s *solver) considerDive(machines []machine, waiting []int32) {
	const part = 8 // of the effort
	rest, left, steps := s.dive(waiting, s.effort/part)
	s.steps += steps
	made := Solution{machines: append(slices.Clone(machines), rest...), waiting: left}
	for _, n := range left {
		made.missing += int(n)
	}
	s.consider(made)
}

// relaxationSteps is the maximum number of steps of the relaxation of many items: each is short.
const relaxationSteps = 60_000_000

// effortForColumns returns the maximum number of steps of the relaxation.
func (s *solver) effortForColumns() int {
	if s.total < manyItems {
		return s.effort / 2
	}
	return min(relaxationSteps, s.effort*3/2)
}

// covered reports whether the values of the relaxation bound the price of machines per hour.
func (p *Problem) covered() bool { return !p.timed() && len(p.rooms) == 0 }

// settle puts items without a machine on machines that hold them, or that hold them as another offer that the budget
// allows, as cheaply as possible. A mix has such items only if there are limits.
func (s *solver) settle(m *Solution) {
	left := s.budget.Clone()
	for i := range m.machines {
		left.spend(s.Problem, m.machines[i].offer)
	}
	for k := range s.kinds {
		for m.waiting[k] > 0 {
			best := -1
			var grown, old bill
			for i := range m.machines {
				if !s.joins(int32(k), m.machines[i].kinds) {
					continue
				}
				now := s.with(m.machines[i], int32(k))
				if now.offer == len(s.offers) || !left.swaps(s.Problem, m.machines[i].offer, now.offer) {
					continue
				}
				// Compares the differences of the bills without subtracting.
				is, was := s.bill(&now), s.bill(&m.machines[i])
				if best < 0 || is.plus(old).compare(grown.plus(was)) < 0 {
					best, grown, old = i, is, was
				}
			}
			if best < 0 {
				break
			}
			left.change(s.Problem, m.machines[best].offer, -1)
			m.machines[best] = s.with(m.machines[best], int32(k))
			left.spend(s.Problem, m.machines[best].offer)
			m.waiting[k]--
			m.missing--
		}
	}
}

// with returns the machine with one more item, of the first offer that holds all its items; its offer is the number of
// offers if there is none.
func (p *Problem) with(m machine, k int32) machine {
	m.kinds = m.kinds[:len(m.kinds):len(m.kinds)]
	p.add(&m, k)
	m.offer = len(p.offers)
	p.downsize(&m)
	return m
}
