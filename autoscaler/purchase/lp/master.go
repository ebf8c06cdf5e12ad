package lp

import (
	"cmp"
	"math"
	"slices"
)

// Master divides the price of each offer among the measures so that the groups are worth as much as possible. It solves
// a linear program by column generation: over a few active offers, to which it adds those that price out, until none
// does (also called sifting).
type Master struct {
	// Costs are, by offer and group, the price of machines of the offer with as much as the group requests, by each
	// measure; zero if the offer does not hold the group. [Master.Solve] scales them.
	Costs [][]Vector
	// Holds reports, by offer and group, whether the offer holds the group. Some offer must hold each group.
	Holds [][]bool
	// Left are the offers that are left out: free ones, and copies of others.
	Left []bool
	// Basic are the measures of a basic pricing, All those of an extended one, both in order.
	Basic, All []int
	Precision

	active []int
	// preferred are the offers on which some groups are worth about their price.
	preferred []int
	// used are the measures in use, in order.
	used []int
	// listed are, by offer, the measures by which some group takes something.
	listed [][]int
	steps  int
}

// Precision is how precisely a [Master] is solved.
type Precision struct {
	// Rounds is how often offers are added.
	Rounds int
	// Tolerance is the maximum relative difference between both sides of the program.
	Tolerance float64
	// Extended uses all measures, and also prefers offers that are nearly as good as the best.
	Extended bool
	// From are the initial offers; nil means those on which each group is cheapest.
	From []int
}

// Division is the result of a [Master].
type Division struct {
	// Preferred are the offers on which money is spent, in order, at most [MaxPreferred]; Active are the other offers
	// that were examined closely.
	Preferred, Active []int
	// Steps is the work that the solution took.
	Steps int
}

// Solve sets the parts: by offer and measure, the share of the price. Parts of offers that are left out stay as they are.
func (s *Master) Solve(parts []Vector) Division {
	s.used, s.listed = s.Basic, make([][]int, len(s.Costs))
	s.start()
	s.solve(parts)
	return Division{Preferred: s.preferred, Active: s.active, Steps: s.steps}
}

func (s *Master) groups() int { return len(s.Costs[0]) }

// start selects the initial offers, and for each group that none of them holds the offer on which the group alone is
// cheapest. It scales the costs so that all groups alone cost 1 in total.
func (s *Master) start() {
	seen := make([]bool, len(s.Costs))
	whole := 0.0
	for _, at := range s.From {
		seen[at] = true
		s.active = append(s.active, at)
	}
	for b := range s.groups() {
		best, least := -1, math.Inf(1)
		for i := range s.Costs {
			if cost := slices.Max(s.Costs[i][b][:Linear]); s.Holds[i][b] && cost < least {
				best, least = i, cost
			}
		}
		whole += least
		if !seen[best] && !slices.ContainsFunc(s.From, func(at int) bool { return s.Holds[at][b] }) {
			seen[best] = true
			s.active = append(s.active, best)
		}
	}
	slices.Sort(s.active)
	for i := range s.Costs {
		for b := range s.Costs[i] {
			for r := range s.Costs[i][b] {
				s.Costs[i][b][r] /= whole
			}
		}
	}
}

const (
	// maxAdded is the maximum number of offers added in one round.
	maxAdded = 8
	// MaxPreferred is the maximum number of preferred offers.
	MaxPreferred = 64
	// nearlyWorth is the part of its price that a full machine of an offer must be worth for an extended pricing to
	// prefer it.
	nearlyWorth = 0.998
	// pricingTolerance is the relative amount by which the worth of a full machine may exceed its price.
	pricingTolerance = 1e-4
)

// solve sets the parts. An extended pricing first uses only the measures of a basic one, which find the relevant
// offers, unless these are given.
func (s *Master) solve(parts []Vector) {
	if !s.Extended || s.From == nil {
		s.solveBy(s.Basic, parts)
	}
	if !s.Extended {
		return
	}
	if len(s.preferred) > 0 {
		s.active = slices.Clone(s.preferred)
	}
	s.solveBy(s.All, parts)
}

