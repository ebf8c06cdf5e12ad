package mix

import (
	"math"
	"math/bits"

	"supercargo.dev/supercargo/autoscaler/purchase/lp"
)

// Least returns a lower bound of the price of any machines that hold the items together with the rooms, in micro-dollars
// per hour. If like is not nil and has all offers, its division of prices is used: it is good for about the same items,
// and takes no time.
func Least(in *Input, like *Problem) int64 {
	p := newUnpriced(in)
	if like == nil || !p.borrow(like) {
		p.scale()
	}
	return p.least(p.counts())
}

// LeastOfMany is [Least] with the division of prices for items of many kinds.
//
// Cost: that of one linear program, some tens of milliseconds for hundreds of bins.
func LeastOfMany(in *Input) int64 {
	p := New(in)
	p.pricing = pricing{}
	p.pricing = p.solvePricing(p.counts(), true)
	return p.least(p.counts())
}

// Least returns a lower bound of the price of any machines that hold all items, minus what the rooms hold, in
// micro-dollars per hour.
func (p *Problem) Least() int64 { return p.least(p.counts()) }

// LeastFor returns a lower bound of the price of any machines that hold the items that have a machine in a solution that
// [Problem.Solve] returned, in micro-dollars per hour: the price of these machines if that is optimal.
func (p *Problem) LeastFor(s *Solution) int64 {
	if p.optimal {
		return p.price(s)
	}
	counts := p.counts()
	for i, n := range s.waiting {
		counts[i] -= n
	}
	return max(p.least(counts), p.leastByColumns(counts))
}

// least returns a lower bound of the price of machines for the given number of items of each kind, in micro-dollars per
// hour: the worth of the items minus the maximum worth of the items that the rooms take. Prices are integers, so sums of
// them are, and the bound is rounded up.
func (p *Problem) least(counts []int32) int64 {
	dearest := uint64(1)
	for i := range p.offers {
		dearest = max(dearest, p.offers[i].price)
	}
	digits := max(0, min(24, 62-bits.Len64(dearest)))
	v := newPrices(p.pricing.parts, func(at int) uint64 { return p.offers[at].price << digits })
	worth := make([]uint64, len(p.kinds))
	var sum bill
	for i, n := range counts {
		if n > 0 {
			worth[i] = v.worth(p, &p.kinds[i])
			sum = sum.plus(newBill(worth[i], uint64(n)))
		}
	}
	sum = sum.plus(p.surplus(counts, worth, v))
	sum = sum.less(p.taken(counts, worth, v))
	sum = sum.plus(bill{0, 1<<digits - 1})
	whole := bill{sum.high >> digits, sum.high<<(64-digits) | sum.low>>digits}
	if whole.high > 0 || whole.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(whole.low)
}

// leastByColumns is least with the worth of items from the relaxation, which accounts for whole items per machine; 0 if
// the relaxation was not solved.
func (p *Problem) leastByColumns(counts []int32) int64 {
	sum := 0.0
	for i, w := range p.duals {
		sum += lp.Times(w, float64(counts[i]))
	}
	// Far more than rounding can have lost.
	if sum = math.Ceil(sum * (1 - 1e-9)); sum < 1<<63 {
		return int64(sum)
	}
	return 0
}

// price returns the price of a solution per hour.
func (p *Problem) price(m *Solution) int64 {
	sum := int64(0)
	for i := range m.machines {
		sum += p.offers[m.machines[i].offer].MicroDollarsPerHour
	}
	return sum
}

// taken returns the maximum worth of the items that go to the rooms. For each room it takes the prices of CPU, memory,
// places, extended resources and one item of each clique in the ratio that they have on some offer, raised until no item
// that may go there is worth more than its requests: the room is then worth at least as much as any items in it.
func (p *Problem) taken(counts []int32, worth []uint64, v prices) bill {
	var total bill
	raised := map[string][]lp.Vector{}
	for i, r := range p.rooms {
		at := len(p.offers) + i
		key := p.admits(at)
		if _, ok := raised[key]; !ok {
			raised[key] = p.raise(at, counts, worth, v)
		}
		has := lp.Vector{float64(max(r.Size.MilliCPU, 0)), float64(max(r.Size.MemoryBytes, 0)), float64(min(r.Places, int64(p.total)))}
		for i, whole := range p.wholes(r.Size) {
			has[byExtra+i] = float64(whole)
		}
		least := math.Inf(1)
		for _, prices := range raised[key] {
			least = min(least, lp.Dot(has, prices))
		}
		// Far more than rounding can have lost.
		const safe = 1 + 1e-9
		if least = math.Ceil(least * safe); least < 1<<63 {
			total = total.plus(bill{0, uint64(least)})
		} else {
			total = bill{math.MaxUint64, math.MaxUint64}
		}
	}
	return total
}

