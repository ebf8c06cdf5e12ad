package planner

import (
	"cmp"
	"math/bits"
	"slices"

	"supercargo.dev/supercargo/internal/packing"
)

// packer fills machines one by one from a pool of pods, each as well as it can: with
// the pods that lose nothing there and of these the large ones first, so that small
// ones are left to fill what those leave; then it exchanges pods for such as are worth
// more and fit. It takes pods to be worth what a pricing says, and all to be paid for
// equally long. It is not safe for concurrent use.
type packer struct {
	p *problem
	// goods are the kinds in the pool, those worth the most first.
	goods []good
	pool  pool
	// liked are offers to buy as long as the pool is worth one of them, homes by liked
	// offer the pods that lose next to nothing there.
	liked []int
	homes []pool
	// value is what the pool is worth.
	value uint64
	// steps counts the work.
	steps int
	chance
}

// good is a kind of pod by what it is worth now.
type good struct {
	kind  int32
	on    int32
	left  int32
	size  packing.Size
	worth uint64
	// homes are those it is in, a bit for each.
	homes uint64
}

const mostHomes = 64

// stock replaces the pool by so many pods of each kind.
func (k *packer) stock(counts []int32, at pricing) {
	k.goods, k.value = k.goods[:0], 0
	for i, n := range counts {
		if n > 0 {
			kind := &k.p.kinds[i]
			k.goods = append(k.goods, good{kind: int32(i), on: kind.on, left: n, size: kind.size, worth: at.worth[i]})
			k.value += at.worth[i] * uint64(n)
		}
	}
	k.steps += 8 * len(k.goods)
	slices.SortStableFunc(k.goods, func(a, b good) int { return cmp.Compare(b.worth, a.worth) })
	k.pool = newPool(k.goods, func(*good) bool { return true })
	k.liked = at.liked[:min(len(at.liked), mostHomes)]
	k.homes = k.homes[:0]
	for i := range k.liked {
		k.addHome(i, at.parts)
	}
}

// addHome makes the home of the liked offer at a place.
func (k *packer) addHome(i int, parts []vector) {
	const home = 0.99 // of what the pod's part of the machine costs
	offer := k.liked[i]
	o, part := &k.p.offers[offer], &parts[offer]
	scale := float64(o.about) / total(*part)
	for j := range k.goods {
		g := &k.goods[j]
		costs := 0.0
		for r, p := range part {
			if p > 0 {
				takes, has := o.part(&k.p.kinds[g.kind], r)
				costs += float64(scale*p) * (float64(takes) / float64(max(1, has)))
			}
		}
		if float64(g.worth)+2 >= float64(home*costs) && k.p.holds(offer, g.size, g.on, 1) {
			g.homes |= 1 << i
		}
	}
	k.homes = append(k.homes, newPool(k.goods, func(g *good) bool { return g.homes>>i&1 == 1 }))
}

// counts returns what is left in the pool by kind.
func (k *packer) counts() []int32 {
	counts := make([]int32, len(k.p.kinds))
	for i := range k.goods {
		counts[k.goods[i].kind] += k.goods[i].left
	}
	return counts
}

// put adds a pod to the pool.
func (k *packer) put(at int32) {
	g := &k.goods[at]
	if g.left == 0 {
		k.pool.set(int(at), g.size)
		for homes := g.homes; homes > 0; homes &= homes - 1 {
			k.homes[bits.TrailingZeros64(homes)].set(int(at), g.size)
		}
	}
	g.left++
	k.value += g.worth
}

// take removes one.
func (k *packer) take(at int32) {
	g := &k.goods[at]
	g.left--
	k.value -= g.worth
	if g.left == 0 {
		k.pool.clear(int(at))
		for homes := g.homes; homes > 0; homes &= homes - 1 {
			k.homes[bits.TrailingZeros64(homes)].clear(int(at))
		}
	}
}

// vessel is what pods are packed into: a machine to buy, or room on a node.
type vessel struct {
	// at is its place among the offers and nodes.
	at     int
	size   packing.Size
	places int64
	// enough is the worth at which it counts as full.
	enough uint64
}

// filling is a vessel with pods, by their places in goods, that are out of the pool.
type filling struct {
	vessel
	goods []int32
	room  packing.Size
	worth uint64
}

func (k *packer) add(f *filling, at int32) {
	k.take(at)
	g := &k.goods[at]
	f.goods = append(f.goods, at)
	f.room = f.room.Minus(g.size)
	f.worth += g.worth
}

