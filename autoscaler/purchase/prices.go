package purchase

import (
	"math"
	"math/bits"
	"slices"
)

// prices are what the CPU, memory and pod slots of a machine are worth: for each offer, shares of its price that sum to
// at most the price. A pod is worth the least of its parts over the offers that hold it:
//
//	worth(pod) = min over offers f that hold it of Σ_r share(f,r) · request(r) / capacity(f,r)
//
// A full machine's pods are then worth at most its price, for any shares, so pods are worth at most the price of any
// machines that hold them.
type prices [][measures]uint64

// newPrices divides the price of each offer in proportion to parts, which need not sum to one or even be numbers.
func newPrices(parts []vector, price func(at int) uint64) prices {
	found := make(prices, len(parts))
	for i := range parts {
		left := price(i)
		whole, sum := float64(left), total(parts[i])
		for r := range measures {
			share := left
			if part := float64(whole * (parts[i][r] / sum)); part < float64(left) {
				share = min(left, uint64(max(part, 0)))
			}
			found[i][r] = share
			left -= share
		}
		found[i][byPlace] += left // from rounding
	}
	return found
}

// worth returns the worth of a pod of the kind, rounded down; 0 if no offer holds one.
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

// on returns the lesser of least and the worth of the pod on an offer that holds it.
func (v prices) on(p *problem, k *kind, at int, least uint64) uint64 {
	o, shares := &p.offers[at], &v[at]
	worth := portion(uint64(k.size.MilliCPU), uint64(o.Size.MilliCPU), shares[byCPU])
	if worth >= least {
		return least
	}
	worth += portion(uint64(k.size.MemoryBytes), uint64(o.Size.MemoryBytes), shares[byMemory])
	if worth >= least {
		return least
	}
	worth += portion(1, uint64(o.places), shares[byPlace])
	for i, part := range k.inCliques {
		worth += portion(part, wholeClique, shares[byClique+i])
	}
	for r := linear; r < byClique && worth < least && !o.small(k); r++ {
		if shares[r] > 0 {
			takes, has := o.part(k, r)
			worth += portion(takes, has, shares[r])
		}
	}
	return min(least, worth)
}

// portion returns times·part/whole, rounded down and at most times. A part of 0 gives 0, even if whole is 0.
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

// pricing is the solution of the linear program for some of the pods.
type pricing struct {
	// parts split the price of each offer among its resources.
	parts []vector
	// preferred are the offers on which money is spent; active are the other offers that were examined closely.
	preferred, active []int
	// worth is the worth of a pod, by kind, on the scale of offer.scaledPrice; 0 for kinds without pods.
	worth []uint64
	// steps is the work that the solution took.
	steps int
}

// solvePricing solves the program for the given number of pods of each kind. Prices are scaled, so that the solution
// does not depend on the unit of money.
//
// A basic pricing uses the linear measures and those of cliques, and prefers only the best offers. An extended one uses
// all measures, and also prefers offers that are nearly as good: pods of which few fit together are worth more, and
// there is more choice. The basic one is faster, and better for some pods. An extended pricing of fewer than all pods
// is approximate.
func (p *problem) solvePricing(counts []int32, extended bool) pricing {
	const finer = 26
	how := precision{groups: 256, rounds: 8, tolerance: 1e-5, extended: extended}
	if extended && p.pricing.worth != nil {
		how = precision{groups: 96, rounds: 3, tolerance: 1e-3, extended: true, from: p.pricing.preferred}
	}
	found := pricing{worth: make([]uint64, len(p.kinds))}
	p.split(&found, counts, how)
	v := newPrices(found.parts, func(at int) uint64 { return p.offers[at].atLeast() << finer })
	for i, n := range counts {
		if n > 0 {
			found.worth[i] = v.worth(p, &p.kinds[i]) >> finer
		}
	}
	return found
}

// counts returns the number of pods of each kind.
func (p *problem) counts() []int32 {
	counts := make([]int32, len(p.kinds))
	for i := range p.kinds {
		counts[i] = int32(len(p.kinds[i].pods))
	}
	return counts
}