// admits returns a key of the sets that contain an offer or room, given by index.
func (p *Problem) admits(at int) string {
	key := make([]byte, len(p.members))
	for set := range p.members {
		key[set] = Refused
		if p.has(int32(set), at) {
			key[set] = Admitted
		}
	}
	return string(key)
}

// raise returns prices at which the requests of each kind that a room admits cost at least the kind's worth, in the
// ratios of the preferred offers.
func (p *Problem) raise(at int, counts []int32, worth []uint64, v prices) []lp.Vector {
	var found []lp.Vector
	for _, offer := range p.pricing.preferred {
		o := &p.offers[offer]
		ratio := lp.Vector{
			float64(v[offer][0]) / float64(max(o.Size.MilliCPU, 1)),
			float64(v[offer][1]) / float64(max(o.Size.MemoryBytes, 1)),
			max(float64(v[offer][2])/float64(max(o.places, 1)), 1),
		}
		for i, whole := range o.extra[:p.extraMeasures] {
			ratio[byExtra+i] = float64(v[offer][byExtra+i]) / float64(max(whole, 1))
		}
		up := 0.0
		for i := range p.kinds {
			k := &p.kinds[i]
			if counts[i] > 0 && p.has(k.on, at) {
				asks := lp.Vector{float64(k.size.MilliCPU), float64(k.size.MemoryBytes), 1}
				for i, part := range k.extra {
					asks[byExtra+i] = float64(part)
				}
				up = max(up, float64(worth[i])/lp.Dot(asks, ratio))
			}
		}
		for r := range ratio {
			ratio[r] *= up
		}
		found = append(found, ratio)
	}
	if len(found) == 0 { // everything is free
		found = append(found, lp.Vector{})
	}
	return found
}

// surplus returns how much more the items are worth than without quotas, and raises the worth of each to its maximum
// over all domains. In each domain with machines, an item is worth what it is on these machines. In a domain with only
// rooms, it is worth what it is anywhere, and it cannot be in any other domain. All items of a quota are worth at least
// what they are in the division among domains that makes their total worth least and respects the quota.
func (p *Problem) surplus(counts []int32, worth []uint64, v prices) bill {
	var sum bill
	members := map[int32][]int{}
	for i := range p.kinds {
		if q := p.kinds[i].quota; q != None && counts[i] > 0 {
			members[q] = append(members[q], i)
		}
	}
	for q := range p.quotas {
		if kinds := members[int32(q)]; len(kinds) > 0 {
			s := p.newTransport(&p.quotas[q], kinds, counts, worth, v)
			sum = sum.plus(bill{0, s.Surplus()})
			for i, k := range kinds {
				for _, w := range s.Worth[i] {
					worth[k] = max(worth[k], w)
				}
			}
		}
	}
	return sum
}

// newTransport returns the division of the kinds of a quota among its domains.
func (p *Problem) newTransport(q *Quota, kinds []int, counts []int32, worth []uint64, v prices) *lp.Transport {
	s := &lp.Transport{Most: q.Most}
	there := map[int]bool{}
	for _, domain := range q.Rooms {
		there[domain] = true
	}
	for _, k := range kinds {
		s.Items, s.Least = append(s.Items, float64(counts[k])), append(s.Least, worth[k])
		of := make([]uint64, len(q.Most))
		for d := range of {
			of[d] = math.MaxUint64
		}
		for i := range p.offers {
			if kind := &p.kinds[k]; p.holds(i, &kind.size, kind.on, 1) {
				in := q.Bins[p.offers[i].at]
				of[in] = v.on(p, kind, i, of[in])
			}
		}
		for d := range of {
			if of[d] == math.MaxUint64 {
				of[d] = lp.NotThere
				if there[d] {
					of[d] = worth[k]
				}
			}
		}
		s.Worth = append(s.Worth, of)
	}
	return s
}
