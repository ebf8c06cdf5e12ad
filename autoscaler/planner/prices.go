package planner

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// prices are what a machine's CPU, memory and places for pods are worth: shares of
// the price of each offer, no more than the price together. Bound to the cheapest of
// the offers that hold it, a pod is worth no more than any machine's part it takes:
//
//	worth(pod) = min over offers f that hold it of Σ_r share(f,r) · request(r) / capacity(f,r)
//
// A machine full of pods is then worth no more than its price, whatever the shares,
// so that pods are worth no more than any machines that hold them cost.
type prices [][resources]uint64

// newPrices shares out the price that each offer has, by parts, which need not add up
// to one, or be numbers.
func newPrices(parts [][resources]float64, price func(at int) uint64) prices {
	found := make(prices, len(parts))
	for i := range parts {
		left := price(i)
		whole, sum := float64(left), parts[i][0]+parts[i][1]+parts[i][2]
		for r := range resources {
			share := left
			if part := float64(whole * (parts[i][r] / sum)); r < resources-1 && part < float64(left) {
				share = min(left, uint64(max(part, 0)))
			}
			found[i][r] = share
			left -= share
		}
	}
	return found
}

// worth returns what a pod of the kind is worth, rounded down; 0 where no offer holds
// one.
func (v prices) worth(p *problem, k *kind) uint64 {
	least := uint64(math.MaxUint64)
	for i := range p.offers {
		if p.holds(i, k.size, k.on, 1) {
			least = v.on(p, k, i, least)
		}
	}
	if least == math.MaxUint64 {
		return 0
	}
	return least
}

// on returns the lesser of a number and what the pod is worth on an offer that holds
// it.
func (v prices) on(p *problem, k *kind, at int, least uint64) uint64 {
	o, shares := &p.offers[at], &v[at]
	worth := portion(uint64(k.size.MilliCPU), uint64(o.Size.MilliCPU), shares[0])
	if worth >= least {
		return least
	}
	worth += portion(uint64(k.size.MemoryBytes), uint64(o.Size.MemoryBytes), shares[1])
	if worth >= least {
		return least
	}
	return min(least, worth+portion(1, uint64(o.places), shares[2]))
}

// portion returns times·part/whole, rounded down and no more than times. Nothing is no
// part, even of nothing.
func portion(part, whole, times uint64) uint64 {
	switch {
	case part == 0:
		return 0
	case part >= whole:
		return times
	}
	high, low := bits.Mul64(part, times)
	q, _ := bits.Div64(high, low, whole)
	return q
}

// pricing is what is known from the program for some of the pods.
type pricing struct {
	// parts split the price of each offer among its resources.
	parts [][resources]float64
	// liked are the offers on which money is spent, active those besides that were
	// looked at closely.
	liked, active []int
	// worth is by kind what a pod is worth, on the scale of offer.about; 0 for those
	// without pods.
	worth []uint64
}

// appraise solves the program for so many pods of each kind. On the way to the worth
// it takes the prices in units that do not depend on those of money.
func (p *problem) appraise(counts []int32) pricing {
	const finer = 26
	found := pricing{worth: make([]uint64, len(p.kinds))}
	p.split(&found, counts)
	v := newPrices(found.parts, func(at int) uint64 { return p.offers[at].atLeast() << finer })
	for i, n := range counts {
		if n > 0 {
			found.worth[i] = v.worth(p, &p.kinds[i]) >> finer
		}
	}
	return found
}

// counts returns how many pods of each kind there are.
func (p *problem) counts() []int32 {
	counts := make([]int32, len(p.kinds))
	for i := range p.kinds {
		counts[i] = int32(len(p.kinds[i].pods))
	}
	return counts
}

// bin are pods of like size that the same offers hold, about.
type bin struct {
	on   int32
	mean kind    // the size of the mean pod
	pods float64 // how many there are, times their time
	asks [resources]float64
}

// split parts the price of each offer such that the pods are worth about the most
// that they can be, all in all, or evenly where nothing costs anything.
//
// Pods are gathered into bins, and the program is solved for few offers, to which
// those are added that the bins' worth does not do justice: that have pods worth
// more than the price in a full machine.
func (p *problem) split(found *pricing, counts []int32) {
	for range p.offers {
		found.parts = append(found.parts, [resources]float64{1, 1, 1})
	}
	if s := newSifting(p, p.bins(counts)); s != nil {
		s.sift(found.parts)
		found.liked, found.active = s.liked, s.active
	}
}

