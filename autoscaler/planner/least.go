package planner

import (
	"math"
	"math/bits"
)

// LowerBound returns what any machines of the flavors cost that hold all pods at once,
// in micro-dollars per hour, and how many pods no flavor holds; those add nothing. It is
// that of [Supercargo] without nodes, where the pods are of many kinds.
//
// Cost: that of one linear program, some tens of milliseconds for hundreds of flavors.
func LowerBound(pods []Pod, flavors []Flavor) (microDollarsPerHour int64, uncounted int) {
	d := newDraft(&Request{Pods: pods, Flavors: flavors})
	held := d.refuse(d.pending)
	if len(held) > 0 {
		p := newProblem(held, flavors, nil, MixOptions{})
		p.pricing = pricing{}
		p.pricing = p.solvePricing(p.counts(), true)
		microDollarsPerHour = p.least(p.counts())
	}
	return microDollarsPerHour, len(pods) - len(held)
}

// least returns what any machines cost that hold the pods placed, beside what is on the
// nodes, in micro-dollars per hour.
func (d *draft) least() int64 {
	if d.problem != nil && len(d.rooms) == 0 {
		if d.problem.optimal {
			return d.problem.price(&d.mix)
		}
		counts := d.problem.counts()
		for i, n := range d.mix.waiting {
			counts[i] -= n
		}
		return max(d.problem.least(counts), d.problem.leastByColumns(counts))
	}
	var placed []Pod
	for _, r := range d.rooms {
		placed = append(placed, r.pods...)
	}
	if d.problem != nil {
		left := map[string]bool{}
		for _, p := range d.pending {
			left[p.Name] = true
		}
		for i := range d.problem.kinds {
			names := d.problem.kinds[i].pods
			for _, name := range names[:len(names)-int(d.mix.waiting[i])] {
				left[name] = false
			}
		}
		for _, p := range d.r.Pods {
			if out, known := left[p.Name]; known && !out {
				placed = append(placed, p)
			}
		}
	}
	if len(placed) == 0 {
		return 0
	}
	p := newUnpriced(sorted(placed, Services), d.r.Flavors, d.r.Nodes, d.r.Options)
	if !d.alike(len(placed)) || !p.borrow(d.priced) {
		p.scale()
	}
	return p.least(p.counts())
}

// alike reports whether the prices at which machines were bought are about those of so many
// placed pods, since nearly all of them were bought for.
func (d *draft) alike(placed int) bool {
	const most = 0.9
	return d.priced != nil && float64(d.priced.total) > most*float64(placed) && most*float64(d.priced.total) < float64(placed)
}

// least returns what machines for so many pods of each kind must cost at least, in
// micro-dollars per hour: what the pods are worth, less what those are worth at most
// that the rooms take. Prices are whole, so what they add up to is, and the bound is
// rounded up.
func (p *problem) least(counts []int32) int64 {
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

// leastByColumns is least by what the relaxation says that pods are worth, which knows
// that machines hold whole pods; 0 if it was not solved.
func (p *problem) leastByColumns(counts []int32) int64 {
	sum := 0.0
	for i, w := range p.duals {
		sum += times(w, float64(counts[i]))
	}
	// Far more than rounding can have lost.
	if sum = math.Ceil(sum * (1 - 1e-9)); sum < 1<<63 {
		return int64(sum)
	}
	return 0
}

// price returns what a mix costs per hour.
func (p *problem) price(m *mix) int64 {
	sum := int64(0)
	for i := range m.machines {
		sum += p.offers[m.machines[i].offer].MicroDollarsPerHour
	}
	return sum
}

// less subtracts, down to 0.
func (b bill) less(other bill) bill {
	if b.compare(other) <= 0 {
		return bill{}
	}
	low, borrow := bits.Sub64(b.low, other.low, 0)
	high, _ := bits.Sub64(b.high, other.high, borrow)
	return bill{high, low}
}

// taken returns what the pods that go to the rooms are worth at most. For each room
// it takes prices of CPU, memory, places and one pod of each clique in the ratio that they
// have on some offer, raised until no pod that may go there is worth more than it asks for:
// what the room has is then worth no less than any pods in it.
func (p *problem) taken(counts []int32, worth []uint64, v prices) bill {
	var total bill
	raised := map[string][]vector{}
	for i, r := range p.rooms {
		at := len(p.offers) + i
		key := p.admits(at)
		if _, ok := raised[key]; !ok {
			raised[key] = p.raise(at, counts, worth, v)
		}
		has := vector{float64(max(r.Free.MilliCPU, 0)), float64(max(r.Free.MemoryBytes, 0)), float64(min(r.places, int64(p.total)))}
		for _, r := range p.measuresOf(nil) {
			has[r] = 1
		}
		least := math.Inf(1)
		for _, prices := range raised[key] {
			least = min(least, dot(has, prices))
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

// admits tells apart by which kinds they admit the places that offers and rooms have in
// sets.
func (p *problem) admits(at int) string {
	key := make([]byte, len(p.members))
	for set := range p.members {
		key[set] = refused
		if p.has(int32(set), at) {
			key[set] = admitted
		}
	}
	return string(key)
}

// raise returns prices at which the kinds that a room admits are worth no more than
// they ask for, in the ratios that they have on the preferred offers.
func (p *problem) raise(at int, counts []int32, worth []uint64, v prices) []vector {
	var found []vector
	for _, offer := range p.pricing.preferred {
		o := &p.offers[offer]
		ratio := vector{
			float64(v[offer][0]) / float64(max(o.Size.MilliCPU, 1)),
			float64(v[offer][1]) / float64(max(o.Size.MemoryBytes, 1)),
			max(float64(v[offer][2])/float64(max(o.places, 1)), 1),
		}
		for _, r := range p.measuresOf(nil) {
			ratio[r] = float64(v[offer][r])
		}
		up := 0.0
		for i := range p.kinds {
			k := &p.kinds[i]
			if counts[i] > 0 && p.has(k.on, at) {
				asks := vector{float64(k.size.MilliCPU), float64(k.size.MemoryBytes), 1}
				for i, part := range k.inCliques {
					asks[byClique+i] = float64(part) / wholeClique
				}
				up = max(up, float64(worth[i])/dot(asks, ratio))
			}
		}
		for r := range ratio {
			ratio[r] *= up
		}
		found = append(found, ratio)
	}
	if len(found) == 0 { // nothing costs anything
		found = append(found, vector{})
	}
	return found
}

// Gap is by how much a price is above its lower bound, both in micro-dollars per hour, as a part
// of the bound; 0 where it is not above, and +Inf where the bound is 0 and the price is not.
func Gap(price, bound int64) float64 {
	switch {
	case price <= bound:
		return 0
	case bound <= 0:
		return math.Inf(1)
	}
	return float64(price-bound) / float64(bound)
}
