package planner

import (
	"slices"
)

// manner is how a packer constructs a mix. Any manner makes a valid one.
type manner struct {
	// window is how many pods are compared at each step of filling a machine.
	window int
	// rounds are how often a machine is gone through to exchange pods, on trial and
	// when it is bought.
	trial, rounds int
	// reprice is the part of its worth, in percent, that the pool has lost when it is
	// priced anew; 100 is never.
	reprice int
	// costs are by offer what machines are chosen by, worth per cost: their price if
	// nil.
	costs []uint64
	// some are offers to try before all others; nil is none.
	some []int
	// wide says that pods are priced widely, see appraise.
	wide bool
}

// manners are tried in this order.
var manners = []manner{
	{window: 24, trial: 1, rounds: 3, reprice: 50},
	{window: 24, trial: 1, rounds: 3, reprice: 50, wide: true},
	{window: 24, trial: 1, rounds: 3, reprice: 100},
	{window: 24, trial: 1, rounds: 3, reprice: 100, wide: true},
	{window: 24, trial: 1, rounds: 3, reprice: 20},
	{window: 24, trial: 1, rounds: 3, reprice: 20, wide: true},
	{window: 8, trial: 1, rounds: 3, reprice: 35},
	{window: 64, trial: 2, rounds: 6, reprice: 20},
	{window: 12, trial: 2, rounds: 6, reprice: 10},
	{window: 4, trial: 2, rounds: 6, reprice: 30},
	{window: 200, trial: 2, rounds: 6, reprice: 30},
}

// manyPods are so many that it pays to price them widely and to rebuild what wastes: for
// fewer, the local search is as good and much quicker.
const manyPods = 1_000

// manners returns those to try: few where pods are paid for unlike times, since each is
// tried for pods of like times, too.
func (p *problem) manners() []manner {
	if p.total >= manyPods && !p.timed() {
		return manners
	}
	narrow := slices.DeleteFunc(slices.Clone(manners), func(m manner) bool { return m.wide })
	if p.timed() {
		return narrow[:2]
	}
	return narrow
}

// buyer constructs a mix, within a budget.
type buyer struct {
	packer
	manner
	budget *budget
	made   []machine
	best   []int32
	buffer []int32
	turn   int // which of the liked offers was tried last
}

// construct makes machines for so many pods of each kind, as long as the budget allows,
// and leaves those in the pool that have none. It returns false if it was stopped.
func (b *buyer) construct(counts []int32, at pricing, stop func() bool) bool {
	b.stock(counts, at)
	b.made = nil
	next := b.next()
	fresh := len(b.liked) == 0
	for {
		if stop() {
			return false
		}
		top := b.tryLiked()
		if top.at < 0 && !fresh || b.value < next {
			left := b.counts()
			at := b.p.appraise(left, b.wide)
			b.stock(left, at)
			b.steps += at.steps + 50*len(b.goods)
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
		fresh = len(b.liked) == 0
	}
}

// next is the value of the pool at which it is priced anew.
func (b *buyer) next() uint64 { return b.value / 100 * uint64(100-b.reprice) }

// tryLiked returns the best machine of a liked offer that the pool is worth, filled
// from its home first. Of many it takes the first one that is full, and each time
// begins with another.
func (b *buyer) tryLiked() filling {
	const many = 8
	top := filling{vessel: vessel{at: -1}}
	if len(b.liked) <= many {
		b.turn = -1
	}
	for range b.liked {
		b.turn = (b.turn + 1) % len(b.liked)
		if at := b.liked[b.turn]; b.p.offers[at].about <= b.value {
			b.try(at, &b.homes[b.turn], &top)
		}
		if len(b.liked) > many && top.at >= 0 && top.worth >= top.enough {
			break
		}
	}
	return top
}

// tryAll returns the best machine of some offers, if there is any, or of all.
func (b *buyer) tryAll() filling {
	top := filling{vessel: vessel{at: -1}}
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

// try fills a machine on trial, and makes it the top one, with its pods in best, if it
// has more worth for its cost.
func (b *buyer) try(at int, of *pool, top *filling) {
	if !b.budget.allows(b.p, at) {
		return
	}
	f := b.empty(at)
	b.fill(&f, of, b.window)
	if of != &b.pool && len(f.goods) > 0 {
		b.fill(&f, &b.pool, b.window)
	}
	if len(f.goods) > 0 {
		b.refine(&f, b.trial)
		b.downsize(&f)
		if top.at < 0 || b.compare(&f, top) > 0 {
			b.best = append(b.best[:0], f.goods...)
			*top = f
		}
	}
	b.buffer = f.goods[:0]
	b.undo(&f)
}

// compare compares what machines are worth for what they cost.
func (b *buyer) compare(f, g *filling) int {
	return newBill(f.worth+1, b.cost(g.at)).compare(newBill(g.worth+1, b.cost(f.at)))
}

func (b *buyer) cost(at int) uint64 {
	if b.costs != nil {
		return b.costs[at]
	}
	return b.p.offers[at].about
}

func (b *buyer) empty(at int) filling {
	const part = 1000
	o := &b.p.offers[at]
	return filling{
		vessel: vessel{at: at, size: o.Size, places: o.places, enough: o.about - o.about/part},
		goods:  b.buffer[:0], room: o.Size,
	}
}

// downsize changes the machine to the first offer that holds its pods and may be
// bought.
func (b *buyer) downsize(f *filling) {
	used, on := f.size.Minus(f.room), anyOffer
	for _, at := range f.goods {
		on = b.p.meet(on, b.goods[at].on)
	}
	for i := range f.at {
		if b.p.holds(i, used, on, int64(len(f.goods))) && b.budget.allows(b.p, i) {
			o := &b.p.offers[i]
			f.at, f.size, f.places, f.room = i, o.Size, o.places, o.Size.Minus(used)
			f.enough = o.about
			return
		}
	}
}

// buy takes the pods of the top machine out of the pool, and as many times more as it
// can if there are as many of each kind.
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
	b.buffer = f.goods[:0]
}

// again takes the same pods once more, if they are there and the machine may be
// bought.
func (b *buyer) again(f *filling) bool {
	if !b.budget.allows(b.p, b.made[len(b.made)-1].offer) {
		return false
	}
	for i, at := range f.goods {
		if b.goods[at].left == 0 {
			for _, back := range f.goods[:i] {
				b.put(back)
			}
			return false
		}
		b.take(at)
	}
	return true
}

// machine returns the machine that a filling stands for, of the first offer that holds
// its pods and may be bought.
func (b *buyer) machine(f *filling) machine {
	b.downsize(f)
	m := machine{offer: f.at, on: anyOffer}
	for _, at := range f.goods {
		b.p.add(&m, b.goods[at].kind)
	}
	return m
}
