package mix

import (
	"cmp"
	"math/bits"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/lp"
	"supercargo.dev/supercargo/internal/packing"
)

// packer fills spaces one by one from a pool of lots. It takes items that waste nothing there, large ones first, so that
// small ones are left for the gaps. Then it exchanges items for others that fit and are worth more. It takes the worth
// of items from a pricing, and assumes equal billed times. It is not safe for concurrent use.
type packer struct {
	p *Problem
	// lots are the kinds in the pool, those worth the most first.
	lots []lot
	pool packing.FirstFit
	// preferred are offers to buy as long as the pool is worth one of them. suited are, by preferred offer, the items
	// that waste almost nothing there.
	preferred []int
	suited    []packing.FirstFit
	// value is the total worth of the pool.
	value uint64
	// inFilled reports, by clique, whether an item of it is in the space being filled. Only one space is filled at a time.
	inFilled []bool
	// steps counts the work.
	steps int
	random
}

// lot is a kind of item with its current worth.
type lot struct {
	kind   int32
	on     int32
	left   int32
	clique int32
	size   packing.Size
	worth  uint64
	// suitedTo has a bit for each preferred offer that the lot is suited to.
	suitedTo uint64
}

// stock replaces the pool by the given number of items of each kind.
func (k *packer) stock(counts []int32, at pricing) {
	k.lots, k.value = k.lots[:0], 0
	k.inFilled = make([]bool, k.p.cliques)
	for i, n := range counts {
		if n > 0 {
			kind := &k.p.kinds[i]
			k.lots = append(k.lots, lot{kind: int32(i), on: kind.on, left: n, clique: kind.clique, size: kind.size, worth: at.worth[i]})
			k.value += at.worth[i] * uint64(n)
		}
	}
	k.steps += 8 * len(k.lots)
	slices.SortStableFunc(k.lots, func(a, b lot) int { return cmp.Compare(b.worth, a.worth) })
	k.pool = packing.NewFirstFit(len(k.lots), func(at int) (packing.Size, bool) { return k.lots[at].size, true })
	k.preferred = at.preferred[:min(len(at.preferred), lp.MaxPreferred)]
	k.suited = k.suited[:0]
	for i := range k.preferred {
		k.addSuited(i, at.parts)
	}
}

// addSuited adds the items that are suited to the preferred offer at index i.
func (k *packer) addSuited(i int, parts []lp.Vector) {
	const enough = 0.99 // of the cost of the item's part of the machine
	offer := k.preferred[i]
	o, part := &k.p.offers[offer], &parts[offer]
	scale := float64(o.scaledPrice) / lp.Total(*part)
	for j := range k.lots {
		g := &k.lots[j]
		costs := 0.0
		for r, p := range part {
			if p > 0 {
				takes, has := o.part(&k.p.kinds[g.kind], r)
				costs += float64(scale*p) * (float64(takes) / float64(max(1, has)))
			}
		}
		if float64(g.worth)+2 >= float64(enough*costs) && k.p.holds(offer, &g.size, g.on, 1) {
			g.suitedTo |= 1 << i
		}
	}
	k.suited = append(k.suited, packing.NewFirstFit(len(k.lots), func(at int) (packing.Size, bool) {
		return k.lots[at].size, k.lots[at].suitedTo>>i&1 == 1
	}))
}

// counts returns what is left in the pool, by kind.
func (k *packer) counts() []int32 {
	counts := make([]int32, len(k.p.kinds))
	for i := range k.lots {
		counts[k.lots[i].kind] += k.lots[i].left
	}
	return counts
}

// put adds an item to the pool.
func (k *packer) put(at int32) {
	g := &k.lots[at]
	if g.left == 0 {
		k.pool.Set(int(at), g.size)
		for suits := g.suitedTo; suits > 0; suits &= suits - 1 {
			k.suited[bits.TrailingZeros64(suits)].Set(int(at), g.size)
		}
	}
	g.left++
	k.value += g.worth
}

// take removes an item from the pool.
func (k *packer) take(at int32) {
	g := &k.lots[at]
	g.left--
	k.value -= g.worth
	if g.left == 0 {
		k.pool.Clear(int(at))
		for suits := g.suitedTo; suits > 0; suits &= suits - 1 {
			k.suited[bits.TrailingZeros64(suits)].Clear(int(at))
		}
	}
}

// space is what is filled: a machine to buy, or a room.
type space struct {
	// at is its index among the offers, followed by the rooms.
	at     int
	size   packing.Size
	places int64
	// enough is the worth at which it counts as full.
	enough uint64
}

// filling is a space with items, given by indices in lots, that are out of the pool.
type filling struct {
	space
	lots  []int32
	room  packing.Size
	worth uint64
}

func (k *packer) add(f *filling, at int32) {
	k.take(at)
	g := &k.lots[at]
	f.lots = append(f.lots, at)
	f.room = f.room.Minus(g.size)
	f.worth += g.worth
	k.mark(at, true)
}

// mark records whether an item of the lot's clique is in the space.
func (k *packer) mark(at int32, in bool) {
	if c := k.lots[at].clique; c != None {
		k.inFilled[c] = in
	}
}

// drop puts the item at index i of the space back into the pool.
func (k *packer) drop(f *filling, i int) {
	at, last := f.lots[i], len(f.lots)-1
	f.lots[i] = f.lots[last]
	f.lots = f.lots[:last]
	g := &k.lots[at]
	f.room = f.room.Plus(g.size)
	f.worth -= g.worth
	k.mark(at, false)
	k.put(at)
}

func (k *packer) undo(f *filling) {
	for len(f.lots) > 0 {
		k.drop(f, len(f.lots)-1)
	}
}

