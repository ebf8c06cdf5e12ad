package mix

import (
	"slices"

	"supercargo.dev/supercargo/internal/packing"
)

// strategy is how a packer constructs a mix. Any strategy makes a valid one.
type strategy struct {
	// window is the number of items compared in each step of filling a machine.
	window int
	// trial and rounds are how often all items of a machine are tried for exchanges, on trial and when it is bought.
	trial, rounds int
	// reprice is the percentage of its worth that the pool loses before prices are recalculated; 100 means never.
	reprice int
	// costs are the costs, by offer, in the worth per cost by which machines are chosen; nil means prices.
	costs []uint64
	// some are offers to try before all others; nil means none.
	some []int
	// extended selects the extended pricing: see solvePricing.
	extended bool
	// even fills a machine with items of all sizes alike while its room runs out faster than its places.
	even bool
}

// strategies are tried in this order.
var strategies = []strategy{
	{window: 24, trial: 1, rounds: 3, reprice: 50},
	{window: 24, trial: 1, rounds: 3, reprice: 50, extended: true},
	{window: 24, trial: 1, rounds: 3, reprice: 100},
	{window: 24, trial: 1, rounds: 3, reprice: 100, extended: true},
	{window: 24, trial: 1, rounds: 3, reprice: 20},
	{window: 24, trial: 1, rounds: 3, reprice: 20, extended: true},
	{window: 8, trial: 1, rounds: 3, reprice: 35},
	{window: 64, trial: 2, rounds: 6, reprice: 20},
	{window: 12, trial: 2, rounds: 6, reprice: 10},
	{window: 4, trial: 2, rounds: 6, reprice: 30},
	{window: 200, trial: 2, rounds: 6, reprice: 30},
}

// persistent are the first extended strategies, each also with even: see [solver.persist].
var persistent = func() []strategy {
	var found []strategy
	for _, m := range strategies[:6] {
		if m.extended {
			found = append(found, m)
			m.even = true
			found = append(found, m)
		}
	}
	return found
}()

// manyItems is the number of items from which an extended pricing and rebuild pay off: for fewer, the local search is as
// good and much faster.
const manyItems = 1_000

// someItems is the number of items from which a search persists: fewer take little time, of which that is a large part.
const someItems = 500

// strategies returns the strategies to try: few if items have different billed times, because each is then also tried
// for items of similar times.
func (p *Problem) strategies() []strategy {
	if p.total >= manyItems && !p.timed() {
		return strategies
	}
	basic := slices.DeleteFunc(slices.Clone(strategies), func(m strategy) bool { return m.extended })
	if p.timed() {
		return basic[:2]
	}
	return basic
}

// buyer constructs a mix, within a budget.
type buyer struct {
	packer
	strategy
	budget *Budget
	made   []machine
	best   []int32
	buffer []int32
	turn   int // index of the preferred offer tried last
}

// construct makes machines for the given number of items of each kind as far as the budget allows, and leaves the items
// without one in the pool. It returns false if it was stopped.
func (b *buyer) construct(counts []int32, at pricing, stop func() bool) bool {
	b.stock(counts, at)
	b.made = nil
	next := b.next()
	fresh := len(b.preferred) == 0
	for {
		if stop() {
			return false
		}
		top := b.tryPreferred()
		if top.at < 0 && !fresh || b.value < next {
			left := b.counts()
			at := b.p.solvePricing(left, b.extended)
			b.stock(left, at)
			b.steps += at.steps + 50*len(b.lots)
			next, fresh = b.next(), true
			continue
		}
		if top.at < 0 {
			top = b.tryAll()
		}
		if top.at < 0 {
			return true
		}
		b.buy(top)
		fresh = len(b.preferred) == 0
	}
}

// next returns the value of the pool at which prices are recalculated.
func (b *buyer) next() uint64 { return b.value / 100 * uint64(100-b.reprice) }

