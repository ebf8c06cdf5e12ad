package purchase

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"supercargo.dev/supercargo/internal/packing"
)

// bill is an amount of money: micro-dollars per hour times nanoseconds. It has 128 bits and saturates.
type bill struct{ high, low uint64 }

func newBill(price, paid uint64) bill {
	high, low := bits.Mul64(price, paid)
	return bill{high, low}
}

func (b bill) plus(other bill) bill {
	low, carry := bits.Add64(b.low, other.low, 0)
	high, over := bits.Add64(b.high, other.high, carry)
	if over > 0 {
		return bill{math.MaxUint64, math.MaxUint64}
	}
	return bill{high, low}
}

func (b bill) compare(other bill) int {
	return cmp.Or(cmp.Compare(b.high, other.high), cmp.Compare(b.low, other.low))
}

// kind is a set of interchangeable pods: of one size and clique, admitted by the same offers, and with the same billed
// time.
type kind struct {
	size   packing.Size
	on     int32 // the set of offers that admit it, regardless of its size
	paid   uint64
	clique int32 // no machine holds two pods of it; noClique if there is no such limit
	quota  int32 // the quota that it counts to, or noQuota
	// pricedOn is the set of offers that admit it in any domain.
	pricedOn int32
	// inCliques is, by measure of cliques, the part of a machine that a pod takes, in 1/wholeClique.
	inCliques [cliqueMeasures]uint64
	pods      []string // in the order they are served
	scaled
}

// scaled are the numbers of a kind that guide the search, rounded down to fit into words. Bills are never computed from
// them.
type scaled struct {
	// cpu and memory are parts of the maximum over all offers, in 1/1<<unitBits.
	cpu, memory uint64
	// time is the billed time of a machine with it, as a part of the longest, in 1/1<<timeBits; at least 1.
	time uint64
	// worth times time is at most the cost of the pod in any mix, on the scale of offer.scaledPrice.
	worth uint64
	// basic is worth by the basic pricing.
	basic uint64
}

const (
	unitBits  = 20
	timeBits  = 16
	priceBits = 30
)

// offer is a flavor that no cheaper or equal one dominates.
type offer struct {
	Flavor
	flavor int   // its index among the flavors
	places int64 // at most the number of pods
	price  uint64
	// cpu, memory and slots are Size and places in the units of scaled, rounded up.
	cpu, memory, slots uint64
	// scaledPrice is price as a part of the maximum, in 1/1<<priceBits; at least 1.
	scaledPrice uint64
}

func (o *offer) has(used packing.Size, pods int64) bool { return used.Fits(o.Size) && pods <= o.places }

// atLeast returns scaledPrice if it does not exceed the price, and 0 if it was raised to 1.
func (o *offer) atLeast() uint64 {
	if o.scaledPrice == 1 {
		return 0
	}
	return o.scaledPrice
}

// problem is the problem that a mix solves.
type problem struct {
	*sets
	kinds  []kind  // longest billed first, then most worth
	offers []offer // by price, then name
	total  int     // pods
	all    []int   // indices of all offers
	// twins are, by offer, the cheapest one that differs only in its domain; nil if no pod is assigned to a domain.
	twins []int
	rooms []*room // after the offers in sets
	// quotas are those of a bound, nil for a plan; domainKeys are their topology keys: offers of different domains do
	// not dominate each other.
	quotas     *quotas
	domainKeys []string
	// cliques is the number of cliques, cliqueMeasures that of the measures of cliques in use.
	cliques, cliqueMeasures int
	// duals are the worths of pods by the relaxation, in micro-dollars per hour, if it was solved; optimal reports that
	// no mix is cheaper than the one found.
	duals   []float64
	optimal bool
	// pricing is that of all pods, an extended one if there are many; basic is the basic one.
	pricing, basic pricing
}

// holds reports whether one machine of an offer has room for pods that use the given amounts in total, and admits them;
// on is the set of offers that admit them all.
func (p *problem) holds(at int, used packing.Size, on int32, pods int64) bool {
	return p.offers[at].has(used, pods) && p.has(on, at)
}

// newProblem returns the problem of pods that each fit some flavor, or one of the rooms, in the order in which they are
// served.
func newProblem(pods []Pod, flavors []Flavor, rooms []*room, opts MixOptions) *problem {
	return newProblemInDomains(pods, flavors, rooms, opts, nil)
}

