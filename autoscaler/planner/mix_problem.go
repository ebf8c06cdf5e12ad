package planner

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"supercargo.dev/supercargo/internal/packing"
)

// bill is an amount of money: micro-dollars per hour times nanoseconds. It has 128
// bits and stops at the greatest.
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

// kind are pods that can take each other's place: of one size and architecture,
// with which a machine is paid for equally long.
type kind struct {
	size packing.Size
	arch int // a place in the order of architectures, or anyArch
	paid uint64
	pods []string // in the order they are served
	scaled
}

const (
	anyArch = -1
	noArch  = -2 // what pods need that no machine can take together
)

// scaled are the numbers of a kind that steer the search, rounded down so that
// they fit into words. Bills are never made of them.
type scaled struct {
	// cpu and memory are parts of the greatest that an offer has, in 1/1<<unitBits.
	cpu, memory uint64
	// time is how long a machine is paid for with it, as a part of the longest, in
	// 1/1<<timeBits; 1 at least.
	time uint64
	// worth times time is no more than the pod costs in any mix, on the scale of
	// offer.about.
	worth uint64
}

const (
	unitBits  = 20
	timeBits  = 16
	priceBits = 30
)

// offer is a flavor that no cheaper or equal one makes superfluous.
type offer struct {
	Flavor
	arch   int
	places int64 // no more than there are pods
	price  uint64
	// cpu, memory and slots are Size and places in the units of scaled, rounded up.
	cpu, memory, slots uint64
	// about is price as a part of the highest, in 1/1<<priceBits; 1 at least.
	about uint64
}

func (o *offer) holds(used packing.Size, arch int, pods int64) bool {
	return used.Fits(o.Size) && (arch == anyArch || arch == o.arch) && pods <= o.places
}

// problem is what a mix is sought for.
type problem struct {
	kinds  []kind  // longest paid first, then most worth
	offers []offer // by price, then name
	total  int     // pods
	all    []int   // places of all offers
}

// newProblem takes pods that each fit some flavor, in the order they are served.
func newProblem(pods []Pod, flavors []Flavor, opts MixOptions) *problem {
	p := &problem{total: len(pods)}
	archs := p.addOffers(flavors)
	p.addKinds(pods, archs, opts)
	p.scale()
	return p
}

// addOffers returns the places of the architectures.
func (p *problem) addOffers(flavors []Flavor) map[string]int {
	archs := map[string]int{}
	for _, f := range byPrice(flavors) {
		if _, ok := archs[f.Arch]; !ok {
			archs[f.Arch] = len(archs)
		}
		o := offer{Flavor: f, arch: archs[f.Arch], places: int64(p.total), price: uint64(max(f.MicroDollarsPerHour, 0))}
		if f.MaxPods > 0 {
			o.places = min(o.places, f.MaxPods)
		}
		if !slices.ContainsFunc(p.offers, func(other offer) bool { return other.holds(o.Size, o.arch, o.places) }) {
			p.all = append(p.all, len(p.offers))
			p.offers = append(p.offers, o)
		}
	}
	return archs
}

func byPrice(flavors []Flavor) []Flavor {
	flavors = slices.Clone(flavors)
	slices.SortFunc(flavors, func(a, b Flavor) int {
		return cmp.Or(cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour), cmp.Compare(a.Name, b.Name))
	})
	return flavors
}

func (p *problem) addKinds(pods []Pod, archs map[string]int, opts MixOptions) {
	type key struct {
		size packing.Size
		arch int
		paid uint64
	}
	at := map[key]int{}
	for _, pod := range pods {
		k := key{pod.Size, anyArch, uint64(opts.Paid(pod.Runtime))}
		if pod.Arch != "" {
			k.arch = archs[pod.Arch]
		}
		i, ok := at[k]
		if !ok {
			i = len(p.kinds)
			at[k] = i
			p.kinds = append(p.kinds, kind{size: k.size, arch: k.arch, paid: k.paid})
		}
		p.kinds[i].pods = append(p.kinds[i].pods, pod.Name)
	}
}

// scale works out the rounded numbers, and the order of the kinds.
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
		o.cpu = portion(uint64(max(o.Size.MilliCPU, 0)), cpu, unitBits) + 1
		o.memory = portion(uint64(max(o.Size.MemoryBytes, 0)), memory, unitBits) + 1
		o.slots = portion(uint64(o.places), uint64(max(p.total, 1)), unitBits) + 1
		o.about = max(1, portion(o.price, dearest, priceBits))
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		k.cpu = portion(uint64(k.size.MilliCPU), cpu, unitBits)
		k.memory = portion(uint64(k.size.MemoryBytes), memory, unitBits)
		k.time = max(1, portion(k.paid, longest, timeBits))
	}
	p.setWorth()
	slices.SortFunc(p.kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.paid, a.paid), cmp.Compare(b.worth, a.worth),
			packing.LargestFirst(packing.Item{Size: a.size}, packing.Item{Size: b.size}), cmp.Compare(a.arch, b.arch))
	})
}

// portion returns part of whole in 1/1<<digits, rounded down, and no more than
// the whole.
func portion(part, whole uint64, digits uint) uint64 {
	if part >= whole {
		return 1 << digits
	}
	high, low := bits.Mul64(part, 1<<digits)
	q, _ := bits.Div64(high, low, whole)
	return q
}
