package lp

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	simplex "gonum.org/v1/gonum/optimize/convex/lp"
	"pgregory.net/rapid"
)

// TestTheFullestMachineIsThatOfASimplexMethod compares with gonum's: the most worth of groups, in parts, that one
// machine holds.
func TestTheFullestMachineIsThatOfASimplexMethod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4))
		groups := 1 + r.IntN(12)
		s := &Master{Costs: [][]Vector{make([]Vector, groups)}, Holds: [][]bool{make([]bool, groups)}, used: []int{0, 1, 2}}
		worth := make([]float64, groups)
		var columns [][]float64 // of the groups that it holds: the costs by measure, then the worth
		for b := range groups {
			s.Costs[0][b] = Vector{0.05 + r.Float64(), r.Float64() * float64(r.IntN(2)), 0.001 + r.Float64()/9}
			s.Holds[0][b], worth[b] = r.IntN(5) > 0, r.Float64()
			if s.Holds[0][b] {
				columns = append(columns, append(s.Costs[0][b][:Linear:Linear], worth[b]))
			}
		}
		held := len(columns)
		program, objective := mat.NewDense(Linear, held+Linear, nil), make([]float64, held+Linear)
		for m := range Linear {
			for at, column := range columns {
				program.Set(m, at, column[m])
				objective[at] = -column[Linear]
			}
			program.Set(m, held+m, 1) // what is left of the measure
		}
		least, _, err := simplex.Simplex(objective, program, []float64{1, 1, 1}, 1e-10, []int{held, held + 1, held + 2})
		if err != nil {
			t.Fatalf("gonum: %v", err)
		}
		parts := s.fullest(0, worth)
		if got := Total(parts); math.Abs(got+least) > 1e-6 {
			t.Errorf("a full machine is worth %v, want %v", got, -least)
		}
		for b := range groups {
			if price := Dot(s.Costs[0][b], parts); s.Holds[0][b] && price < worth[b]-1e-6 {
				t.Errorf("group %d costs %v by the parts %v, less than its worth of %v", b, price, parts, worth[b])
			}
		}
	})
}