// group is a group of pods of similar size that roughly the same offers hold.
type group struct {
	on      int32
	mean    kind    // the size of the mean pod
	pods    float64 // number of pods times their time
	asks    [linear]float64
	members []member
}

// member is a kind in a group, and its number of pods times their time.
type member struct {
	kind int32
	pods float64
}

// split divides the price of each offer so that the total worth of the pods is about maximal, or evenly if all offers
// are free.
//
// It collects pods into groups, and solves the program for a few offers. It then adds the offers whose full machine
// would hold pods worth more than its price.
func (p *problem) split(found *pricing, counts []int32, how precision) {
	for range p.offers {
		found.parts = append(found.parts, vector{byCPU: 1, byMemory: 1, byPlace: 1})
	}
	if s := newRestrictedMaster(p, p.groups(counts, how.groups), how); s != nil {
		s.solve(found.parts)
		found.preferred, found.active, found.steps = p.withTwins(s.preferred), s.active, s.steps
		for i := range found.parts {
			if p.twin(i) {
				found.parts[i] = found.parts[p.twins[i]]
			}
		}
	}
}

// withTwins adds the offers that differ from some only in their domain.
func (p *problem) withTwins(some []int) []int {
	if p.twins == nil {
		return some
	}
	var found []int
	for i, first := range p.twins {
		if _, is := slices.BinarySearch(some, first); is {
			found = append(found, i)
		}
	}
	return found
}

// precision is how precisely the program is solved.
type precision struct {
	// groups is the approximate maximum number of groups, rounds how often offers are added.
	groups, rounds int
	// tolerance is the maximum difference between both sides of the program.
	tolerance float64
	extended  bool
	// from are the initial offers; nil means those on which each group is cheapest.
	from []int
}

// groups collects the kinds that cost something into about most groups at most: as finely as possible by the ratio of
// memory to CPU, on which the division of prices depends, and coarsely by size.
func (p *problem) groups(counts []int32, most int) []group {
	free := make([]bool, len(p.kinds))
	for i := range p.kinds {
		k := &p.kinds[i]
		free[i] = counts[i] == 0
		for at := range p.offers {
			free[i] = free[i] || p.offers[at].price == 0 && p.holds(at, k.size, k.on, 1)
		}
	}
	for ratio := 6; ; ratio-- {
		if found := p.gather(counts, free, ratio, 1+max(0, 4-ratio)/2); len(found) <= most || ratio == 0 {
			return found
		}
	}
}

// gather groups kinds whose ratios of memory to CPU have the same first binary digits and whose sizes agree within the
// given number of octaves.
func (p *problem) gather(counts []int32, free []bool, digits, octaves int) []group {
	type key struct {
		on        int32
		ratio     uint64
		size      int
		inCliques [cliqueMeasures]uint64
	}
	at := map[key]int{}
	var groups []group
	for i := range p.kinds {
		k := &p.kinds[i]
		if free[i] {
			continue
		}
		in := key{on: k.pricedOn, ratio: head(k.memory<<unitBits/(k.cpu+1), digits), size: bits.Len64(k.cpu+k.memory) / octaves, inCliques: k.inCliques}
		b, ok := at[in]
		if !ok {
			b = len(groups)
			at[in] = b
			groups = append(groups, group{on: k.pricedOn})
		}
		n := float64(float64(counts[i]) * float64(k.time))
		groups[b].pods += n
		groups[b].asks[byCPU] += float64(n * float64(k.size.MilliCPU))
		groups[b].asks[byMemory] += float64(n * float64(k.size.MemoryBytes))
		groups[b].asks[byPlace] += n
		groups[b].members = append(groups[b].members, member{int32(i), n})
	}
	for b := range groups {
		mean := &groups[b].mean
		mean.on = groups[b].on
		mean.size.MilliCPU = int64(groups[b].asks[byCPU] / groups[b].pods)
		mean.size.MemoryBytes = int64(groups[b].asks[byMemory] / groups[b].pods)
	}
	return groups
}

// head keeps the first digits after the leading one, and the length of the number.
func head(x uint64, digits int) uint64 {
	n := bits.Len64(x)
	if n <= digits+1 {
		return x
	}
	return uint64(n)<<32 | x>>(n-1-digits)
}
