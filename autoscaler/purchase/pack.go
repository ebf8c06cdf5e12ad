package purchase

import (
	"cmp"
	"math/bits"
	"slices"

	"supercargo.dev/supercargo/internal/packing"
)

// packer fills bins one by one from a pool of items. It takes pods that waste nothing there, large ones first, so that
// small ones are left for the gaps. Then it exchanges pods for others that fit and are worth more. It takes the worth
// of pods from a pricing, and assumes equal billed times. It is not safe for concurrent use.
type packer struct {
	p *problem
	// items are the kinds in the pool, those worth the most first.
	items []item
	pool  pool
	// preferred are offers to buy as long as the pool is worth one of them. suited are, by preferred offer, the pods
	// that waste almost nothing there.
	preferred []int
	suited    []pool
	// value is the total worth of the pool.
	value uint64
	// inBin reports, by clique, whether a pod of it is in the bin being filled. Only one bin is filled at a time.
	inBin []bool
	// steps counts the work.
	steps int
	random
}

// item is a kind of pod with its current worth.
type item struct {
	kind   int32
	on     int32
	left   int32
	clique int32
	size   packing.Size
	worth  uint64
	// suitedTo has a bit for each preferred offer that the item is suited to.
	suitedTo uint64
}

const maxPreferred = 64

// stock replaces the pool by the given number of pods of each kind.
func (k *packer) stock(counts []int32, at pricing) {
	k.items, k.value = k.items[:0], 0
	k.inBin = make([]bool, k.p.cliques)
	for i, n := range counts {
		if n > 0 {
			kind := &k.p.kinds[i]
			k.items = append(k.items, item{kind: int32(i), on: kind.on, left: n, clique: kind.clique, size: kind.size, worth: at.worth[i]})
			k.value += at.worth[i] * uint64(n)
		}
	}
	k.steps += 8 * len(k.items)
	slices.SortStableFunc(k.items, func(a, b item) int { return cmp.Compare(b.worth, a.worth) })
	k.pool = newPool(k.items, func(*item) bool { return true })
	k.preferred = at.preferred[:min(len(at.preferred), maxPreferred)]
	k.suited = k.suited[:0]
	for i := range k.preferred {
		k.addSuited(i, at.parts)
	}
}

// addSuited adds the pods that are suited to the preferred offer at index i.
func (k *packer) addSuited(i int, parts []vector) {
	const enough = 0.99 // of the cost of the pod's part of the machine
	offer := k.preferred[i]
	o, part := &k.p.offers[offer], &parts[offer]
	scale := float64(o.scaledPrice) / total(*part)
	for j := range k.items {
		g := &k.items[j]
		costs := 0.0
		for r, p := range part {
			if p > 0 {
				takes, has := o.part(&k.p.kinds[g.kind], r)
				costs += float64(scale*p) * (float64(takes) / float64(max(1, has)))
			}
		}
		if float64(g.worth)+2 >= float64(enough*costs) && k.p.holds(offer, g.size, g.on, 1) {
			g.suitedTo |= 1 << i
		}
	}
	k.suited = append(k.suited, newPool(k.items, func(g *item) bool { return g.suitedTo>>i&1 == 1 }))
}

// counts returns what is left in the pool, by kind.
func (k *packer) counts() []int32 {
	counts := make([]int32, len(k.p.kinds))
	for i := range k.items {
		counts[k.items[i].kind] += k.items[i].left
	}
	return counts
}

// put adds a pod to the pool.
func (k *packer) put(at int32) {
	g := &k.items[at]
	if g.left == 0 {
		k.pool.set(int(at), g.size)
		for suits := g.suitedTo; suits > 0; suits &= suits - 1 {
			k.suited[bits.TrailingZeros64(suits)].set(int(at), g.size)
		}
	}
	g.left++
	k.value += g.worth
}

// take removes a pod from the pool.
func (k *packer) take(at int32) {
	g := &k.items[at]
	g.left--
	k.value -= g.worth
	if g.left == 0 {
		k.pool.clear(int(at))
		for suits := g.suitedTo; suits > 0; suits &= suits - 1 {
			k.suited[bits.TrailingZeros64(suits)].clear(int(at))
		}
	}
}

// bin is a container for pods: a machine to buy, or room on a node.
type bin struct {
	// at is its index among the offers, followed by the nodes.
	at     int
	size   packing.Size
	places int64
	// enough is the worth at which it counts as full.
	enough uint64
}

// filledBin is a bin with pods, given by indices in items, that are out of the pool.
type filledBin struct {
	bin
	items []int32
	room  packing.Size
	worth uint64
}

func (k *packer) add(f *filledBin, at int32) {
	k.take(at)
	g := &k.items[at]
	f.items = append(f.items, at)
	f.room = f.room.Minus(g.size)
	f.worth += g.worth
	k.mark(at, true)
}

// mark records whether a pod of the item's clique is in the bin.
func (k *packer) mark(at int32, in bool) {
	if c := k.items[at].clique; c != noClique {
		k.inBin[c] = in
	}
}

// drop puts the pod at index i of the bin back into the pool.
func (k *packer) drop(f *filledBin, i int) {
	at, last := f.items[i], len(f.items)-1
	f.items[i] = f.items[last]
	f.items = f.items[:last]
	g := &k.items[at]
	f.room = sum(f.room, g.size)
	f.worth -= g.worth
	k.mark(at, false)
	k.put(at)
}