// first returns the first, and so most valuable, of the lots from an index on that fit into a room of the space, or -1.
// Items with another item of their clique in the space do not fit.
func (k *packer) first(from int32, room *packing.Size, v *space, of *packing.FirstFit) int32 {
	for {
		at := of.Next(int(from), room, &k.steps)
		if at < 0 || at >= len(k.lots) {
			return -1
		}
		// An unlimited room holds even what is not in the pool.
		if g := &k.lots[at]; g.left > 0 && (!k.p.asksExtended || g.size.Extended.Fits(room.Extended)) && (g.clique == None || !k.inFilled[g.clique]) && k.p.has(g.on, v.at) {
			return int32(at)
		}
		from = int32(at) + 1
	}
}

// fill packs items of a pool into a space: in each step, of the window most valuable items that fit, the one that best
// matches the shape of the room. If even, it takes a random one instead while the room runs out faster than the places.
func (k *packer) fill(f *filling, of *packing.FirstFit, window int, even bool) {
	cpu, memory := 1/float64(max(f.size.MilliCPU, 1)), 1/float64(max(f.size.MemoryBytes, 1))
	from := int32(0)
	for int64(len(f.lots)) < f.places {
		best, top := int32(-1), -1.0
		freeCPU, freeMemory := float64(float64(f.room.MilliCPU)*cpu), float64(float64(f.room.MemoryBytes)*memory)
		if even && float64(len(f.lots)) < (1-min(freeCPU, freeMemory))*float64(f.places) {
			if drawn := k.first(int32(k.intN(len(k.lots))), &f.room, &f.space, of); drawn >= 0 {
				k.add(f, drawn)
				continue
			}
		}
		at := from
		for i := range window {
			if at = k.first(at, &f.room, &f.space, of); at < 0 {
				break
			}
			if i == 0 {
				from = at // what did not fit will not fit later
			}
			s := k.lots[at].size
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

// refine exchanges one or two items of a space at once for others of the pool while that increases its worth, in at most
// rounds passes, until the space is worth enough.
func (k *packer) refine(f *filling, rounds int) {
	for range rounds {
		was := f.worth
		for i := 0; i < len(f.lots); i++ {
			if f.worth >= f.enough {
				return
			}
			k.exchange(f, i, -1)
		}
		for range len(f.lots) {
			n := len(f.lots)
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

// exchange replaces the items at one or two indices of the space, the greater first, by the one or two of the pool that
// are worth the most, or keeps them. The second index is -1 for none.
func (k *packer) exchange(f *filling, i, j int) {
	room, least, stay := f.room.Plus(k.lots[f.lots[i]].size), k.lots[f.lots[i]].worth, int64(len(f.lots))-1
	if j >= 0 {
		room, least, stay = room.Plus(k.lots[f.lots[j]].size), least+k.lots[f.lots[j]].worth, stay-1
	}
	k.mark(f.lots[i], false) // other items of their cliques may replace them
	if j >= 0 {
		k.mark(f.lots[j], false)
	}
	one, two := k.bestPair(f, room, stay, least)
	if one < 0 {
		k.mark(f.lots[i], true)
		if j >= 0 {
			k.mark(f.lots[j], true)
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

// bestPair returns one or two items of the pool that fit into a room together, beside stay other items, and are worth
// more than least, the best found; -1 for none. The best single item is always found. Pairs are tried with some of the
// most valuable items that fit, and with some random ones, each with the best second item.
func (k *packer) bestPair(f *filling, room packing.Size, stay int64, least uint64) (one, two int32) {
	const largest, drawn = 6, 6
	one, two = -1, -1
	start := k.first(0, &room, &f.space, &k.pool)
	if start < 0 {
		return one, two
	}
	if w := k.lots[start].worth; w > least {
		one, least = start, w
	}
	if stay+2 > f.places {
		return one, two
	}
	from := start
	for i := range largest + drawn {
		if i >= largest {
			from = start + int32(k.intN(len(k.lots)-int(start)))
		}
		a := k.first(from, &room, &f.space, &k.pool)
		if a < 0 {
			continue
		}
		from = a + 1
		after := a
		if k.lots[a].left == 1 {
			after++
		}
		k.mark(a, true)
		rest := room.Minus(k.lots[a].size)
		b := k.first(after, &rest, &f.space, &k.pool)
		k.mark(a, false)
		if b < 0 {
			continue
		}
		if w := k.lots[a].worth + k.lots[b].worth; w > least {
			one, two, least = a, b, w
		}
	}
	return one, two
}

// fillRooms returns, by room, the kinds of the items that go there. Items that fit no offer come first, then those worth
// the most.
func (p *Problem) fillRooms() [][]int32 {
	at := pricing{parts: p.pricing.parts, worth: slices.Clone(p.pricing.worth)}
	for i := range p.kinds {
		k := &p.kinds[i]
		if !slices.ContainsFunc(p.all, func(at int) bool { return p.holds(at, &k.size, k.on, 1) }) {
			at.worth[i] = 1 << priceBits
		}
	}
	k := &packer{p: p}
	k.stock(p.counts(), at)
	found := make([][]int32, len(p.rooms))
	for i, r := range p.rooms {
		f := filling{space: space{at: len(p.offers) + i, size: r.Size, places: min(r.Places, int64(p.total)), enough: 1 << 63}, room: r.Size}
		k.fill(&f, &k.pool, 24, false)
		k.refine(&f, 2)
		for _, g := range f.lots {
			found[i] = append(found[i], k.lots[g].kind)
			k.mark(g, false)
		}
	}
	return found
}
