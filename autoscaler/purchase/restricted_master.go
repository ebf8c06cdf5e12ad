package purchase

import (
	"cmp"
	"math"
	"slices"
)

// restrictedMaster solves a linearProgram by column generation: over a few active offers, to which it adds those that
// price out, until none does (also called sifting).
type restrictedMaster struct {
	precision
	p      *problem
	groups []group
	// costs are, by offer and group, the price of machines of the offer with as much as the group requests, by each
	// measure; zero if the offer does not hold the pods.
	costs  [][]vector
	holds  [][]bool
	active []int
	// preferred are the offers on which some pods are worth about their price.
	preferred []int
	// used are the measures in use, in order.
	used []int
	// listed are, by offer, the measures by which some group takes something.
	listed [][]int
	steps  int
}

// newRestrictedMaster returns nil if there is nothing to solve.
func newRestrictedMaster(p *problem, groups []group, how precision) *restrictedMaster {
	s := &restrictedMaster{
		precision: how, p: p, costs: make([][]vector, len(p.offers)), holds: make([][]bool, len(p.offers)),
		used: p.measuresOf(basicMeasures), listed: make([][]int, len(p.offers)),
	}
	for _, b := range groups {
		if slices.ContainsFunc(p.all, func(at int) bool { return p.holds(at, b.mean.size, b.on, 1) }) {
			s.groups = append(s.groups, b)
		}
	}
	if len(s.groups) == 0 {
		return nil
	}
	for i := range p.offers {
		o := &p.offers[i]
		s.costs[i], s.holds[i] = make([]vector, len(s.groups)), make([]bool, len(s.groups))
		for b := range s.groups {
			if s.holds[i][b] = o.price > 0 && !p.twin(i) && p.holds(i, s.groups[b].mean.size, s.groups[b].on, 1); s.holds[i][b] {
				s.costs[i][b] = s.cost(o, &s.groups[b])
			}
		}
	}
	s.start()
	return s
}

// cost returns the price of machines of the offer with as much as the group requests, by each measure.
func (s *restrictedMaster) cost(o *offer, b *group) vector {
	var costs vector
	capacity := [linear]float64{float64(o.Size.MilliCPU), float64(o.Size.MemoryBytes), float64(o.places)}
	for r, has := range capacity {
		if has > 0 {
			costs[r] = float64(float64(o.scaledPrice)*b.asks[r]) / has
		}
	}
	for _, m := range b.members {
		k := &s.p.kinds[m.kind]
		for i, part := range k.inCliques {
			costs[byClique+i] += float64(float64(o.scaledPrice)*m.pods) * (float64(part) / wholeClique)
		}
		if !s.extended || o.small(k) {
			continue
		}
		for r := linear; r < byClique; r++ {
			if takes, has := o.part(k, r); takes > 0 {
				costs[r] += float64(float64(o.scaledPrice)*m.pods) * min(1, float64(takes)/float64(has))
			}
		}
	}
	return costs
}

// start selects the initial offers, and for each group that none of them holds the offer on which the group alone is
// cheapest. It scales the costs so that all groups alone cost 1 in total.
func (s *restrictedMaster) start() {
	seen := make([]bool, len(s.p.offers))
	whole := 0.0
	for _, at := range s.from {
		seen[at] = true
		s.active = append(s.active, at)
	}
	for b := range s.groups {
		best, least := -1, math.Inf(1)
		for i := range s.p.offers {
			if cost := slices.Max(s.costs[i][b][:linear]); s.holds[i][b] && cost < least {
				best, least = i, cost
			}
		}
		whole += least
		if !seen[best] && !slices.ContainsFunc(s.from, func(at int) bool { return s.holds[at][b] }) {
			seen[best] = true
			s.active = append(s.active, best)
		}
	}
	slices.Sort(s.active)
	for i := range s.costs {
		for b := range s.costs[i] {
			for r := range s.costs[i][b] {
				s.costs[i][b][r] /= whole
			}
		}
	}
}

const (
	// maxAdded is the maximum number of offers added in one round.
	maxAdded = 8
	// nearlyWorth is the part of its price that a full machine of an offer must be worth for an extended pricing to
	// prefer it.
	nearlyWorth = 0.998
	// pricingTolerance is the relative amount by which the worth of a full machine may exceed its price.
	pricingTolerance = 1e-4
)

// solve sets the parts. An extended pricing first uses only the measures of a basic one, which find the relevant
// offers, unless these are given.
func (s *restrictedMaster) solve(parts []vector) {
	if !s.extended || s.from == nil {
		s.solveBy(s.p.measuresOf(basicMeasures), parts)
	}
	if !s.extended {
		return
	}
	if len(s.preferred) > 0 {
		s.active = slices.Clone(s.preferred)
	}
	s.solveBy(s.p.measuresOf(allMeasures), parts)
}

// solveBy sets the parts by some measures.
func (s *restrictedMaster) solveBy(used []int, parts []vector) {
	s.used = used
	clear(s.listed)
	for round := range s.rounds {
		last := round == s.rounds-1
		solved := s.program().solve(s.tolerance)
		s.steps += solved.steps + 20*len(s.groups)*len(s.p.offers)
		for i, at := range s.active {
			parts[at] = s.unpack(at, solved.share[i])
		}
		short := s.price(solved, parts)
		s.notePreferred(solved)
		if len(short) == 0 || last {
			return
		}
		s.active = append(s.active, short[:min(len(short), maxAdded)]...)
		slices.Sort(s.active)
	}
}

