package lp

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestTheProgramIsSolvedFromBothSides checks a solution by its properties: both sides are feasible and have equal
// values.
func TestTheProgramIsSolvedFromBothSides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		s := &linearProgram{offers: 1 + r.IntN(8), starts: []int{0}}
		for range s.offers {
			s.rows = append(s.rows, Linear)
		}
		for range 1 + r.IntN(20) {
			must := r.IntN(s.offers)
			for f := range s.offers {
				if f == must || r.IntN(2) == 0 {
					s.cells = append(s.cells, cell{offer: f, cost: Vector{r.Float64(), r.Float64() * float64(r.IntN(2)), 0.001 + r.Float64()/9}})
				}
			}
			s.starts = append(s.starts, len(s.cells))
		}
		p := s.solve(1e-6)
		need := make([]Vector, s.offers)
		for b := range s.groups() {
			parts := 0.0
			for i, c := range s.of(b) {
				y := p.y[s.starts[b]+i]
				parts += y
				for r := range Linear {
					need[c.offer][r] += c.cost[r] * y
				}
				if !(y >= 0) || p.worth[b] > Dot(c.cost, p.share[c.offer])+1e-9 {
					t.Fatalf("group %d on offer %d: part %v, worth %v, price %v", b, c.offer, y, p.worth[b], Dot(c.cost, p.share[c.offer]))
				}
			}
			if math.Abs(parts-1) > 1e-6 {
				t.Fatalf("%v of group %d is assigned", parts, b)
			}
		}
		for f := range s.offers {
			shares := 0.0
			for r := range Linear {
				shares += p.share[f][r]
				if p.share[f][r] < 0 || need[f][r] > p.x[f]+1e-6 {
					t.Fatalf("offer %d: spent %v, needed %v, shares %v", f, p.x[f], need[f], p.share[f])
				}
			}
			if shares > 1+1e-9 {
				t.Fatalf("offer %d: shares %v", f, p.share[f])
			}
		}
		if primal, dual := p.values(); !(primal-dual <= 1e-5*primal) {
			t.Fatalf("spent %v, worth %v", primal, dual)
		}
	})
}
