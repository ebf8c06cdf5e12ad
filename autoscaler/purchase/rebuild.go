package purchase

import (
	"cmp"
	"slices"
)

// destroyedPercent are the percentages of all machines that rebuild destroys in turn.
var destroyedPercent = []int{50, 25, 12, 6}

// rebuild improves the best mix by large neighbourhood search: it destroys the most wasteful machines, chosen with some
// randomness, and buys for their pods again at recalculated prices. It continues until the effort is used up.
func (s *solver) rebuild(effort int) {
	var c random
	for end, round := s.steps+effort, 0; s.steps < end && len(s.best.machines) > 1 && !s.stop(); round++ {
		gone := s.wasteful(&c, max(2, len(s.best.machines)*destroyedPercent[round%len(destroyedPercent)]/100))
		counts, was := make([]int32, len(s.kinds)), mix{}
		for _, i := range gone {
			was.machines = append(was.machines, s.best.machines[i])
			for _, k := range s.best.machines[i].kinds {
				counts[k]++
			}
		}
		m := strategies[c.intN(len(strategies))]
		at := s.solvePricing(counts, m.extended)
		s.steps += at.steps + 50*len(s.kinds) + 1000
		made, whole := s.construct(m, counts, at, s.budget.clone())
		if !whole {
			return
		}
		if s.rank(&made).compare(s.rank(&was)) <= 0 {
			s.best = s.best.with(made.machines, gone)
		}
	}
}

// wasteful returns the indices, ordered, of the n most wasteful machines. Waste is the part of the price that exceeds
// the worth of the pods, times a random factor of one to three.
func (s *solver) wasteful(c *random, n int) []int {
	waste, order := make([]float64, len(s.best.machines)), make([]int, len(s.best.machines))
	for i := range s.best.machines {
		m := &s.best.machines[i]
		cost := float64(s.scaledBill(m))
		waste[i] = (cost - float64(m.worth)) / (cost + 1) * (1 + float64(c.intN(1024))/512)
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(waste[b], waste[a]) })
	order = order[:min(n, len(order))]
	slices.Sort(order)
	return order
}

// with returns a mix in which made replaces the machines at the ordered indices gone.
func (m *mix) with(made []machine, gone []int) mix {
	next := mix{waiting: m.waiting, missing: m.missing, machines: make([]machine, 0, len(m.machines)-len(gone)+len(made))}
	for i := range m.machines {
		if _, destroyed := slices.BinarySearch(gone, i); !destroyed {
			next.machines = append(next.machines, m.machines[i])
		}
	}
	next.machines = append(next.machines, made...)
	return next
}
