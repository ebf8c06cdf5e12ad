package planner

import (
	"cmp"
	"math"
	"slices"
)

// solve returns the best mix it finds.
func (p *problem) solve(pods []Pod, flavors []Flavor, opts MixOptions) mix {
	if p.total <= exactPods {
		return p.exact(opts.most())
	}
	effort := opts.effort(p.total)
	best := p.search(pods, flavors, math.MaxInt, effort)
	if len(best.machines) > opts.most() {
		best = p.search(pods, flavors, opts.most(), effort/2)
	}
	return best
}

// search returns the best mix it finds with at most so many machines.
func (p *problem) search(pods []Pod, flavors []Flavor, most, effort int) mix {
	limit := 0
	if most < math.MaxInt {
		limit = most
	}
	s := newSearcher(p, most)
	best := p.read(Greedy(pods, flavors, Options{MaxMachines: limit}))
	consider := func(m mix) {
		if p.rank(&m).compare(p.rank(&best)) < 0 {
			best = m
		}
	}
	consider(p.read(Greedy(pods, flavors, Options{Order: Batch, MaxMachines: limit})))
	for i, t := range p.tastes(limit > 0) {
		if i == 0 || s.steps < effort/4 {
			consider(s.construct(t))
		}
	}
	if n := int64(len(p.kinds)); limit == 0 && 50*n*n*n <= int64(effort) {
		consider(s.columns(effort / 2))
	}
	s.improve(&best, max(effort-s.steps, effort/4))
	p.settle(&best)
	return best
}

// read returns the mix that a plan of Greedy stands for.
func (p *problem) read(plan Plan) mix {
	m := mix{waiting: make([]int32, len(p.kinds)), missing: len(plan.Unplaceable)}
	kindOf := make(map[string]int32, p.total)
	for i := range p.kinds {
		for _, name := range p.kinds[i].pods {
			kindOf[name] = int32(i)
		}
	}
	for _, bought := range plan.Machines {
		var kinds []int32
		for _, name := range bought.Pods {
			kinds = append(kinds, kindOf[name])
		}
		m.machines = append(m.machines, p.newMachine(kinds))
	}
	for _, u := range plan.Unplaceable {
		m.waiting[kindOf[u.Pod]]++
	}
	return m
}

// tastes returns those that the first constructions have, the most promising
// first. Patience makes no difference where all pods are paid for equally long.
func (p *problem) tastes(limited bool) []taste {
	base := taste{window: 256, patience: 8, balanced: true, offers: p.all}
	var found []taste
	add := func(change func(*taste)) {
		t := base
		change(&t)
		found = append(found, t)
	}
	if limited {
		add(func(t *taste) { t.goal = worthPerMachine })
		add(func(t *taste) { t.goal = podsPerMachine })
	}
	add(func(*taste) {})
	add(func(t *taste) { t.balanced = false })
	add(func(t *taste) { t.window = 16 })
	add(func(t *taste) { t.window = 1 })
	if p.kinds[0].paid > p.kinds[len(p.kinds)-1].paid {
		for _, patience := range []int{6, 10, 4} {
			add(func(t *taste) { t.patience = patience })
			add(func(t *taste) { t.patience, t.balanced = patience, false })
		}
	}
	return found
}

// construct makes a mix of all pods by one taste. It looks at no more than
// chunk kinds at once, or the work would grow with their square: those of like
// time together, in an order drawn by chance among equals.
func (s *searcher) construct(t taste) mix {
	const chunk = 1000
	p := s.p
	order := make([]int32, len(p.kinds))
	draw := make([]uint64, len(p.kinds))
	for i := range p.kinds {
		order[i], draw[i] = int32(i), s.chance()
		s.left[i] = int32(len(p.kinds[i].pods))
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(p.kinds[b].paid, p.kinds[a].paid), cmp.Compare(draw[a], draw[b]))
	})
	var m mix
	for part := range slices.Chunk(order, chunk) {
		slices.Sort(part)
		made, _ := s.build(part, t, math.MaxUint64, s.most-len(m.machines), nil)
		for i := range made {
			made[i].kinds = slices.Clone(made[i].kinds)
		}
		m.machines = append(m.machines, made...)
	}
	m.waiting = slices.Clone(s.left)
	for i, n := range m.waiting {
		m.missing += int(n)
		s.left[i] = 0
	}
	return m
}

// columns returns the mix that the relaxation leads to: its whole machines, and
// for the rest what construction and search find.
func (s *searcher) columns(steps int) mix {
	p := s.p
	r := newRelaxation(p)
	r.solve(steps / 2)
	s.steps += r.steps
	machines, waiting := r.whole()
	var kinds []int32
	for k, n := range waiting {
		if s.left[k] = n; n > 0 {
			kinds = append(kinds, int32(k))
		}
	}
	made, _ := s.build(kinds, p.tastes(false)[0], math.MaxUint64, math.MaxInt, nil)
	for i := range made {
		made[i].kinds = slices.Clone(made[i].kinds)
	}
	rest := mix{machines: made}
	s.improve(&rest, steps/4)
	return mix{machines: append(machines, rest.machines...), waiting: make([]int32, len(p.kinds))}
}

// settle puts waiting pods on machines that hold them, or that another flavor in
// their place holds with them, as cheaply as it can. A mix can have any only if
// the number of machines is limited.
func (p *problem) settle(m *mix) {
	for k := range p.kinds {
		for m.waiting[k] > 0 {
			best := -1
			var grown, old bill
			for i := range m.machines {
				now := p.with(m.machines[i], int32(k))
				if now.offer == len(p.offers) {
					continue
				}
				// The difference to the bill, without subtracting.
				is, was := p.bill(&now), p.bill(&m.machines[i])
				if best < 0 || is.plus(old).compare(grown.plus(was)) < 0 {
					best, grown, old = i, is, was
				}
			}
			if best < 0 {
				break
			}
			m.machines[best] = p.with(m.machines[best], int32(k))
			m.waiting[k]--
			m.missing--
		}
	}
}

// with returns the machine with another pod, of the first offer that holds them
// all; its offer is none if there is no such.
func (p *problem) with(m machine, k int32) machine {
	m.kinds = m.kinds[:len(m.kinds):len(m.kinds)]
	p.add(&m, k)
	m.offer = len(p.offers)
	p.downsize(&m)
	return m
}
