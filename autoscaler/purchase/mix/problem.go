package mix

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/lp"
	"supercargo.dev/supercargo/internal/packing"
)

// kind is a set of interchangeable items: of one size and clique, Admitted by the same offers, and with the same billed
// time.
type kind struct {
	size   packing.Size
	on     int32 // the set of offers that admit it, regardless of its size
	paid   uint64
	clique int32 // no machine holds two items of it; None if there is no such limit
	quota  int32 // the quota that it counts to, or None
	// pricedOn is the set of offers that admit it in any domain.
	pricedOn int32
	// extra is what an item takes by the extra measures: of those of cliques the part of a machine, in 1/wholeClique.
	extra [extraMeasures]uint64
	items []int // their indices in the input, in the order they are served
	scaled
}

// scaled are the numbers of a kind that guide the search, rounded down to fit into words. Bills are never computed from
// them.
type scaled struct {
	// cpu and memory are parts of the maximum over all offers, in 1/1<<unitBits.
	cpu, memory uint64
	// time is the billed time of a machine with it, as a part of the longest, in 1/1<<timeBits; at least 1.
	time uint64
	// worth times time is at most the cost of the item in any mix, on the scale of offer.scaledPrice.
	worth uint64
	// basic is worth by the basic pricing.
	basic uint64
}

const (
	unitBits  = 20
	timeBits  = 16
	priceBits = 30
)

// offer is a bin that no cheaper or equal one dominates.
type offer struct {
	Bin
	at     int   // its index among the bins of the input
	places int64 // Places, at most the number of items
	price  uint64
	// cpu, memory and slots are Size and places in the units of scaled, rounded up.
	cpu, memory, slots uint64
	// scaledPrice is price as a part of the maximum, in 1/1<<priceBits; at least 1.
	scaledPrice uint64
	// extra is what a machine has by the extra measures.
	extra [extraMeasures]uint64
}

func (o *offer) has(used *packing.Size, items int64) bool {
	return used.FitsInto(&o.Size) && items <= o.places
}

// atLeast returns scaledPrice if it does not exceed the price, and 0 if it was raised to 1.
func (o *offer) atLeast() uint64 {
	if o.scaledPrice == 1 {
		return 0
	}
	return o.scaledPrice
}

// Problem is the problem that a mix solves. It is not safe for concurrent use.
type Problem struct {
	*sets
	kinds  []kind  // longest billed first, then most worth
	offers []offer // in the order of the bins
	total  int     // items
	all    []int   // indices of all offers
	// twins are, by offer, the cheapest one that differs only in its domain; nil if there are no domains.
	twins  []int
	rooms  []Room // after the offers in sets
	quotas []Quota
	// cliques is the number of cliques. extraMeasures is the number of extra measures in use: those of cliques, followed by
	// those of the slots in scarce.
	cliques, extraMeasures int
	// scarce are slots of which items request something, at most as many as measures are left; asksExtended reports whether
	// there are any.
	scarce       []int
	asksExtended bool
	// duals are the worths of items by the relaxation, in micro-dollars per hour, if it was solved; optimal reports that
	// no mix is cheaper than the one found.
	duals   []float64
	optimal bool
	// pricing is that of all items, an extended one if there are many; basic is the basic one.
	pricing, basic pricing
}

// fits is [packing.Size.Fits], and skips the extended resources if no item requests any: searches spend most of their time
// here, and the compiler inlines it.
func (p *Problem) fits(item, room *packing.Size) bool {
	return item.MemoryBytes <= room.MemoryBytes && item.MilliCPU <= room.MilliCPU && (!p.asksExtended || item.FitsInto(room))
}

// holds reports whether one machine of an offer has room for items that use the given amounts in total, and admits them;
// on is the set of offers that admit them all.
func (p *Problem) holds(at int, used *packing.Size, on int32, items int64) bool {
	o := &p.offers[at]
	return p.fits(used, &o.Size) && items <= o.places && p.has(on, at)
}

// New returns the problem of an input.
//
// Cost: O(k·f) and that of some linear programs, for k kinds of items and f bins that no cheaper one replaces.
func New(in *Input) *Problem {
	p := newUnpriced(in)
	p.scale()
	return p
}

