package purchase

import (
	"math"
	"math/bits"
)

// LowerBound returns a lower bound of the price of any machines of the flavors that hold all pods at once, in
// micro-dollars per hour, and the number of pods that no flavor holds, which add nothing. It is the bound of
// [Supercargo] without nodes, for pods of many kinds.
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

// least returns a lower bound of the price of any machines that hold the placed pods, minus what the nodes hold, in
// micro-dollars per hour.
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
	placed := make([]Pod, 0, len(d.r.Pods))
	for _, r := range d.rooms {
		placed = append(placed, r.pods...)
	}
	if d.problem != nil {
		left := make(map[string]bool, len(d.r.Pods))
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

// alike reports whether the prices at which machines were bought approximate those of the placed pods, because machines
// were bought for nearly all of them.
func (d *draft) alike(placed int) bool {
	const most = 0.9
	return d.priced != nil && float64(d.priced.total) > most*float64(placed) && most*float64(d.priced.total) < float64(placed)
}

// least returns a lower bound of the price of machines for the given number of pods of each kind, in micro-dollars per
// hour: the worth of the pods minus the maximum worth of the pods that the rooms take. Prices are integers, so sums of
// them are, and the bound is rounded up.
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

// leastByColumns is least with the worth of pods from the relaxation, which accounts for whole pods per machine; 0 if
// the relaxation was not solved.
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

// price returns the price of a mix per hour.
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

// taken returns the maximum worth of the pods that go to the rooms. For each room it takes the prices of CPU, memory,
// slots and one pod of each clique in the ratio that they have on some offer, raised until no pod that may go there is
// worth more than its requests: the room is then worth at least as much as any pods in it.
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

// admits returns a key of the sets that contain an offer or room, given by index.
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

// raise returns prices at which the requests of each kind that a room admits cost at least the kind's worth, in the
// ratios of the preferred offers.
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
	if len(found) == 0 { // everything is free
		found = append(found, vector{})
	}
	return found
}

// Gap returns the relative amount by which a price exceeds its lower bound, both in micro-dollars per hour; 0 if it
// does not, and +Inf if the bound is 0 and the price is not.
func Gap(price, bound int64) float64 {
	switch {
	case price <= bound:
		return 0
	case bound <= 0:
		return math.Inf(1)
	}
	return float64(price-bound) / float64(bound)
}
