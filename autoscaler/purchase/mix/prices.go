package mix

import (
	"math"
	"math/bits"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/lp"
	"supercargo.dev/supercargo/internal/packing"
)

// prices are what the CPU, memory and item slots of a machine are worth: for each offer, shares of its price that sum to
// at most the price. An item is worth the least of its parts over the offers that hold it:
//
//	worth(item) = min over offers f that hold it of Σ_r share(f,r) · request(r) / capacity(f,r)
//
// A full machine's items are then worth at most its price, for any shares, so items are worth at most the price of any
// machines that hold them.
type prices [][measures]uint64

// newPrices divides the price of each offer in proportion to parts, which need not sum to one or even be numbers.
func newPrices(parts []lp.Vector, price func(at int) uint64) prices {
	found := make(prices, len(parts))
	for i := range parts {
		left := price(i)
		whole, sum := float64(left), lp.Total(parts[i])
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

// worth returns the worth of an item of the kind, rounded down; 0 if no offer holds one.
func (v prices) worth(p *Problem, k *kind) uint64 {
	least := uint64(math.MaxUint64)
	for i := range p.offers {
		if p.holds(i, &k.size, k.on, 1) {
			least = v.on(p, k, i, least)
		}
	}
	if least == math.MaxUint64 {
		return 0
	}
	return least
}

// on returns the lesser of least and the worth of the item on an offer that holds it.
func (v prices) on(p *Problem, k *kind, at int, least uint64) uint64 {
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
	for i, part := range k.extra {
		worth += portion(part, o.extra[i], shares[byExtra+i])
	}
	for r := linear; r < byExtra && worth < least && !o.small(k); r++ {
		if shares[r] > 0 {
			takes, has := o.part(k, r)
			worth += portion(takes, has, shares[r])
		}
	}
	return min(least, worth)
}

// pricing is the solution of the linear program for some of the items.
type pricing struct {
	// parts split the price of each offer among its resources.
	parts []lp.Vector
	// preferred are the offers on which money is spent; active are the other offers that were examined closely.
	preferred, active []int
	// worth is the worth of an item, by kind, on the scale of offer.scaledPrice; 0 for kinds without items.
	worth []uint64
	// steps is the work that the solution took.
	steps int
}

// solvePricing solves the program for the given number of items of each kind. Prices are scaled, so that the solution
// does not depend on the unit of money.
//
// A basic pricing uses the linear measures and the extra ones, and prefers only the best offers. An extended one uses
// all measures, and also prefers offers that are nearly as good: items of which few fit together are worth more, and
// there is more choice. The basic one is faster, and better for some items. An extended pricing of fewer than all items
// is approximate.
func (p *Problem) solvePricing(counts []int32, extended bool) pricing {
	const finer = 26
	how := precision{lp.Precision{Rounds: 8, Tolerance: 1e-5, Extended: extended}, 256}
	if extended && p.pricing.worth != nil {
		how = precision{lp.Precision{Rounds: 3, Tolerance: 1e-3, Extended: true, From: p.pricing.preferred}, 96}
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

// counts returns the number of items of each kind.
func (p *Problem) counts() []int32 {
	counts := make([]int32, len(p.kinds))
	for i := range p.kinds {
		counts[i] = int32(len(p.kinds[i].items))
	}
	return counts
}

// group is a group of items of similar size that roughly the same offers hold.
type group struct {
	on       int32
	mean     kind    // the size of the mean item
	items    float64 // number of items times their time
	asks     [linear]float64
	extended packing.Extended // of each item
	members  []member
}

// member is a kind in a group, and its number of items times their time.
type member struct {
	kind  int32
	items float64
}

// split divides the price of each offer so that the total worth of the items is about maximal, or evenly if all offers
// are free.
//
// It collects items into groups, and solves the program for a few offers. It then adds the offers whose full machine
// would hold items worth more than its price.
func (p *Problem) split(found *pricing, counts []int32, how precision) {
	for range p.offers {
		found.parts = append(found.parts, lp.Vector{byCPU: 1, byMemory: 1, byPlace: 1})
	}
	groups := slices.DeleteFunc(p.groups(counts, how.groups), func(g group) bool {
		return !slices.ContainsFunc(p.all, func(at int) bool { return p.holds(at, &g.mean.size, g.on, 1) })
	})
	if len(groups) == 0 {
		return
	}
	solved := p.master(groups, how).Solve(found.parts)
	found.preferred, found.active, found.steps = p.withTwins(solved.Preferred), solved.Active, solved.Steps
	for i := range found.parts {
		if p.twin(i) {
			found.parts[i] = found.parts[p.twins[i]]
		}
	}
}

// master returns the program for some groups.
func (p *Problem) master(groups []group, how precision) *lp.Master {
	m := &lp.Master{
		Costs: make([][]lp.Vector, len(p.offers)), Holds: make([][]bool, len(p.offers)), Left: make([]bool, len(p.offers)),
		Basic: p.measuresOf(basicMeasures), All: p.measuresOf(allMeasures), Precision: how.Precision,
	}
	for i := range p.offers {
		o := &p.offers[i]
		m.Left[i] = o.price == 0 || p.twin(i)
		m.Costs[i], m.Holds[i] = make([]lp.Vector, len(groups)), make([]bool, len(groups))
		for b := range groups {
			if m.Holds[i][b] = !m.Left[i] && p.holds(i, &groups[b].mean.size, groups[b].on, 1); m.Holds[i][b] {
				m.Costs[i][b] = p.cost(o, &groups[b], how.Extended)
			}
		}
	}
	return m
}

// cost returns the price of machines of the offer with as much as the group requests, by each measure.
func (p *Problem) cost(o *offer, b *group, extended bool) lp.Vector {
	var costs lp.Vector
	capacity := [linear]float64{float64(o.Size.MilliCPU), float64(o.Size.MemoryBytes), float64(o.places)}
	for r, has := range capacity {
		if has > 0 {
			costs[r] = float64(float64(o.scaledPrice)*b.asks[r]) / has
		}
	}
	for _, m := range b.members {
		k := &p.kinds[m.kind]
		for i, part := range k.extra {
			if part > 0 {
				costs[byExtra+i] += float64(float64(o.scaledPrice)*m.items) * (float64(part) / float64(o.extra[i]))
			}
		}
		if !extended || o.small(k) {
			continue
		}
		for r := linear; r < byExtra; r++ {
			if takes, has := o.part(k, r); takes > 0 {
				costs[r] += float64(float64(o.scaledPrice)*m.items) * min(1, float64(takes)/float64(has))
			}
		}
	}
	return costs
}

// withTwins adds the offers that differ from some only in their domain.
func (p *Problem) withTwins(some []int) []int {
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

// precision is how precisely the program is solved, and for how many groups at most, approximately.
type precision struct {
	lp.Precision
	groups int
}

// groups collects the kinds that cost something into about most groups at most: as finely as possible by the ratio of
// memory to CPU, on which the division of prices depends, and coarsely by size.
func (p *Problem) groups(counts []int32, most int) []group {
	free := make([]bool, len(p.kinds))
	for i := range p.kinds {
		k := &p.kinds[i]
		free[i] = counts[i] == 0
		for at := range p.offers {
			free[i] = free[i] || p.offers[at].price == 0 && p.holds(at, &k.size, k.on, 1)
		}
	}
	for ratio := 6; ; ratio-- {
		if found := p.gather(counts, free, ratio, 1+max(0, 4-ratio)/2); len(found) <= most || ratio == 0 {
			return found
		}
	}
}

// gather groups kinds whose ratios of memory to CPU have the same first binary digits, whose sizes agree within the given
// number of octaves, and that request the same of the extended resources.
func (p *Problem) gather(counts []int32, free []bool, digits, octaves int) []group {
	type key struct {
		on       int32
		ratio    uint64
		size     int
		extra    [extraMeasures]uint64
		extended packing.Extended
	}
	at := map[key]int{}
	var groups []group
	for i := range p.kinds {
		k := &p.kinds[i]
		if free[i] {
			continue
		}
		in := key{on: k.pricedOn, ratio: head(k.memory<<unitBits/(k.cpu+1), digits), size: bits.Len64(k.cpu+k.memory) / octaves, extra: k.extra, extended: k.size.Extended}
		b, ok := at[in]
		if !ok {
			b = len(groups)
			at[in] = b
			groups = append(groups, group{on: k.pricedOn, extended: k.size.Extended})
		}
		n := float64(float64(counts[i]) * float64(k.time))
		groups[b].items += n
		groups[b].asks[byCPU] += float64(n * float64(k.size.MilliCPU))
		groups[b].asks[byMemory] += float64(n * float64(k.size.MemoryBytes))
		groups[b].asks[byPlace] += n
		groups[b].members = append(groups[b].members, member{int32(i), n})
	}
	for b := range groups {
		mean := &groups[b].mean
		mean.on = groups[b].on
		mean.size.MilliCPU = int64(groups[b].asks[byCPU] / groups[b].items)
		mean.size.MemoryBytes = int64(groups[b].asks[byMemory] / groups[b].items)
		mean.size.Extended = groups[b].extended
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
