package knapsack

import (
	"math"

	"supercargo.dev/supercargo/autoscaler/purchase/lp"
)

// fractional is a basis of the knapsack that allows fractions of items, for the simplex method for bounded variables: a
// row for each of CPU, memory and places, and the number of items as the upper bound of a kind. Its columns are the
// kinds, followed by the slack of each row.
type fractional struct {
	kinds []kind
	// upper is the upper bound of each kind.
	upper   []float64
	basis   [rows]int
	inverse [rows]resources
	amounts resources // of what is in the basis
	// full reports which columns outside the basis are at their upper bound, in which are in the basis.
	full, in []bool
	steps    int
}

// columnSteps is the number of steps for visiting a column.
const columnSteps = 4

// reset starts over with these kinds, and the given room in each row.
func (s *fractional) reset(kinds []kind, room resources) {
	n := len(kinds)
	s.kinds, s.steps = kinds, 0
	s.upper = append(s.upper[:0], make([]float64, n)...)
	s.full = append(s.full[:0], make([]bool, n+rows)...)
	s.in = append(s.in[:0], make([]bool, n+rows)...)
	for i := range kinds {
		s.upper[i] = float64(kinds[i].takes.Places)
	}
	s.inverse, s.amounts = [rows]resources{}, room
	for r := range rows {
		s.basis[r], s.inverse[r][r], s.in[n+r] = n+r, 1, true
	}
}

// solve iterates until no column gains anything. Any basis gives a bound, so it may stop early.
func (s *fractional) solve() {
	for range 8 + 2*len(s.kinds) {
		at, gain := s.entering()
		if gain == 0 || !s.enter(at, gain > 0) {
			break
		}
	}
}

// worthAtMost returns an upper bound of the worth of items in the given room, by the prices of the rows: any
// non-negative prices give a bound.
func (s *fractional) worthAtMost(room resources) float64 {
	prices, bound := s.prices(), 0.0
	for r := range prices {
		prices[r] = max(0, prices[r])
		bound += lp.Times(prices[r], room[r])
	}
	for i := range s.kinds {
		bound += lp.Times(s.upper[i], max(0, s.kinds[i].value-s.kinds[i].costs(prices)))
	}
	return bound
}

// amount returns how many items of a kind the solution takes.
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
	if at < len(s.kinds) {
		return s.kinds[at].value
	}
	return 0
}

func (s *fractional) column(at int) (c resources) {
	if at < len(s.kinds) {
		return s.kinds[at].part
	}
	c[at-len(s.kinds)] = 1
	return c
}

func (s *fractional) bound(at int) float64 {
	if at < len(s.kinds) {
		return s.upper[at]
	}
	return math.Inf(1)
}

func (s *fractional) prices() (found resources) {
	for r := range rows {
		for i, at := range s.basis {
			found[r] += lp.Times(s.value(at), s.inverse[i][r])
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
		g := s.value(j) - lp.Times(prices[0], c[0]) - lp.Times(prices[1], c[1]) - lp.Times(prices[2], c[2])
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
	var change resources // of the basis, for one more of the column
	for i := range rows {
		change[i] = lp.Times(s.inverse[i][0], c[0]) + lp.Times(s.inverse[i][1], c[1]) + lp.Times(s.inverse[i][2], c[2])
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
	for i := range rows {
		s.amounts[i] -= lp.Times(far, change[i])
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
func (s *fractional) pivot(leave int, c resources) {
	var direction resources
	for i := range rows {
		direction[i] = lp.Times(s.inverse[i][0], c[0]) + lp.Times(s.inverse[i][1], c[1]) + lp.Times(s.inverse[i][2], c[2])
	}
	for r := range rows {
		s.inverse[leave][r] /= direction[leave]
	}
	for i := range rows {
		if i == leave {
			continue
		}
		for r := range rows {
			s.inverse[i][r] -= lp.Times(direction[i], s.inverse[leave][r])
		}
	}
}