// counted returns the measures of an offer by which some group takes something: no pod takes a large part of a large
// machine.
func (s *restrictedMaster) counted(at int) []int {
	if s.listed[at] == nil {
		for _, r := range s.used {
			if r < linear || slices.ContainsFunc(s.costs[at], func(costs vector) bool { return costs[r] > 0 }) {
				s.listed[at] = append(s.listed[at], r)
			}
		}
	}
	return s.listed[at]
}

// pack omits the measures that do not count for an offer, unpack restores them.
func (s *restrictedMaster) pack(at int, v vector) (packed vector) {
	for i, r := range s.counted(at) {
		packed[i] = v[r]
	}
	return packed
}

func (s *restrictedMaster) unpack(at int, packed vector) (v vector) {
	for i, r := range s.counted(at) {
		v[r] = packed[i]
	}
	return v
}

// program returns the linearProgram over the active offers.
func (s *restrictedMaster) program() *linearProgram {
	program := &linearProgram{offers: len(s.active), starts: []int{0}}
	for _, at := range s.active {
		program.rows = append(program.rows, len(s.counted(at)))
	}
	for b := range s.groups {
		for i, at := range s.active {
			if s.holds[at][b] {
				program.cells = append(program.cells, cell{offer: i, cost: s.pack(at, s.costs[at][b])})
			}
		}
		program.starts = append(program.starts, len(program.cells))
	}
	return program
}

// price divides the prices of the inactive offers as well as possible, and returns those that are still worth too much,
// the worst first.
func (s *restrictedMaster) price(solved *interiorPoint, parts []vector) []int {
	var short []int
	excess := make([]float64, len(parts))
	for i := range parts {
		if _, active := slices.BinarySearch(s.active, i); active || s.p.offers[i].price == 0 || s.p.twin(i) {
			continue
		}
		parts[i] = s.fullest(i, solved.worth)
		if excess[i] = total(parts[i]); excess[i] > 1+pricingTolerance {
			short = append(short, i)
		}
	}
	slices.SortStableFunc(short, func(a, b int) int { return cmp.Compare(excess[b], excess[a]) })
	return short
}

// notePreferred records the offers on which money is spent and, for an extended pricing, those of which a full machine
// is nearly worth its price; the more expensive ones if there are too many.
func (s *restrictedMaster) notePreferred(solved *interiorPoint) {
	s.preferred = s.preferred[:0]
	whole, _ := solved.values()
	for i := range s.p.offers {
		if s.p.offers[i].price == 0 || s.p.twin(i) {
			continue
		}
		at, active := slices.BinarySearch(s.active, i)
		preferred := active && solved.x[at] > 1e-4*whole
		if preferred || s.extended && total(s.fullest(i, solved.worth)) > nearlyWorth {
			s.preferred = append(s.preferred, i)
		}
	}
	s.preferred = s.preferred[max(0, len(s.preferred)-maxPreferred):]
}

// fullest returns the parts of an offer's price with the least sum for which each group it holds costs at least its
// worth: the dual of filling a machine with the most worth, parts of pods included, by the simplex method. With one row
// for each measure, that takes few steps.
func (s *restrictedMaster) fullest(at int, worth []float64) vector {
	var inverse [measures]vector
	var amount vector
	for _, r := range s.used {
		inverse[r][r], amount[r] = 1, 1
	}
	var basis, found vector // worth of the columns in the basis; the parts
	for range 40 {
		for _, r := range s.used {
			found[r] = 0
			for _, i := range s.used {
				found[r] += float64(basis[i] * inverse[i][r])
			}
		}
		enter, most := -1, 1e-9
		for b, holds := range s.holds[at] {
			if gain := worth[b] - dot(s.costs[at][b], found); holds && gain > float64(most*worth[b]) {
				enter, most = b, gain/worth[b]
			}
		}
		if enter < 0 {
			break
		}
		leave := -1
		var column vector
		for _, i := range s.used {
			column[i] = dot(inverse[i], s.costs[at][enter])
			if column[i] > 1e-12 && (leave < 0 || float64(amount[i]*column[leave]) < float64(amount[leave]*column[i])) {
				leave = i
			}
		}
		if leave < 0 {
			break
		}
		for _, r := range s.used {
			inverse[leave][r] /= column[leave]
		}
		amount[leave] /= column[leave]
		basis[leave] = worth[enter]
		for _, i := range s.used {
			if i != leave {
				for _, r := range s.used {
					inverse[i][r] -= float64(column[i] * inverse[leave][r])
				}
				amount[i] -= float64(column[i] * amount[leave])
			}
		}
	}
	return s.cover(at, worth, found)
}

// cover raises the parts until each group costs at least its worth on the offer.
func (s *restrictedMaster) cover(at int, worth []float64, parts vector) vector {
	raise := 1.0
	for _, r := range s.used {
		parts[r] = max(parts[r], 1e-12)
	}
	for b, holds := range s.holds[at] {
		if holds {
			raise = max(raise, worth[b]/dot(s.costs[at][b], parts))
		}
	}
	for _, r := range s.used {
		parts[r] *= raise
	}
	return parts
}