// solveBy sets the parts by some measures.
func (s *Master) solveBy(used []int, parts []Vector) {
	s.used = used
	clear(s.listed)
	for round := range s.Rounds {
		last := round == s.Rounds-1
		solved := s.program().solve(s.Tolerance)
		s.steps += solved.steps + 20*s.groups()*len(s.Costs)
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

// counted returns the measures of an offer by which some group takes something: no item takes a large part of a large
// machine.
func (s *Master) counted(at int) []int {
	if s.listed[at] == nil {
		for _, r := range s.used {
			if r < Linear || slices.ContainsFunc(s.Costs[at], func(costs Vector) bool { return costs[r] > 0 }) {
				s.listed[at] = append(s.listed[at], r)
			}
		}
	}
	return s.listed[at]
}

// pack omits the measures that do not count for an offer, unpack restores them.
func (s *Master) pack(at int, v Vector) (packed Vector) {
	for i, r := range s.counted(at) {
		packed[i] = v[r]
	}
	return packed
}

func (s *Master) unpack(at int, packed Vector) (v Vector) {
	for i, r := range s.counted(at) {
		v[r] = packed[i]
	}
	return v
}

// program returns the linearProgram over the active offers.
func (s *Master) program() *linearProgram {
	program := &linearProgram{offers: len(s.active), starts: []int{0}}
	for _, at := range s.active {
		program.rows = append(program.rows, len(s.counted(at)))
	}
	for b := range s.groups() {
		for i, at := range s.active {
			if s.Holds[at][b] {
				program.cells = append(program.cells, cell{offer: i, cost: s.pack(at, s.Costs[at][b])})
			}
		}
		program.starts = append(program.starts, len(program.cells))
	}
	return program
}

// price divides the prices of the inactive offers as well as possible, and returns those that are still worth too much,
// the worst first.
func (s *Master) price(solved *interiorPoint, parts []Vector) []int {
	var short []int
	excess := make([]float64, len(parts))
	for i := range parts {
		if _, active := slices.BinarySearch(s.active, i); active || s.Left[i] {
			continue
		}
		parts[i] = s.fullest(i, solved.worth)
		if excess[i] = Total(parts[i]); excess[i] > 1+pricingTolerance {
			short = append(short, i)
		}
	}
	slices.SortStableFunc(short, func(a, b int) int { return cmp.Compare(excess[b], excess[a]) })
	return short
}

// notePreferred records the offers on which money is spent and, for an extended pricing, those of which a full machine
// is nearly worth its price; the more expensive ones if there are too many.
func (s *Master) notePreferred(solved *interiorPoint) {
	s.preferred = s.preferred[:0]
	whole, _ := solved.values()
	for i := range s.Costs {
		if s.Left[i] {
			continue
		}
		at, active := slices.BinarySearch(s.active, i)
		preferred := active && solved.x[at] > 1e-4*whole
		if preferred || s.Extended && Total(s.fullest(i, solved.worth)) > nearlyWorth {
			s.preferred = append(s.preferred, i)
		}
	}
	s.preferred = s.preferred[max(0, len(s.preferred)-MaxPreferred):]
}

// fullest returns the parts of an offer's price with the least sum for which each group it holds costs at least its
// worth: the dual of filling a machine with the most worth, parts of items included, by the simplex method. With one row
// for each measure, that takes few steps.
func (s *Master) fullest(at int, worth []float64) Vector {
	var b basis
	for _, r := range s.used {
		b.inverse[r][r], b.amount[r] = 1, 1
	}
	var found Vector // the parts
	for range 40 {
		for _, r := range s.used {
			found[r] = 0
			for _, i := range s.used {
				found[r] += float64(b.worth[i] * b.inverse[i][r])
			}
		}
		column, gain, ok := s.enter(at, worth, found, &b)
		if !ok || !b.replace(s.used, column, gain) {
			break
		}
	}
	return s.cover(at, worth, found)
}

// basis is that of the simplex method: a column for each measure, which is a group or the idle rest of a measure.
type basis struct {
	inverse       [Measures]Vector
	amount, worth Vector // of the columns
}

// enter selects the column that enters the basis and its worth: the group that gains the most for what it is worth, or
// else a measure that had better not be used up, whose part would be negative. ok is false if there is none.
func (s *Master) enter(at int, worth []float64, found Vector, b *basis) (column Vector, gains float64, ok bool) {
	group, most := -1, 1e-9
	for g, holds := range s.Holds[at] {
		if gain := worth[g] - Dot(s.Costs[at][g], found); holds && gain > float64(most*worth[g]) {
			group, most = g, gain/worth[g]
		}
	}
	if group >= 0 {
		for _, i := range s.used {
			column[i] = Dot(b.inverse[i], s.Costs[at][group])
		}
		return column, worth[group], true
	}
	idle := -1
	for _, r := range s.used {
		if found[r] < -1e-9 && (idle < 0 || found[r] < found[idle]) {
			idle = r
		}
	}
	if idle < 0 {
		return column, 0, false
	}
	for _, i := range s.used {
		column[i] = b.inverse[i][idle]
	}
	return column, 0, true
}

// replace has a column enter the basis for the one that it uses up first. It reports whether there is one.
func (b *basis) replace(used []int, column Vector, worth float64) bool {
	leave := -1
	for _, i := range used {
		if column[i] > 1e-12 && (leave < 0 || float64(b.amount[i]*column[leave]) < float64(b.amount[leave]*column[i])) {
			leave = i
		}
	}
	if leave < 0 {
		return false
	}
	for _, r := range used {
		b.inverse[leave][r] /= column[leave]
	}
	b.amount[leave] /= column[leave]
	b.worth[leave] = worth
	for _, i := range used {
		if i != leave {
			for _, r := range used {
				b.inverse[i][r] -= float64(column[i] * b.inverse[leave][r])
			}
			b.amount[i] -= float64(column[i] * b.amount[leave])
		}
	}
	return true
}

// cover raises the parts until each group costs at least its worth on the offer.
func (s *Master) cover(at int, worth []float64, parts Vector) Vector {
	raise := 1.0
	for _, r := range s.used {
		parts[r] = max(parts[r], 1e-12)
	}
	for b, holds := range s.Holds[at] {
		if holds {
			raise = max(raise, worth[b]/Dot(s.Costs[at][b], parts))
		}
	}
	for _, r := range s.used {
		parts[r] *= raise
	}
	return parts
}
