package purchase

import "math"

// fractional is a basis of the knapsack that allows fractions of pods, for the simplex method for bounded variables: a
// row for each of CPU, memory and slots, and the number of pods as the upper bound of an item. Its columns are the
// items, followed by the slack of each row.
type fractional struct {
	items []knapsackItem
	// upper is the upper bound of each item.
	upper   []float64
	basis   [linear]int
	inverse [linear][linear]float64
	amounts [linear]float64 // of what is in the basis
	// full reports which columns outside the basis are at their upper bound, in which are in the basis.
	full, in []bool
	steps    int
}

// columnSteps is the number of steps for visiting a column.
const columnSteps = 4

// reset starts over with these items, and the given room in each row.
func (s *fractional) reset(items []knapsackItem, room [linear]float64) {
	n := len(items)
	s.items, s.steps = items, 0
	s.upper = append(s.upper[:0], make([]float64, n)...)
	s.full = append(s.full[:0], make([]bool, n+linear)...)
	s.in = append(s.in[:0], make([]bool, n+linear)...)
	for i := range items {
		s.upper[i] = float64(items[i].takes.places)
	}
	s.inverse, s.amounts = [linear][linear]float64{}, room
	for r := range linear {
		s.basis[r], s.inverse[r][r], s.in[n+r] = n+r, 1, true
	}
}

// solve iterates until no column gains anything. Any basis gives a bound, so it may stop early.
func (s *fractional) solve() {
	for range 8 + 2*len(s.items) {
		at, gain := s.entering()
		if gain == 0 || !s.enter(at, gain > 0) {
			break
		}
	}
}

// worthAtMost returns an upper bound of the worth of pods in the given room, by the prices of the rows: any
// non-negative prices give a bound.
func (s *fractional) worthAtMost(room [linear]float64) float64 {
	prices, bound := s.prices(), 0.0
	for r := range prices {
		prices[r] = max(0, prices[r])
		bound += times(prices[r], room[r])
	}
	for i := range s.items {
		bound += times(s.upper[i], max(0, s.items[i].value-s.items[i].costs(prices)))
	}
	return bound
}

// amount returns how many pods of an item the solution takes.
func (s *fractional) amount(at int) float64 {
	if s.full[at] {
		return s.upper[at]
	}
	for r, in := range s.basis {
		if in == at {
			return s.amounts[r]
		}
	}
	return 0
}

func (s *fractional) value(at int) float64 {
	if at < len(s.items) {
		return s.items[at].value
	}
	return 0
}

func (s *fractional) column(at int) (c [linear]float64) {
	if at < len(s.items) {
		return s.items[at].part
	}
	c[at-len(s.items)] = 1
	return c
}

func (s *fractional) bound(at int) float64 {
	if at < len(s.items) {
		return s.upper[at]
	}
	return math.Inf(1)
}

func (s *fractional) prices() (found [linear]float64) {
	for r := range linear {
		for i, at := range s.basis {
			found[r] += times(s.value(at), s.inverse[i][r])
		}
	}
	return found
}

// entering returns the column that gains the most, and the gain of one unit of it: negative if the column should
// decrease, and zero if none gains anything.
func (s *fractional) entering() (at int, gain float64) {
	const nothing = 1e-9
	prices := s.prices()
	best := 0.0
	for j := range s.full {
		if s.in[j] {
			continue
		}
		c := s.column(j)
		g := s.value(j) - times(prices[0], c[0]) - times(prices[1], c[1]) - times(prices[2], c[2])
		scale := max(s.value(j), math.Abs(g))
		if s.full[j] == (g < 0) && math.Abs(g) > nothing*scale && math.Abs(g) > best {
			at, gain, best = j, g, math.Abs(g)
		}
	}
	s.steps += columnSteps * len(s.full)
	return at, gain
}

// enter increases or decreases a column until it or one of the basis is at a bound. It returns false if nothing bounds
// it, which only rounding can cause.
func (s *fractional) enter(at int, up bool) bool {
	c := s.column(at)
	var change [linear]float64 // of the basis, for one more of the column
	for i := range linear {
		change[i] = times(s.inverse[i][0], c[0]) + times(s.inverse[i][1], c[1]) + times(s.inverse[i][2], c[2])
		if !up {
			change[i] = -change[i]
		}
	}
	const nothing = 1e-12
	leave, far := -1, s.bound(at)
	for i, b := range s.basis {
		reach := math.Inf(1)
		switch {
		case change[i] > nothing:
			reach = max(0, s.amounts[i]) / change[i]
		case change[i] < -nothing:
			reach = max(0, s.bound(b)-s.amounts[i]) / -change[i]
		}
		if reach < far {
			leave, far = i, reach
		}
	}
	if math.IsInf(far, 0) {
		return false
	}
	for i := range linear {
		s.amounts[i] -= times(far, change[i])
	}
	if leave < 0 {
		s.full[at] = up
		return true
	}
	gone := s.basis[leave]
	s.full[gone], s.in[gone] = change[leave] < 0, false
	amount := far
	if !up {
		amount = s.bound(at) - far
	}
	s.basis[leave], s.in[at], s.amounts[leave] = at, true, amount
	s.full[at] = false
	s.pivot(leave, c)
	return true
}

// pivot updates the inverse for a column that replaces another.
func (s *fractional) pivot(leave int, c [linear]float64) {
	var direction [linear]float64
	for i := range linear {
		direction[i] = times(s.inverse[i][0], c[0]) + times(s.inverse[i][1], c[1]) + times(s.inverse[i][2], c[2])
	}
	for r := range linear {
		s.inverse[leave][r] /= direction[leave]
	}
	for i := range linear {
		if i == leave {
			continue
		}
		for r := range linear {
			s.inverse[i][r] -= times(direction[i], s.inverse[leave][r])
		}
	}
}