func (k *packer) undo(f *filledBin) {
	for len(f.items) > 0 {
		k.drop(f, len(f.items)-1)
	}
}

func sum(a, b packing.Size) packing.Size {
	return packing.Size{MilliCPU: a.MilliCPU + b.MilliCPU, MemoryBytes: a.MemoryBytes + b.MemoryBytes}
}

// first returns the first, and so most valuable, of the items from an index on that fit into a room of the bin, or -1.
// Items with another pod of their clique in the bin do not fit.
func (k *packer) first(from int32, room packing.Size, v *bin, of *pool) int32 {
	for {
		at := of.next(int(from), room, &k.steps)
		if at < 0 || at >= len(k.items) {
			return -1
		}
		// An unlimited room holds even fitsNowhere.
		if g := &k.items[at]; g.left > 0 && (g.clique == noClique || !k.inBin[g.clique]) && k.p.has(g.on, v.at) {
			return int32(at)
		}
		from = int32(at) + 1
	}
}

// fill packs pods of a pool into a bin: in each step, of the window most valuable pods that fit, the one that best
// matches the shape of the room.
func (k *packer) fill(f *filledBin, of *pool, window int) {
	cpu, memory := 1/float64(max(f.size.MilliCPU, 1)), 1/float64(max(f.size.MemoryBytes, 1))
	from := int32(0)
	for int64(len(f.items)) < f.places {
		best, top := int32(-1), -1.0
		freeCPU, freeMemory := float64(float64(f.room.MilliCPU)*cpu), float64(float64(f.room.MemoryBytes)*memory)
		at := from
		for i := range window {
			if at = k.first(at, f.room, &f.bin, of); at < 0 {
				break
			}
			if i == 0 {
				from = at // what did not fit will not fit later
			}
			s := k.items[at].size
			score := float64(float64(float64(s.MilliCPU)*cpu)*freeCPU) + float64(float64(float64(s.MemoryBytes)*memory)*freeMemory)
			if score > top {
				best, top = at, score
			}
			at++
		}
		if best < 0 {
			return
		}
		k.add(f, best)
	}
}

// refine exchanges one or two pods of a bin at once for others of the pool while that increases its worth, in at most
// rounds passes, until the bin is worth enough.
func (k *packer) refine(f *filledBin, rounds int) {
	for range rounds {
		was := f.worth
		for i := 0; i < len(f.items); i++ {
			if f.worth >= f.enough {
				return
			}
			k.exchange(f, i, -1)
		}
		for range len(f.items) {
			n := len(f.items)
			if f.worth >= f.enough || n < 2 {
				return
			}
			i, j := k.intN(n), k.intN(n-1)
			if j >= i {
				j++
			}
			k.exchange(f, max(i, j), min(i, j))
		}
		if f.worth == was {
			return
		}
	}
}

// exchange replaces the pods at one or two indices of the bin, the greater first, by the one or two of the pool that
// are worth the most, or keeps them. The second index is -1 for none.
func (k *packer) exchange(f *filledBin, i, j int) {
	room, least, stay := sum(f.room, k.items[f.items[i]].size), k.items[f.items[i]].worth, int64(len(f.items))-1
	if j >= 0 {
		room, least, stay = sum(room, k.items[f.items[j]].size), least+k.items[f.items[j]].worth, stay-1
	}
	k.mark(f.items[i], false) // other pods of their cliques may replace them
	if j >= 0 {
		k.mark(f.items[j], false)
	}
	one, two := k.bestPair(f, room, stay, least)
	if one < 0 {
		k.mark(f.items[i], true)
		if j >= 0 {
			k.mark(f.items[j], true)
		}
		return
	}
	k.drop(f, i)
	if j >= 0 {
		k.drop(f, j)
	}
	k.add(f, one)
	if two >= 0 {
		k.add(f, two)
	}
}

// bestPair returns one or two pods of the pool that fit into a room together, beside stay other pods, and are worth
// more than least, the best found; -1 for none. The best single pod is always found. Pairs are tried with some of the
// most valuable pods that fit, and with some random ones, each with the best second pod.
func (k *packer) bestPair(f *filledBin, room packing.Size, stay int64, least uint64) (one, two int32) {
	const largest, drawn = 6, 6
	one, two = -1, -1
	start := k.first(0, room, &f.bin, &k.pool)
	if start < 0 {
		return one, two
	}
	if w := k.items[start].worth; w > least {
		one, least = start, w
	}
	if stay+2 > f.places {
		return one, two
	}
	from := start
	for i := range largest + drawn {
		if i >= largest {
			from = start + int32(k.intN(len(k.items)-int(start)))
		}
		a := k.first(from, room, &f.bin, &k.pool)
		if a < 0 {
			continue
		}
		from = a + 1
		after := a
		if k.items[a].left == 1 {
			after++
		}
		k.mark(a, true)
		b := k.first(after, room.Minus(k.items[a].size), &f.bin, &k.pool)
		k.mark(a, false)
		if b < 0 {
			continue
		}
		if w := k.items[a].worth + k.items[b].worth; w > least {
			one, two, least = a, b, w
		}
	}
	return one, two
}
