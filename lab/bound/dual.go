package bound

import (
	"math/big"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// maxFlavorsForViews bounds the work on views. With more flavors, only the views of all pods and of
// the architectures are used.
const maxFlavorsForViews = 32

// part is a set of loads and services, with flavors that include all that hold any of them. All are
// indices. The flavors must not depend on the pods, or adding a pod could lower the bound.
type part struct{ loads, services, flavors []int }

// view is a list of parts without a common flavor. Pods in no part do not count.
type view []part

// views returns views of the pods that each give a valid bound:
//
//   - all of them together;
//   - those that need an architecture, each architecture separately, since no
//     machine has two;
//   - for each flavor, the pods that it does not hold: no flavor of the same
//     architecture that is smaller in both resources holds them either.
func (p *problem) views() []view {
	views := []view{{p.part(
		func(*cluster.Pod) bool { return true },
		func(*candidate) bool { return true })}}
	var apart view
	seen := map[string]bool{}
	for _, f := range p.flavors {
		if arch := f.Arch; arch != "" && !seen[arch] {
			seen[arch] = true
			apart = append(apart, p.part(
				func(pod *cluster.Pod) bool { return pod.Arch == arch },
				func(c *candidate) bool { return c.Arch == arch }))
		}
	}
	views = append(views, apart)
	if len(p.flavors) > maxFlavorsForViews {
		return views
	}
	for i := range p.flavors {
		f := &p.flavors[i]
		views = append(views, view{p.part(
			func(pod *cluster.Pod) bool { return !f.holds(*pod) },
			func(c *candidate) bool { return c.Arch != f.Arch || !c.Size.Fits(f.Size) })})
	}
	return views
}

// part returns the part of the pods and flavors that satisfy the predicates.
func (p *problem) part(pod func(*cluster.Pod) bool, flavor func(*candidate) bool) part {
	var of part
	for i := range p.loads {
		if pod(&p.loads[i].Pod) {
			of.loads = append(of.loads, i)
		}
	}
	for i := range p.services {
		if pod(&p.services[i]) {
			of.services = append(of.services, i)
		}
	}
	for i := range p.flavors {
		if flavor(&p.flavors[i]) {
			of.flavors = append(of.flavors, i)
		}
	}
	return of
}

// amounts are of CPU, memory and pod slots, each times a duration.
type amounts struct{ cpu, memory, places *big.Rat }

func newAmounts() amounts {
	return amounts{cpu: new(big.Rat), memory: new(big.Rat), places: new(big.Rat)}
}

// offer is what a machine of a flavor provides per unit of time, and its price. places is nil if
// pod slots are unlimited.
type offer struct {
	amounts
	price *big.Rat
}

// viewWork returns the sum of the bounds of the view's parts.
func (p *problem) viewWork(v view) *big.Rat {
	sum := new(big.Rat)
	for _, of := range v {
		sum.Add(sum, p.partWork(of))
	}
	return sum
}

// partWork returns the cost of a part beyond the time for which the initial machines are billed
// anyway. The work done in that time is at most what the pods have to do then, and at most what
// those machines can do. Either may be subtracted, so the greater remainder counts.
func (p *problem) partWork(of part) *big.Rat {
	late, beyond := p.totals(of.loads)
	var offers []offer
	offerOf := map[int]offer{}
	for _, i := range of.flavors {
		offerOf[i] = newOffer(&p.flavors[i], p.flavors[i].speed)
		offers = append(offers, offerOf[i])
	}
	for _, m := range p.machines {
		o, ok := offerOf[m.flavor]
		if !ok {
			continue
		}
		time := new(big.Rat).SetInt64(p.paid)
		time.Mul(time, new(big.Rat).SetInt64(m.count))
		beyond.cpu = less(beyond.cpu, o.cpu, time)
		beyond.memory = less(beyond.memory, o.memory, time)
		if o.places != nil {
			beyond.places = less(beyond.places, o.places, time)
		}
	}
	return larger(dearest(late, offers), dearest(beyond, offers))
}

// totals returns the requests of the loads after the paid time, and in total.
func (p *problem) totals(loads []int) (late, sum amounts) {
	var lates, sums tally
	for _, i := range loads {
		l := &p.loads[i]
		lates.add(l.Size, l.duration-l.early)
		sums.add(l.Size, l.duration)
	}
	return lates.amounts(), sums.amounts()
}

// tally sums requests, each times a duration.
type tally struct{ cpu, memory, places big.Int }

func (t *tally) add(size packing.Size, time int64) {
	of := big.NewInt(time)
	product := new(big.Int)
	t.cpu.Add(&t.cpu, product.Mul(of, big.NewInt(size.MilliCPU)))
	t.memory.Add(&t.memory, product.Mul(of, big.NewInt(size.MemoryBytes)))
	t.places.Add(&t.places, of)
}

func (t *tally) amounts() amounts {
	a := newAmounts()
	a.cpu.SetInt(&t.cpu)
	a.memory.SetInt(&t.memory)
	a.places.SetInt(&t.places)
	return a
}

func newOffer(f *candidate, rate *big.Rat) offer {
	times := func(n int64) *big.Rat { x := new(big.Rat).SetInt64(n); return x.Mul(x, rate) }
	o := offer{amounts: amounts{cpu: times(f.Size.MilliCPU), memory: times(f.Size.MemoryBytes)},
		price: new(big.Rat).SetInt64(f.MicroDollarsPerHour)}
	if f.MaxPods != nil {
		o.places = times(*f.MaxPods)
	}
	return o
}

func less(a, b, times *big.Rat) *big.Rat {
	product := new(big.Rat).Mul(b, times)
	return product.Sub(a, product)
}

// dearest returns the greatest value that the wanted amounts, which may be negative, can have when
// no offer is worth more than its price. It is at least 0.
func dearest(want amounts, offers []offer) *big.Rat {
	best := new(big.Rat)
	for _, prices := range priceVectors(offers) {
		best = larger(best, prices.worth(want))
	}
	return best
}

// priceVectors returns unit prices at which no offer is worth more than its price. Either CPU and
// memory have prices, or pod slots have.
func priceVectors(offers []offer) []amounts {
	var all []amounts
	for _, c := range corners(offers) {
		all = append(all, amounts{cpu: c.cpu, memory: c.memory, places: new(big.Rat)})
	}
	if price := cheapest(offers, func(o offer) *big.Rat { return o.places }); price != nil {
		all = append(all, amounts{cpu: new(big.Rat), memory: new(big.Rat), places: price})
	}
	return all
}

// worth returns the value of amounts at these prices. Unlimited pod slots have no price.
func (prices amounts) worth(of amounts) *big.Rat {
	sum := new(big.Rat).Mul(prices.cpu, of.cpu)
	sum.Add(sum, new(big.Rat).Mul(prices.memory, of.memory))
	if of.places != nil {
		sum.Add(sum, new(big.Rat).Mul(prices.places, of.places))
	}
	return sum
}

// cheapest returns the lowest unit price of one resource, or nil if an offer has it without limit
// or no offer has it.
func cheapest(offers []offer, of func(offer) *big.Rat) *big.Rat {
	var least *big.Rat
	for _, o := range offers {
		amount := of(o)
		if amount == nil {
			return nil
		}
		if amount.Sign() == 0 {
			continue
		}
		if price := new(big.Rat).Quo(o.price, amount); least == nil || price.Cmp(least) < 0 {
			least = price
		}
	}
	return least
}

// pair is a unit price of CPU and one of memory.
type pair struct{ cpu, memory *big.Rat }

// corners returns corners of the polygon of all pairs of nonnegative prices at which no offer is
// worth more than its price: the origin, and the corners from which a higher CPU price means a
// lower memory price. A linear function has its maximum over the polygon at a corner. The omitted
// points, with one price 0 and the other below its limit, are no corners.
//
// It walks along the upper edge from CPU price 0 to the highest. A resource that no offer has gets
// price 0. Cost: O(f·k) for f offers and k corners.
func corners(offers []offer) []pair {
	zero := new(big.Rat)
	found := []pair{{zero, zero}}
	most := cheapest(offers, func(o offer) *big.Rat { return o.cpu })
	if most == nil {
		most = zero
	}
	found = append(found, pair{most, zero})
	if cheapest(offers, func(o offer) *big.Rat { return o.memory }) == nil {
		return found
	}
	for at := zero; ; {
		edge := edgeRightOf(offers, at)
		found = append(found, pair{at, edge.memoryPrice(at)})
		if at.Cmp(most) >= 0 {
			return found
		}
		next := most
		for _, o := range offers {
			if o.memory.Sign() > 0 && o.slope().Cmp(edge.slope()) > 0 {
				if x := crossing(edge, o); x.Cmp(next) < 0 {
					next = x
				}
			}
		}
		at = next
	}
}

// memoryPrice returns the highest memory price at which the offer is worth no more than its price,
// given the CPU price. The offer must have memory.
func (o offer) memoryPrice(cpuPrice *big.Rat) *big.Rat {
	rest := new(big.Rat).Mul(cpuPrice, o.cpu)
	rest.Sub(o.price, rest)
	return rest.Quo(rest, o.memory)
}

// slope is the rate at which memoryPrice falls.
func (o offer) slope() *big.Rat { return new(big.Rat).Quo(o.cpu, o.memory) }

// edgeRightOf returns the offer that limits the memory price at and just above the CPU price at.
// Some offer must have memory.
func edgeRightOf(offers []offer, at *big.Rat) offer {
	best := -1
	for i, o := range offers {
		if o.memory.Sign() == 0 {
			continue
		}
		if best >= 0 {
			c := o.memoryPrice(at).Cmp(offers[best].memoryPrice(at))
			if c > 0 || c == 0 && o.slope().Cmp(offers[best].slope()) <= 0 {
				continue
			}
		}
		best = i
	}
	return offers[best]
}

// crossing returns the CPU price at which two offers of different slopes allow the same memory
// price.
func crossing(a, b offer) *big.Rat {
	// pa/ma - x·ca/ma = pb/mb - x·cb/mb
	atZero := new(big.Rat)
	gap := new(big.Rat).Sub(b.memoryPrice(atZero), a.memoryPrice(atZero))
	return gap.Quo(gap, new(big.Rat).Sub(b.slope(), a.slope()))
}
