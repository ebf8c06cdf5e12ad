package mix

import (
	"cmp"
	"math"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/knapsack"
	"supercargo.dev/supercargo/autoscaler/purchase/lp"
)

// column is a set of items for one machine, and the number of such machines to buy, which may be fractional.
type column struct {
	offer  int
	counts []int32 // by kind
	cost   float64 // approximate
	number float64
	// ratio is the worth of the items over cost when the column was found.
	ratio float64
}

// relaxation finds how many machines with which sets of items hold all items at the least cost if fractions of machines
// could be bought. It is a linear program with a row for each kind, solved by the simplex method; columns are generated
// when they improve it (column generation, Gilmore and Gomory 1961). It suits few kinds of many items each.
type relaxation struct {
	p *Problem
	// levels are the times for which columns are generated, at most maxLevels.
	levels []uint64
	basis  []column
	// inverse is the inverse of the matrix of the counts in the basis.
	inverse [][]float64
	// duals are the dual values: the cost of one more item of each kind.
	duals    []float64
	knapsack knapsack.Knapsack
	// offers are those for which columns are generated while that is enough.
	offers []int
	steps  int
}

const maxLevels = 8

// minRatio is the least ratio of a column's worth to its cost.
const minRatio = 1 + 1e-6

func newRelaxation(p *Problem) *relaxation {
	n := len(p.kinds)
	r := &relaxation{p: p, duals: make([]float64, n)}
	for i := range p.kinds {
		if t := p.kinds[i].time; len(r.levels) == 0 || r.levels[len(r.levels)-1] != t {
			r.levels = append(r.levels, t)
		}
	}
	if n := len(r.levels); n > maxLevels {
		for i := range maxLevels {
			r.levels[i] = r.levels[i*n/maxLevels]
		}
		r.levels = r.levels[:maxLevels]
	}
	for i := range p.kinds {
		c := p.initialColumn(i)
		row := make([]float64, n)
		row[i] = 1 / float64(c.counts[i])
		c.number = lp.Times(float64(len(p.kinds[i].items)), row[i])
		r.basis, r.inverse = append(r.basis, c), append(r.inverse, row)
		r.offers = append(r.offers, c.offer)
	}
	r.offers = append(append(r.offers, p.pricing.preferred...), p.pricing.active...)
	slices.Sort(r.offers)
	r.offers = slices.Compact(r.offers)
	return r
}

// initialColumn returns the column of one kind that costs least per item.
func (p *Problem) initialColumn(i int) column {
	k := &p.kinds[i]
	best := column{counts: make([]int32, len(p.kinds))}
	most := int64(0)
	for at := range p.offers {
		o := &p.offers[at]
		if !p.holds(at, &k.size, k.on, 1) {
			continue
		}
		n := min(o.places, int64(len(k.items)))
		if k.size.MilliCPU > 0 {
			n = min(n, o.Size.MilliCPU/k.size.MilliCPU)
		}
		if k.size.MemoryBytes > 0 {
			n = min(n, o.Size.MemoryBytes/k.size.MemoryBytes)
		}
		cost := float64(o.scaledPrice * k.time)
		if most == 0 || lp.Times(cost, float64(most)) < lp.Times(best.cost, float64(n)) {
			best.offer, best.cost, most = at, cost, n
		}
	}
	best.counts[i] = int32(most)
	return best
}

// solve iterates until no column improves the solution or the steps are used up.
func (r *relaxation) solve(steps int) {
	for entered := true; entered && r.steps < steps; {
		entered = false
		r.setDuals()
		found := r.improving()
		for _, c := range found {
			if entered {
				r.setDuals()
				if r.worth(c.counts) < lp.Times(c.cost, minRatio) {
					continue
				}
			}
			if !r.enter(c) {
				return
			}
			entered = true
		}
	}
}

// improving returns columns that improve the solution. It tries all offers if none of r.offers has one, finally with
// more steps for each.
func (r *relaxation) improving() []column {
	found := r.candidates(r.offers)
	if len(found) > 0 {
		return found
	}
	tries := []int{knapsack.FewBranches, knapsack.ManyBranches}
	if r.p.total < manyItems {
		tries = tries[:1]
	}
	for _, branches := range tries {
		r.knapsack.Branching = branches
		found = r.candidates(r.p.all)
		r.knapsack.Branching = knapsack.FewBranches
		if len(found) > 0 {
			break
		}
	}
	for _, c := range found {
		if !slices.Contains(r.offers, c.offer) {
			r.offers = append(r.offers, c.offer)
		}
	}
	return found
}