// drop puts the pod at a place of the vessel back into the pool.
func (k *packer) drop(f *filling, i int) {
	at, last := f.goods[i], len(f.goods)-1
	f.goods[i] = f.goods[last]
	f.goods = f.goods[:last]
	g := &k.goods[at]
	f.room = sum(f.room, g.size)
	f.worth -= g.worth
	k.put(at)
}

func (k *packer) undo(f *filling) {
	for len(f.goods) > 0 {
		k.drop(f, len(f.goods)-1)
	}
}

func sum(a, b packing.Size) packing.Size {
	return packing.Size{MilliCPU: a.MilliCPU + b.MilliCPU, MemoryBytes: a.MemoryBytes + b.MemoryBytes}
}

// first returns the first of the goods from a place on that fits into a room of the
// vessel, which is that worth the most, or -1.
func (k *packer) first(from int32, room packing.Size, v *vessel, of *pool) int32 {
	for {
		at := of.next(int(from), room, &k.steps)
		if at < 0 || at >= len(k.goods) {
			return -1
		}
		// Into a room without limit even nobody fits.
		if k.goods[at].left > 0 && k.p.has(k.goods[at].on, v.at) {
			return int32(at)
		}
		from = int32(at) + 1
	}
}

// fill packs pods of a pool into a vessel: each time the one that goes best with the
// shape of the room, of so many of the largest that fit.
func (k *packer) fill(f *filling, of *pool, window int) {
	cpu, memory := 1/float64(max(f.size.MilliCPU, 1)), 1/float64(max(f.size.MemoryBytes, 1))
	from := int32(0)
	for int64(len(f.goods)) < f.places {
		best, top := int32(-1), -1.0
		freeCPU, freeMemory := float64(float64(f.room.MilliCPU)*cpu), float64(float64(f.room.MemoryBytes)*memory)
		at := from
		for i := range window {
			if at = k.first(at, f.room, &f.vessel, of); at < 0 {
				break
			}
			if i == 0 {
				from = at // what did not fit will not
			}
			s := k.goods[at].size
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

// refine exchanges one or two pods of a vessel at once for others of the pool as long
// as that makes it worth more, so many times through all of them at most, until it is
// worth enough.
func (k *packer) refine(f *filling, rounds int) {
	for range rounds {
		was := f.worth
		for i := 0; i < len(f.goods); i++ {
			if f.worth >= f.enough {
				return
			}
			k.exchange(f, i, -1)
		}
		for range len(f.goods) {
			n := len(f.goods)
			if f.worth >= f.enough || n < 2 {
				return
			}
			i, j := k.below(n), k.below(n-1)
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

// exchange replaces the pods at one or two places of the vessel, the greater first, by
// the one or two of the pool that are worth the most, or keeps them. The second place
// is -1 for none.
func (k *packer) exchange(f *filling, i, j int) {
	room, least, stay := sum(f.room, k.goods[f.goods[i]].size), k.goods[f.goods[i]].worth, int64(len(f.goods))-1
	if j >= 0 {
		room, least, stay = sum(room, k.goods[f.goods[j]].size), least+k.goods[f.goods[j]].worth, stay-1
	}
	one, two := k.bestPair(f, room, stay, least)
	if one < 0 {
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

// bestPair returns one or two of the pool that fit into a room together, beside so many
// pods that stay, and are worth more than least, the most it can find; -1 for none.
// The best one is found for sure. Of pairs it tries those with one of the largest that
// fit, and with some that chance draws, with the best second one.
func (k *packer) bestPair(f *filling, room packing.Size, stay int64, least uint64) (one, two int32) {
	const largest, drawn = 6, 6
	one, two = -1, -1
	start := k.first(0, room, &f.vessel, &k.pool)
	if start < 0 {
		return one, two
	}
	if w := k.goods[start].worth; w > least {
		one, least = start, w
	}
	if stay+2 > f.places {
		return one, two
	}
	from := start
	for i := range largest + drawn {
		if i >= largest {
			from = start + int32(k.below(len(k.goods)-int(start)))
		}
		a := k.first(from, room, &f.vessel, &k.pool)
		if a < 0 {
			continue
		}
		from = a + 1
		after := a
		if k.goods[a].left == 1 {
			after++
		}
		b := k.first(after, room.Minus(k.goods[a].size), &f.vessel, &k.pool)
		if b < 0 {
			continue
		}
		if w := k.goods[a].worth + k.goods[b].worth; w > least {
			one, two, least = a, b, w
		}
	}
	return one, two
}