// newProblemInDomains is newProblem for pods of which some are assigned to domains by their exceptions; assigned maps
// those to their original exceptions. Such pods are priced as if they could be in any domain: they are about evenly
// divided, and the program becomes much smaller.
func newProblemInDomains(pods []Pod, flavors []Flavor, rooms []*room, opts MixOptions, assigned map[*Exceptions]*Exceptions) *problem {
	p := &problem{total: len(pods), rooms: rooms}
	p.setUp(pods, flavors, opts, assigned)
	p.scale()
	return p
}

// newUnpriced returns the problem of pods with quotas, for a bound, without the numbers that depend on prices.
func newUnpriced(pods []Pod, flavors []Flavor, nodes []ExistingNode, opts MixOptions) *problem {
	p := &problem{total: len(pods), rooms: roomsOn(nodes), quotas: newQuotas(pods, nodes)}
	p.setUp(pods, flavors, opts, nil)
	return p
}

// setUp sets the offers and kinds.
func (p *problem) setUp(pods []Pod, flavors []Flavor, opts MixOptions, assigned map[*Exceptions]*Exceptions) {
	rooms := p.rooms
	admission := newAdmission(pods)
	columns := p.addOffers(flavors, admission)
	for _, r := range rooms {
		columns = append(columns, admission.columnOf(r.admits))
	}
	p.sets = newSets(len(columns))
	for class, pod := range admission.pods {
		set := p.number(p.make(func(at int) bool { return columns[at][class] == admitted }))
		admission.sets, admission.pricedOn = append(admission.sets, set), append(admission.pricedOn, set)
		if without, is := assigned[pod.Except]; is && pod.Except != nil {
			anywhere := *pod
			anywhere.Except = without
			admission.pricedOn[class] = p.number(p.make(func(at int) bool { return at < len(p.offers) && anywhere.admittedBy(&p.offers[at].Flavor) == "" }))
		}
	}
	p.addKinds(pods, admission, opts)
	if len(assigned) > 0 || len(p.domainKeys) > 0 {
		p.findTwins()
	}
}

// borrow takes the pricing of another problem of about the same pods, and reports whether that problem has all offers.
func (p *problem) borrow(from *problem) bool {
	at := map[int]int{}
	for i := range from.offers {
		at[from.offers[i].flavor] = i
	}
	p.pricing = pricing{parts: make([]vector, len(p.offers))}
	for i := range p.offers {
		theirs, has := at[p.offers[i].flavor]
		if !has {
			return false
		}
		p.pricing.parts[i] = from.pricing.parts[theirs]
		if slices.Contains(from.pricing.preferred, theirs) {
			p.pricing.preferred = append(p.pricing.preferred, i)
		}
	}
	return true
}

// findTwins finds the offers that differ only in their domain and its price: their prices have the same parts.
func (p *problem) findTwins() {
	type shape struct {
		size     packing.Size
		places   int64
		free     bool
		pricedOn string
	}
	first := map[shape]int{}
	for i := range p.offers {
		o := &p.offers[i]
		in := make([]byte, len(p.kinds))
		for k := range p.kinds {
			if p.has(p.kinds[k].pricedOn, i) {
				in[k] = 1
			}
		}
		s := shape{o.Size, o.places, o.price == 0, string(in)}
		if _, known := first[s]; !known {
			first[s] = i
		}
		p.twins = append(p.twins, first[s])
	}
}

// twin reports whether an offer differs from an earlier one only in its domain.
func (p *problem) twin(at int) bool { return p.twins != nil && p.twins[at] != at }

// addOffers adds the flavors that no cheaper or equal offer dominates: one at least as large that admits the same pods.
// It returns the classes that each offer admits.
func (p *problem) addOffers(flavors []Flavor, a *admission) []string {
	var columns, domains []string
	if p.quotas != nil {
		p.domainKeys = p.quotas.keys()
	}
	for _, at := range placesByPrice(flavors) {
		f := flavors[at]
		o := offer{Flavor: f, flavor: at, places: min(orAny(f.MaxPods), int64(p.total)), price: uint64(max(f.MicroDollarsPerHour, 0))}
		column, domain := a.column(&f), domainOf(p.domainKeys, f.Host)
		superfluous := !f.Sells(1)
		for i := range p.offers {
			superfluous = superfluous || p.offers[i].has(o.Size, o.places) && columns[i] == column && domains[i] == domain && p.offers[i].Most == nil
		}
		if !superfluous {
			p.all = append(p.all, len(p.offers))
			p.offers = append(p.offers, o)
			columns, domains = append(columns, column), append(domains, domain)
		}
	}
	return columns
}

