package planner

import (
	"cmp"
	"math"
	"slices"
)

// sifting solves a spreading for ever more offers.
type sifting struct {
	precision
	p    *problem
	bins []bin
	// costs are by offer and bin what machines of the offer cost that have as much as the
	// bin asks for, by each measure; none where the offer does not hold the pods.
	costs  [][]vector
	holds  [][]bool
	active []int
	// liked are the offers that some pods are worth their price on, about.
	liked []int
	// used is how many measures count.
	used int
	// listed are by offer the measures by which some bin takes something.
	listed [][]int
	steps  int
}

// newSifting returns nil if there is nothing to solve.
func newSifting(p *problem, bins []bin, how precision) *sifting {
	s := &sifting{
		precision: how, p: p, costs: make([][]vector, len(p.offers)), holds: make([][]bool, len(p.offers)),
		used: linear, listed: make([][]int, len(p.offers)),
	}
	for _, b := range bins {
		if slices.ContainsFunc(p.all, func(at int) bool { return p.holds(at, b.mean.size, b.on, 1) }) {
			s.bins = append(s.bins, b)
		}
	}
	if len(s.bins) == 0 {
		return nil
	}
	for i := range p.offers {
		o := &p.offers[i]
		s.costs[i], s.holds[i] = make([]vector, len(s.bins)), make([]bool, len(s.bins))
		for b := range s.bins {
			if s.holds[i][b] = o.price > 0 && p.holds(i, s.bins[b].mean.size, s.bins[b].on, 1); s.holds[i][b] {
				s.costs[i][b] = s.cost(o, &s.bins[b])
			}
		}
	}
	s.start()
	return s
}

// cost returns what machines of the offer cost that have as much as the bin asks for, by
// each measure.
func (s *sifting) cost(o *offer, b *bin) vector {
	var costs vector
	capacity := [linear]float64{float64(o.Size.MilliCPU), float64(o.Size.MemoryBytes), float64(o.places)}
	for r, has := range capacity {
		if has > 0 {
			costs[r] = float64(float64(o.about)*b.asks[r]) / has
		}
	}
	for _, m := range b.members {
		k := &s.p.kinds[m.kind]
		if !s.wide || o.small(k) {
			continue
		}
		for r := linear; r < measures; r++ {
			if takes, has := o.part(k, r); takes > 0 {
				costs[r] += float64(float64(o.about)*m.pods) * min(1, float64(takes)/float64(has))
			}
		}
	}
	return costs
}

// start takes the offers to start with, and the one that a bin by itself is cheapest on
// where none of them holds it. It puts the costs on a scale on which all bins cost 1 by
// themselves.
func (s *sifting) start() {
	seen := make([]bool, len(s.p.offers))
	whole := 0.0
	for _, at := range s.from {
		seen[at] = true
		s.active = append(s.active, at)
	}
	for b := range s.bins {
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
			for r := range measures {
				s.costs[i][b][r] /= whole
			}
		}
	}
}

const (
	siftAtOnce = 8
	// siftNearly is how much of its price a full machine of an offer must be worth for a
	// wide pricing to like it.
	siftNearly = 0.998
	// siftEnough is how far the worth of a full machine may be above its price, as a
	// part of that.
	siftEnough = 1e-4
)

// sift sets the parts: for a wide pricing first by the linear measures alone, which find
// the offers that matter, unless it is told which.
func (s *sifting) sift(parts []vector) {
	if !s.wide || s.from == nil {
		s.siftBy(linear, parts)
	}
	if !s.wide {
		return
	}
	if len(s.liked) > 0 {
		s.active = slices.Clone(s.liked)
	}
	s.siftBy(measures, parts)
}

// siftBy sets the parts by so many measures, the first ones.
func (s *sifting) siftBy(used int, parts []vector) {
	s.used = used
	for round := range s.rounds {
		last := round == s.rounds-1
		solved := s.program().solve(s.tolerance)
		s.steps += solved.steps + 20*len(s.bins)*len(s.p.offers)
		for i, at := range s.active {
			parts[at] = s.unpack(at, solved.share[i])
		}
		short := s.price(solved, parts)
		s.like(solved)
		if len(short) == 0 || last {
			return
		}
		s.active = append(s.active, short[:min(len(short), siftAtOnce)]...)
		slices.Sort(s.active)
	}
}