// tryPreferred returns the best machine of the preferred offers whose price the pool is worth, filled with the items
// suited to it first. Of many offers it takes the first full machine, and starts with another offer each time.
func (b *buyer) tryPreferred() filling {
	const many = 8
	top := filling{space: space{at: -1}}
	if len(b.preferred) <= many {
		b.turn = -1
	}
	for range b.preferred {
		b.turn = (b.turn + 1) % len(b.preferred)
		if at := b.preferred[b.turn]; b.p.offers[at].scaledPrice <= b.value {
			b.try(at, &b.suited[b.turn], &top)
		}
		if len(b.preferred) > many && top.at >= 0 && top.worth >= top.enough {
			break
		}
	}
	return top
}

// tryAll returns the best machine of the offers in some, or else of all offers.
func (b *buyer) tryAll() filling {
	top := filling{space: space{at: -1}}
	for _, offers := range [][]int{b.some, b.p.all} {
		for _, at := range offers {
			b.try(at, &b.pool, &top)
		}
		if top.at >= 0 {
			break
		}
	}
	return top
}

// try fills a machine on trial. If it has more worth per cost than top, it becomes top, and its items become best.
func (b *buyer) try(at int, of *packing.FirstFit, top *filling) {
	if !b.budget.allows(b.p, at) {
		return
	}
	f := b.empty(at)
	b.fill(&f, of, b.window, b.even)
	if of != &b.pool && len(f.lots) > 0 {
		b.fill(&f, &b.pool, b.window, b.even)
	}
	if len(f.lots) > 0 {
		b.refine(&f, b.trial)
		b.downsize(&f)
		if top.at < 0 || b.compare(&f, top) > 0 {
			b.best = append(b.best[:0], f.lots...)
			*top = f
		}
	}
	b.buffer = f.lots[:0]
	b.undo(&f)
}

// compare compares the worth per cost of two machines.
func (b *buyer) compare(f, g *filling) int {
	return newBill(f.worth+1, b.cost(g.at)).compare(newBill(g.worth+1, b.cost(f.at)))
}

func (b *buyer) cost(at int) uint64 {
	if b.costs != nil {
		return b.costs[at]
	}
	return b.p.offers[at].scaledPrice
}

func (b *buyer) empty(at int) filling {
	const part = 1000
	o := &b.p.offers[at]
	return filling{
		space: space{at: at, size: o.Size, places: o.places, enough: o.scaledPrice - o.scaledPrice/part},
		lots:  b.buffer[:0], room: o.Size,
	}
}

// downsize changes the machine to the first offer that holds its items and may be bought.
func (b *buyer) downsize(f *filling) {
	used, on := f.size.Minus(f.room), anyOffer
	for _, at := range f.lots {
		on = b.p.meet(on, b.lots[at].on)
	}
	for i := range f.at {
		if b.p.holds(i, &used, on, int64(len(f.lots))) && b.budget.allows(b.p, i) {
			o := &b.p.offers[i]
			f.at, f.size, f.places, f.room = i, o.Size, o.places, o.Size.Minus(used)
			f.enough = o.scaledPrice
			return
		}
	}
}

// buy takes the items of the top machine out of the pool, and repeats that while there are enough items of each kind.
func (b *buyer) buy(top filling) {
	f := b.empty(top.at)
	for _, at := range slices.Clone(b.best) {
		b.add(&f, at)
	}
	b.refine(&f, b.rounds)
	for {
		b.made = append(b.made, b.machine(&f))
		b.budget.spend(b.p, b.made[len(b.made)-1].offer)
		if !b.again(&f) {
			break
		}
	}
	for _, at := range f.lots {
		b.mark(at, false)
	}
	b.buffer = f.lots[:0]
}

// again takes the same items once more, if they are in the pool and the machine may be bought.
func (b *buyer) again(f *filling) bool {
	if !b.budget.allows(b.p, b.made[len(b.made)-1].offer) {
		return false
	}
	for i, at := range f.lots {
		if b.lots[at].left == 0 {
			for _, back := range f.lots[:i] {
				b.put(back)
			}
			return false
		}
		b.take(at)
	}
	return true
}

// machine converts a filling to a machine of the first offer that holds its items and may be bought.
func (b *buyer) machine(f *filling) machine {
	b.downsize(f)
	m := machine{offer: f.at, on: anyOffer}
	for _, at := range f.lots {
		b.p.add(&m, b.lots[at].kind)
	}
	return m
}
