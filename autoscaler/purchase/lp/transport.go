package lp

import "math"

// Transport divides items among domains with limited room.
type Transport struct {
	Most  []float64  // by domain: the maximum number of items, +Inf for any number
	Items []float64  // by kind: the number of items
	Least []uint64   // by kind: the least worth of an item
	Worth [][]uint64 // by kind and domain: the worth of an item; NotThere where it cannot be
}

// NotThere marks a domain where an item cannot be. An item whose least worth is 0 may be anywhere.
const NotThere = 0

// Surplus returns a lower bound of how much more the items are worth together than if each domain had room for all. For
// any prices of a slot in a domain, the sum over the items of their least worth plus price, minus the prices of all
// slots, is such a bound (weak duality). The prices are optimal up to rounding if each item can be in every domain: the
// price of a slot is the cost of the cheapest way from its domain to one with room, when the items are divided so that
// their total worth is least.
func (s *Transport) Surplus() uint64 {
	whole := 0.0
	for i := range s.Items {
		whole += s.Items[i] * float64(s.Least[i])
	}
	in, count := s.divide()
	best := 0.0
	for d := range s.Most { // if no domain has room, a slot in one of them is worth nothing
		prices, _, _ := s.ways(in, count, d)
		for d := range prices {
			if math.IsInf(prices[d], 1) {
				prices[d] = 0
			}
			prices[d] = max(0, prices[d])
		}
		best = max(best, s.value(prices))
	}
	// Far more than rounding can have lost.
	value := best - 1e-9*whole
	if value <= 0 || value >= 1<<63 {
		return 0
	}
	return uint64(value)
}

// value returns the bound of Surplus for the given prices.
func (s *Transport) value(prices []float64) float64 {
	value := 0.0
	for i := range s.Items {
		if d := s.cheapest(i, prices); d >= 0 {
			value += s.Items[i] * (s.more(i, d) + prices[d])
		}
	}
	for d, price := range prices {
		if price > 0 {
			value -= price * s.Most[d]
		}
	}
	return value
}

// more returns by how much the worth of an item of a kind in a domain exceeds its least worth; +Inf where it cannot be.
func (s *Transport) more(kind, domain int) float64 {
	w := s.Worth[kind][domain]
	if w == NotThere && s.Least[kind] > NotThere {
		return math.Inf(1)
	}
	return float64(w - min(w, s.Least[kind]))
}

// cheapest returns the domain where an item's worth plus price is least, or -1 if it can be nowhere.
func (s *Transport) cheapest(kind int, prices []float64) int {
	best, least := -1, math.Inf(1)
	for d := range s.Worth[kind] {
		if more := s.more(kind, d) + prices[d]; more < least {
			best, least = d, more
		}
	}
	return best
}

// divide divides the items so that their total worth is least, by successive shortest paths: while a domain has too many
// items, some move along the cheapest way to a domain with room. It returns the number of items by kind and domain, and
// by domain.
func (s *Transport) divide() (in [][]float64, count []float64) {
	n := len(s.Most)
	in, count = make([][]float64, len(s.Items)), make([]float64, n)
	for i := range s.Items {
		in[i] = make([]float64, n)
		if d := s.cheapest(i, make([]float64, n)); d >= 0 {
			in[i][d] = s.Items[i]
			count[d] += s.Items[i]
		}
	}
	for range 4 * n * (len(s.Items) + n) {
		cost, next, mover := s.ways(in, count, -1)
		from := -1
		for d := range count {
			if count[d] > s.Most[d] && !math.IsInf(cost[d], 1) {
				from = d
			}
		}
		if from < 0 {
			break
		}
		amount, to := count[from]-s.Most[from], from
		for ; next[to] >= 0; to = next[to] {
			amount = min(amount, in[mover[to]][to])
		}
		amount = min(amount, s.Most[to]-count[to])
		for at := from; next[at] >= 0; at = next[at] {
			in[mover[at]][at] -= amount
			in[mover[at]][next[at]] += amount
		}
		count[from], count[to] = count[from]-amount, count[to]+amount
	}
	return in, count
}

// ways returns, by domain, the cost of the cheapest way to a domain with room, or to the domain room, the next domain
// on it, or -1 if there is room, and the kind that moves there (Bellman and Ford).
func (s *Transport) ways(in [][]float64, count []float64, room int) (cost []float64, next, mover []int) {
	n := len(count)
	cost, next, mover = make([]float64, n), make([]int, n), make([]int, n)
	for d := range cost {
		next[d] = -1
		if d != room && count[d] >= s.Most[d] {
			cost[d] = math.Inf(1)
		}
	}
	for range n {
		for i := range s.Items {
			for from := range n {
				if in[i][from] <= 0 || from == room || count[from] < s.Most[from] {
					continue
				}
				for to := range n {
					if c := s.more(i, to) - s.more(i, from) + cost[to]; to != from && c < cost[from] {
						cost[from], next[from], mover[from] = c, to, i
					}
				}
			}
		}
	}
	return cost, next, mover
}