func (r *relaxation) setDuals() {
	clear(r.duals)
	for i, row := range r.inverse {
		for j, x := range row {
			r.duals[j] += lp.Times(r.basis[i].cost, x)
		}
	}
}

func (r *relaxation) worth(counts []int32) float64 {
	sum := 0.0
	for i, n := range counts {
		sum += lp.Times(r.duals[i], float64(n))
	}
	return sum
}

// candidates returns the best column of each offer and level that improves the solution, the best first.
func (r *relaxation) candidates(offers []int) []column {
	var found []column
	for _, at := range offers {
		for _, level := range r.levels {
			cost := float64(r.p.offers[at].scaledPrice * level)
			counts, worth := r.fill(at, level)
			if ratio := worth / cost; ratio > minRatio {
				found = append(found, column{offer: at, cost: cost, counts: counts, ratio: ratio})
			}
		}
	}
	r.steps += r.knapsack.Steps
	r.knapsack.Steps = 0
	slices.SortStableFunc(found, func(a, b column) int { return cmp.Compare(b.ratio, a.ratio) })
	return found
}

// fill returns the most valuable counts of items for an offer, of kinds with times up to level, and their value.
func (r *relaxation) fill(at int, level uint64) ([]int32, float64) {
	o := &r.p.offers[at]
	r.knapsack.Empty(knapsack.Amounts{CPU: o.Size.MilliCPU, Memory: o.Size.MemoryBytes, Places: o.places})
	for i := range r.p.kinds {
		k := &r.p.kinds[i]
		if k.time <= level && r.duals[i] > 0 && r.p.holds(at, &k.size, k.on, 1) {
			r.knapsack.Offer(i, knapsack.Amounts{CPU: k.size.MilliCPU, Memory: k.size.MemoryBytes, Places: int64(len(k.items))}, r.duals[i])
		}
	}
	return r.knapsack.Fill(len(r.p.kinds))
}

// feasibleDuals returns the worth of items by kind such that no full machine is worth more than its price: the dual
// values, divided by the maximum ratio of a machine's worth to its price. If that ratio is not known exactly, an upper
// bound is used. No value is negative. It must not be timed.
func (r *relaxation) feasibleDuals() []float64 {
	r.setDuals()
	for i := range r.duals {
		r.duals[i] = max(0, r.duals[i])
	}
	most := r.mostForPrice()
	found := make([]float64, len(r.duals))
	for i := range found {
		// 0/0 is NaN, and a ratio of 0 gives infinity.
		if w := r.duals[i] / most; w >= 0 && !math.IsInf(w, 0) {
			found[i] = w
		}
	}
	return found
}

// mostForPrice returns the maximum ratio of a full machine's worth to its price. It refines the offer with the greatest
// upper bound until that is exact or the steps are used up.
func (r *relaxation) mostForPrice() float64 {
	const closer = 4
	steps := knapsack.ManyBranches
	if r.p.total >= manyItems {
		steps *= 4
	}
	type bound struct {
		most      float64 // worth per price
		exact     bool
		branching int
	}
	bounds := make([]bound, len(r.p.offers))
	fill := func(at, branching int) {
		r.knapsack.Branching = branching
		r.fill(at, r.levels[0])
		b := bound{exact: r.knapsack.Exact(), branching: branching}
		if full := r.knapsack.Most(); full > 0 {
			b.most = full / float64(r.p.offers[at].price)
		}
		bounds[at] = b
	}
	for at := range bounds {
		fill(at, knapsack.FewBranches)
	}
	for from := r.knapsack.Steps; ; {
		top := 0
		for at := range bounds {
			if bounds[at].most > bounds[top].most {
				top = at
			}
		}
		if left := steps - (r.knapsack.Steps - from); bounds[top].exact || left <= bounds[top].branching {
			return bounds[top].most
		}
		fill(top, closer*bounds[top].branching)
	}
}