const mostBins = 256

// bins gathers the kinds that cost something: as finely as it can by the ratio of
// memory to CPU, on which the split of prices depends, and roughly by size.
func (p *problem) bins(counts []int32) []bin {
	free := make([]bool, len(p.kinds))
	for i := range p.kinds {
		k := &p.kinds[i]
		free[i] = counts[i] == 0
		for at := range p.offers {
			free[i] = free[i] || p.offers[at].price == 0 && p.holds(at, k.size, k.on, 1)
		}
	}
	for ratio := 6; ; ratio-- {
		if found := p.gather(counts, free, ratio, 1+max(0, 4-ratio)/2); len(found) <= mostBins || ratio == 0 {
			return found
		}
	}
}

// gather puts kinds into one bin whose ratios of memory to CPU have the same first
// binary digits and whose sizes are alike up to so many octaves.
func (p *problem) gather(counts []int32, free []bool, digits, octaves int) []bin {
	type key struct {
		on    int32
		ratio uint64
		size  int
	}
	at := map[key]int{}
	var bins []bin
	for i := range p.kinds {
		k := &p.kinds[i]
		if free[i] {
			continue
		}
		in := key{on: k.on, ratio: head(k.memory<<unitBits/(k.cpu+1), digits), size: bits.Len64(k.cpu+k.memory) / octaves}
		b, ok := at[in]
		if !ok {
			b = len(bins)
			at[in] = b
			bins = append(bins, bin{on: k.on})
		}
		n := float64(float64(counts[i]) * float64(k.time))
		bins[b].pods += n
		bins[b].asks[0] += float64(n * float64(k.size.MilliCPU))
		bins[b].asks[1] += float64(n * float64(k.size.MemoryBytes))
		bins[b].asks[2] += n
	}
	for b := range bins {
		mean := &bins[b].mean
		mean.on = bins[b].on
		mean.size.MilliCPU = int64(bins[b].asks[0] / bins[b].pods)
		mean.size.MemoryBytes = int64(bins[b].asks[1] / bins[b].pods)
	}
	return bins
}

// head keeps the first digits after the leading one, and how long the number is.
func head(x uint64, digits int) uint64 {
	n := bits.Len64(x)
	if n <= digits+1 {
		return x
	}
	return uint64(n)<<32 | x>>(n-1-digits)
}

// sifting solves a spreading for ever more offers.
type sifting struct {
	p    *problem
	bins []bin
	// costs are by offer and bin what machines of the offer cost that have as much of
	// a resource as the bin asks for; none where the offer does not hold the pods.
	costs  [][][resources]float64
	holds  [][]bool
	active []int
	// liked are the offers that some pods are worth their price on, about.
	liked []int
}

// newSifting returns nil if there is nothing to solve.
func newSifting(p *problem, bins []bin) *sifting {
	s := &sifting{p: p, costs: make([][][resources]float64, len(p.offers)), holds: make([][]bool, len(p.offers))}
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
		s.costs[i], s.holds[i] = make([][resources]float64, len(s.bins)), make([]bool, len(s.bins))
		capacity := [resources]float64{float64(o.Size.MilliCPU), float64(o.Size.MemoryBytes), float64(o.places)}
		for b := range s.bins {
			s.holds[i][b] = o.price > 0 && p.holds(i, s.bins[b].mean.size, s.bins[b].on, 1)
			for r := range resources {
				if capacity[r] > 0 {
					s.costs[i][b][r] = float64(float64(o.about)*s.bins[b].asks[r]) / capacity[r]
				}
			}
		}
	}
	s.start()
	return s
}