// counted are the measures of an offer by which some bin takes something: no pod takes
// a large part of a large machine.
func (s *sifting) counted(at int) []int {
	list := s.listed[at]
	if list == nil {
		for r := range measures {
			if r < linear || slices.ContainsFunc(s.costs[at], func(costs vector) bool { return costs[r] > 0 }) {
				list = append(list, r)
			}
		}
		s.listed[at] = list
	}
	if s.used == linear {
		return list[:linear]
	}
	return list
}

// pack leaves out what the measures of an offer do not count, unpack puts it back.
func (s *sifting) pack(at int, v vector) (packed vector) {
	for i, r := range s.counted(at) {
		packed[i] = v[r]
	}
	return packed
}

func (s *sifting) unpack(at int, packed vector) (v vector) {
	for i, r := range s.counted(at) {
		v[r] = packed[i]
	}
	return v
}

// program is the spreading over the active offers.
func (s *sifting) program() *spreading {
	program := &spreading{offers: len(s.active), starts: []int{0}}
	for _, at := range s.active {
		program.rows = append(program.rows, len(s.counted(at)))
	}
	for b := range s.bins {
		for i, at := range s.active {
			if s.holds[at][b] {
				program.cells = append(program.cells, cell{offer: i, cost: s.pack(at, s.costs[at][b])})
			}
		}
		program.starts = append(program.starts, len(program.cells))
	}
	return program
}

// price splits the prices of the offers that are not active as well as can be, and
// returns those that are worth too much all the same, the worst first.
func (s *sifting) price(solved *interior, parts []vector) []int {
	var short []int
	excess := make([]float64, len(parts))
	for i := range parts {
		if _, active := slices.BinarySearch(s.active, i); active || s.p.offers[i].price == 0 {
			continue
		}
		parts[i] = s.fullest(i, solved.worth)
		if excess[i] = total(parts[i]); excess[i] > 1+siftEnough {
			short = append(short, i)
		}
	}
	slices.SortStableFunc(short, func(a, b int) int { return cmp.Compare(excess[b], excess[a]) })
	return short
}

// like notes the offers on which money is spent, and for a wide pricing those of which a
// full machine is nearly worth its price, the dearer ones if they are too many.
func (s *sifting) like(solved *interior) {
	s.liked = s.liked[:0]
	whole, _ := solved.values()
	for i := range s.p.offers {
		if s.p.offers[i].price == 0 {
			continue
		}
		at, active := slices.BinarySearch(s.active, i)
		liked := active && solved.x[at] > 1e-4*whole
		if liked || s.wide && total(s.fullest(i, solved.worth)) > siftNearly {
			s.liked = append(s.liked, i)
		}
	}
	s.liked = s.liked[max(0, len(s.liked)-mostHomes):]
}

// fullest returns the parts of an offer's price that make no bin it holds worth less
// than it is, and are least together: the dual of filling a machine with the most
// worth, parts of pods included, by the simplex method. With a row for each measure, that
// takes few steps.
func (s *sifting) fullest(at int, worth []float64) vector {
	var inverse [measures]vector
	var amount vector
	for r := range s.used {
		inverse[r][r], amount[r] = 1, 1
	}
	var basis, found vector // worth of the columns in the basis; the parts
	for range 40 {
		for r := range s.used {
			found[r] = 0
			for i := range s.used {
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
		for i := range s.used {
			column[i] = dot(inverse[i], s.costs[at][enter])
			if column[i] > 1e-12 && (leave < 0 || float64(amount[i]*column[leave]) < float64(amount[leave]*column[i])) {
				leave = i
			}
		}
		if leave < 0 {
			break
		}
		for r := range s.used {
			inverse[leave][r] /= column[leave]
		}
		amount[leave] /= column[leave]
		basis[leave] = worth[enter]
		for i := range s.used {
			if i != leave {
				for r := range s.used {
					inverse[i][r] -= float64(column[i] * inverse[leave][r])
				}
				amount[i] -= float64(column[i] * amount[leave])
			}
		}
	}
	return s.cover(at, worth, found)
}

// cover raises the parts until no bin is worth less on the offer than it is.
func (s *sifting) cover(at int, worth []float64, parts vector) vector {
	raise := 1.0
	for r := range s.used {
		parts[r] = max(parts[r], 1e-12)
	}
	for b, holds := range s.holds[at] {
		if holds {
			raise = max(raise, worth[b]/dot(s.costs[at][b], parts))
		}
	}
	for r := range s.used {
		parts[r] *= raise
	}
	return parts
}