// newUnpriced returns the problem without the numbers that depend on prices.
func newUnpriced(in *Input) *Problem {
	p := &Problem{total: len(in.Items), rooms: in.Rooms, quotas: in.Quotas}
	p.addOffers(in.Bins)
	p.sets = newSets(len(p.offers) + len(p.rooms))
	on, pricedOn := make([]int32, len(in.Classes)), make([]int32, len(in.Classes))
	for class := range in.Classes {
		on[class] = p.number(p.make(func(at int) bool { return p.admitsOf(at)[class] == Admitted }))
		pricedOn[class] = on[class]
		if anywhere := in.Classes[class].Anywhere; anywhere != nil {
			pricedOn[class] = p.number(p.make(func(at int) bool { return at < len(p.offers) && anywhere(p.offers[at].Number) }))
		}
	}
	p.addKinds(in.Items, on, pricedOn)
	if in.Domains {
		p.findTwins()
	}
	return p
}

// admitsOf returns the classes that an offer or room admits.
func (p *Problem) admitsOf(at int) string {
	if at < len(p.offers) {
		return p.offers[at].Admits
	}
	return p.rooms[at-len(p.offers)].Admits
}

// borrow takes the pricing of another problem of about the same items, and reports whether that problem has all offers.
func (p *Problem) borrow(from *Problem) bool {
	at := map[int]int{}
	for i := range from.offers {
		at[from.offers[i].Number] = i
	}
	p.pricing = pricing{parts: make([]lp.Vector, len(p.offers))}
	for i := range p.offers {
		theirs, has := at[p.offers[i].Number]
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
func (p *Problem) findTwins() {
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
func (p *Problem) twin(at int) bool { return p.twins != nil && p.twins[at] != at }

// addOffers adds the bins that no cheaper or equal offer dominates: one at least as large that admits the same items.
func (p *Problem) addOffers(bins []Bin) {
	for at, b := range bins {
		o := offer{Bin: b, at: at, places: min(b.Places, int64(p.total)), price: uint64(max(b.MicroDollarsPerHour, 0))}
		dominated := slices.ContainsFunc(p.offers, func(other offer) bool {
			return other.has(&o.Size, o.places) && other.Admits == b.Admits && other.Domain == b.Domain && other.Most == nil
		})
		if !dominated {
			p.all = append(p.all, len(p.offers))
			p.offers = append(p.offers, o)
		}
	}
}

// addKinds collects equal items. on and pricedOn are, by class, the sets of offers that admit it, and that admit it in
// any domain.
func (p *Problem) addKinds(items []Item, on, pricedOn []int32) {
	type key struct {
		size         packing.Size
		on, pricedOn int32
		paid         uint64
		clique       int32
		quota        int32
	}
	at := map[key]int{}
	sizes := cliqueSizes(items)
	parts := cliqueParts(sizes)
	p.cliques = len(sizes)
	p.scarce, p.asksExtended = scarceSlots(items, extraMeasures-len(parts))
	p.extraMeasures = len(parts) + len(p.scarce)
	for i := range p.offers {
		p.offers[i].extra = p.wholes(p.offers[i].Size)
	}
	for number, item := range items {
		k := key{item.Size, on[item.Class], pricedOn[item.Class], uint64(item.Paid), item.Clique, item.Quota}
		i, ok := at[k]
		if !ok {
			i = len(p.kinds)
			at[k] = i
			p.kinds = append(p.kinds, kind{size: k.size, on: k.on, pricedOn: k.pricedOn, paid: k.paid, clique: k.clique, quota: k.quota})
			for r := range parts {
				if k.clique != None {
					p.kinds[i].extra[r] = parts[r][k.clique]
				}
			}
			for r, slot := range p.scarce {
				p.kinds[i].extra[len(parts)+r] = uint64(max(k.size.Extended.At(slot), 0))
			}
		}
		p.kinds[i].items = append(p.kinds[i].items, number)
	}
}

// scale computes the scaled numbers, and orders the kinds.
func (p *Problem) scale() {
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
	if p.total >= manyItems {
		p.pricing = pricing{}
		p.pricing = p.solvePricing(p.counts(), true)
	}
	for i := range p.kinds {
		p.kinds[i].worth, p.kinds[i].basic = p.pricing.worth[i], p.basic.worth[i]
	}
	slices.SortFunc(p.kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.paid, a.paid), cmp.Compare(b.worth, a.worth),
			packing.LargestFirst(packing.Item{Size: a.size}, packing.Item{Size: b.size}), cmp.Compare(a.on, b.on), cmp.Compare(a.pricedOn, b.pricedOn), cmp.Compare(a.clique, b.clique), cmp.Compare(a.quota, b.quota),
			a.size.Extended.Compare(b.size.Extended))
	})
	for i := range p.kinds {
		p.pricing.worth[i], p.basic.worth[i] = p.kinds[i].worth, p.kinds[i].basic
	}
}