// enter adds a column to the basis in place of the one that it drives to zero first.
func (r *relaxation) enter(c column) bool {
	const nothing = 1e-9
	n := len(r.basis)
	r.steps += n * n / 2
	direction := make([]float64, n)
	leave := -1
	for i, row := range r.inverse {
		for j, count := range c.counts {
			if count > 0 {
				direction[i] += lp.Times(row[j], float64(count))
			}
		}
		if direction[i] > nothing && (leave < 0 || lp.Times(r.basis[i].number, direction[leave]) < lp.Times(r.basis[leave].number, direction[i])) {
			leave = i
		}
	}
	if leave < 0 {
		return false
	}
	c.number = r.basis[leave].number / direction[leave]
	pivot := r.inverse[leave]
	for j := range pivot {
		pivot[j] /= direction[leave]
	}
	for i, row := range r.inverse {
		if i == leave || direction[i] == 0 {
			continue
		}
		for j := range row {
			row[j] -= lp.Times(direction[i], pivot[j])
		}
		r.basis[i].number = max(0, r.basis[i].number-lp.Times(direction[i], c.number))
	}
	r.basis[leave] = c
	return true
}

// roundDown returns the machines of the columns without fractions, and the number of items of each kind without a
// machine then. Columns with a fraction of more than half get one more machine if all its items are left.
func (r *relaxation) roundDown() (machines []machine, waiting []int32) {
	p := r.p
	for i := range p.kinds {
		waiting = append(waiting, int32(len(p.kinds[i].items)))
	}
	rest := make([]float64, len(r.basis))
	order := make([]int, len(r.basis))
	for i, c := range r.basis {
		order[i] = i
		const nearly = 1e-6
		number := 0
		if c.number > 0 && c.number < float64(p.total) { // excludes NaN
			number = int(c.number + nearly)
		}
		rest[i] = c.number - float64(number)
		for range number {
			machines = p.take(machines, c.counts, waiting)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order {
		all := rest[i] > 0.5
		for k, n := range r.basis[i].counts {
			all = all && n <= waiting[k]
		}
		if all {
			machines = p.take(machines, r.basis[i].counts, waiting)
		}
	}
	return machines, waiting
}

// take adds a machine for those of the counted items that have none.
func (p *Problem) take(machines []machine, counts, waiting []int32) []machine {
	var kinds []int32
	for k, n := range counts {
		n = min(n, waiting[k])
		waiting[k] -= n
		for range n {
			kinds = append(kinds, int32(k))
		}
	}
	if len(kinds) == 0 {
		return machines
	}
	return append(machines, p.newMachine(kinds))
}

// part returns the problem of the given number of items of each kind, and the original kinds of its kinds. It is only
// for a relaxation: prices and worths are those of the whole problem.
func (p *Problem) part(counts []int32) (*Problem, []int32) {
	part, of := *p, []int32(nil)
	part.kinds, part.total, part.duals = nil, 0, nil
	for i, n := range counts {
		if n > 0 {
			k := p.kinds[i]
			k.items = k.items[:n]
			part.kinds, of = append(part.kinds, k), append(of, int32(i))
			part.total += int(n)
		}
	}
	return &part, of
}

// dive makes machines for the given number of items of each kind: the whole machines of the relaxation, or the one
// closest to a whole one if there is none. It repeats that with a relaxation of the items that are left, whose machines
// hold no more items of a kind than are left (Wäscher and Gau 1996 compare such ways of rounding). It stops after about
// the given number of steps, and returns those taken; some items may then have no machine.
func (p *Problem) dive(waiting []int32, steps int) (machines []machine, left []int32, taken int) {
	left = slices.Clone(waiting)
	for taken < steps {
		part, of := p.part(left)
		if part.total == 0 {
			break
		}
		r := newRelaxation(part)
		r.solve((steps - taken) / 2)
		taken += r.steps + r.knapsack.Steps + 1
		for _, counts := range r.wholeMachines() {
			all := make([]int32, len(p.kinds))
			for i, n := range counts {
				all[of[i]] = n
			}
			machines = p.take(machines, all, left)
		}
	}
	return machines, left, taken
}

// wholeMachines returns the items of the columns' machines, without fractions of machines. If there are no whole ones,
// it returns one machine of the column with the greatest number.
func (r *relaxation) wholeMachines() [][]int32 {
	const nearly = 1e-6
	var whole [][]int32
	most := 0
	for i, c := range r.basis {
		if c.number > r.basis[most].number {
			most = i
		}
		if c.number < float64(r.p.total)+1 { // excludes NaN
			for range int(c.number + nearly) {
				whole = append(whole, c.counts)
			}
		}
	}
	if len(whole) == 0 {
		whole = append(whole, r.basis[most].counts)
	}
	return whole
}
