package knapsack

import (
	"math/rand/v2"
	"testing"
)

// TestAKnapsackCutShortStillHasABound fills a machine with items of which many have almost the same worth per CPU, so
// that the search does not end, and compares with a table of the best value for each amount of CPU.
func TestAKnapsackCutShortStillHasABound(t *testing.T) {
	const capacity = 5000
	cut := 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 6))
		var b Knapsack
		b.Empty(Amounts{CPU: capacity, Memory: 1, Places: 60})
		best := make([]float64, capacity+1)
		for i := range 60 {
			cpu := 100 + r.Int64N(900)
			value := float64(cpu + 50 + r.Int64N(20))
			b.Offer(i, Amounts{CPU: cpu, Places: 1}, value)
			for c := int64(capacity); c >= cpu; c-- {
				best[c] = max(best[c], best[c-cpu]+value)
			}
		}
		b.Fill(60)
		if b.unexplored > 0 {
			cut++
		}
		if b.Most() < best[capacity] {
			t.Errorf("seed %d: at most %v, and %v can be had", seed, b.Most(), best[capacity])
		}
	}
	if cut == 0 {
		t.Error("no search was cut short")
	}
}