// start takes the offer that each bin by itself is cheapest on, and puts the costs on
// a scale on which all bins so cost 1.
func (s *sifting) start() {
	seen := make([]bool, len(s.p.offers))
	whole := 0.0
	for b := range s.bins {
		best, least := -1, math.Inf(1)
		for i := range s.p.offers {
			if cost := slices.Max(s.costs[i][b][:]); s.holds[i][b] && cost < least {
				best, least = i, cost
			}
		}
		whole += least
		if !seen[best] {
			seen[best] = true
			s.active = append(s.active, best)
		}
	}
	slices.Sort(s.active)
	for i := range s.costs {
		for b := range s.costs[i] {
			for r := range resources {
				s.costs[i][b][r] /= whole
			}
		}
	}
}

const (
	siftRounds = 8
	siftAtOnce = 8
	// siftEnough is how far the worth of a full machine may be above its price, as a
	// part of that.
	siftEnough = 1e-4
)

// sift sets the parts.
func (s *sifting) sift(parts [][resources]float64) {
	for round := range siftRounds {
		last := round == siftRounds-1
		tolerance := 1e-5
		solved := s.program().solve(tolerance)
		for i, at := range s.active {
			parts[at] = solved.share[i]
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

// program is the spreading over the active offers.
func (s *sifting) program() *spreading {
	program := &spreading{offers: len(s.active), starts: []int{0}}
	for b := range s.bins {
		for i, at := range s.active {
			if s.holds[at][b] {
				program.cells = append(program.cells, cell{offer: i, cost: s.costs[at][b]})
			}
		}
		program.starts = append(program.starts, len(program.cells))
	}
	return program
}

// price splits the prices of the offers that are not active as well as can be, and
// returns those that are worth too much all the same, the worst first.
func (s *sifting) price(solved *interior, parts [][resources]float64) []int {
	var short []int
	excess := make([]float64, len(parts))
	for i := range parts {
		if _, active := slices.BinarySearch(s.active, i); active || s.p.offers[i].price == 0 {
			continue
		}
		parts[i] = s.fullest(i, solved.worth)
		if excess[i] = parts[i][0] + parts[i][1] + parts[i][2]; excess[i] > 1+siftEnough {
			short = append(short, i)
		}
	}
	slices.SortStableFunc(short, func(a, b int) int { return cmp.Compare(excess[b], excess[a]) })
	return short
}

// like notes the offers on which money is spent.
func (s *sifting) like(solved *interior) {
	s.liked = s.liked[:0]
	whole, _ := solved.values()
	for i, at := range s.active {
		if solved.x[i] > 1e-4*whole {
			s.liked = append(s.liked, at)
		}
	}
}

// fullest returns the parts of an offer's price that make no bin it holds worth less
// than it is, and are least together: the dual of filling a machine with the most
// worth, parts of pods included, by the simplex method. With three rows, that takes
// few steps.
func (s *sifting) fullest(at int, worth []float64) [resources]float64 {
	inverse := [resources][resources]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}
	amount := [resources]float64{1, 1, 1}
	var basis, found [resources]float64 // worth of the columns in the basis; the parts
	for range 40 {
		for r := range resources {
			found[r] = float64(basis[0]*inverse[0][r]) + float64(basis[1]*inverse[1][r]) + float64(basis[2]*inverse[2][r])
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
		var column [resources]float64
		for i := range resources {
			column[i] = dot(inverse[i], s.costs[at][enter])
			if column[i] > 1e-12 && (leave < 0 || float64(amount[i]*column[leave]) < float64(amount[leave]*column[i])) {
				leave = i
			}
		}
		if leave < 0 {
			break
		}
		for r := range resources {
			inverse[leave][r] /= column[leave]
		}
		amount[leave] /= column[leave]
		basis[leave] = worth[enter]
		for i := range resources {
			if i != leave {
				for r := range resources {
					inverse[i][r] -= float64(column[i] * inverse[leave][r])
				}
				amount[i] -= float64(column[i] * amount[leave])
			}
		}
	}
	return s.cover(at, worth, found)
}

// cover raises the parts until no bin is worth less on the offer than it is.
func (s *sifting) cover(at int, worth []float64, parts [resources]float64) [resources]float64 {
	raise := 1.0
	for r := range resources {
		parts[r] = max(parts[r], 1e-12)
	}
	for b, holds := range s.holds[at] {
		if holds {
			raise = max(raise, worth[b]/dot(s.costs[at][b], parts))
		}
	}
	for r := range resources {
		parts[r] *= raise
	}
	return parts
}