// placesByPrice returns the indices of the flavors by price, then name.
func placesByPrice(flavors []Flavor) []int {
	places := make([]int, len(flavors))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		return cmp.Or(cmp.Compare(flavors[a].MicroDollarsPerHour, flavors[b].MicroDollarsPerHour), cmp.Compare(flavors[a].Name, flavors[b].Name))
	})
	return places
}

func (p *problem) addKinds(pods []Pod, a *admission, opts MixOptions) {
	type key struct {
		size         packing.Size
		on, pricedOn int32
		paid         uint64
		clique       int32
		quota        int32
	}
	at := map[key]int{}
	cliques := newCliques(pods)
	parts := cliques.parts()
	p.cliques, p.cliqueMeasures = len(cliques.sizes), len(parts)
	for i, pod := range pods {
		k := key{pod.Size, a.sets[a.classes[i]], a.pricedOn[a.classes[i]], uint64(opts.Paid(pod.Runtime)), cliques.of[i], noQuota}
		if p.quotas != nil {
			k.quota = p.quotas.of[i]
		}
		i, ok := at[k]
		if !ok {
			i = len(p.kinds)
			at[k] = i
			p.kinds = append(p.kinds, kind{size: k.size, on: k.on, pricedOn: k.pricedOn, paid: k.paid, clique: k.clique, quota: k.quota})
			for r := range parts {
				if k.clique != noClique {
					p.kinds[i].inCliques[r] = parts[r][k.clique]
				}
			}
		}
		p.kinds[i].pods = append(p.kinds[i].pods, pod.Name)
	}
}

// scale computes the scaled numbers, and orders the kinds.
func (p *problem) scale() {
	var most packing.Size
	var dearest, longest uint64
	for _, o := range p.offers {
		most.MilliCPU = max(most.MilliCPU, o.Size.MilliCPU)
		most.MemoryBytes = max(most.MemoryBytes, o.Size.MemoryBytes)
		dearest = max(dearest, o.price)
	}
	for _, k := range p.kinds {
		longest = max(longest, k.paid)
	}
	cpu, memory := uint64(max(most.MilliCPU, 1)), uint64(max(most.MemoryBytes, 1))
	for i := range p.offers {
		o := &p.offers[i]
		o.cpu = portion(uint64(max(o.Size.MilliCPU, 0)), cpu, 1<<unitBits) + 1
		o.memory = portion(uint64(max(o.Size.MemoryBytes, 0)), memory, 1<<unitBits) + 1
		o.slots = portion(uint64(o.places), uint64(max(p.total, 1)), 1<<unitBits) + 1
		o.scaledPrice = max(1, portion(o.price, dearest, 1<<priceBits))
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		k.cpu = portion(uint64(k.size.MilliCPU), cpu, 1<<unitBits)
		k.memory = portion(uint64(k.size.MemoryBytes), memory, 1<<unitBits)
		k.time = max(1, portion(k.paid, longest, 1<<timeBits))
	}
	p.basic = p.solvePricing(p.counts(), false)
	p.pricing = pricing{worth: slices.Clone(p.basic.worth), parts: p.basic.parts, preferred: p.basic.preferred, active: p.basic.active}
	if p.total >= manyPods {
		p.pricing = pricing{}
		p.pricing = p.solvePricing(p.counts(), true)
	}
	for i := range p.kinds {
		p.kinds[i].worth, p.kinds[i].basic = p.pricing.worth[i], p.basic.worth[i]
	}
	slices.SortFunc(p.kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.paid, a.paid), cmp.Compare(b.worth, a.worth),
			packing.LargestFirst(packing.Item{Size: a.size}, packing.Item{Size: b.size}), cmp.Compare(a.on, b.on), cmp.Compare(a.pricedOn, b.pricedOn), cmp.Compare(a.clique, b.clique), cmp.Compare(a.quota, b.quota))
	})
	for i := range p.kinds {
		p.pricing.worth[i], p.basic.worth[i] = p.kinds[i].worth, p.kinds[i].basic
	}
}
