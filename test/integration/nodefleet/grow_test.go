package nodefleet

import "testing"

func TestAFleetGrowsByTheCheapestMixAndShrinksToNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "grow")
	b.flavor("small", "2", "4Gi", "0.10")
	b.flavor("large", "8", "16Gi", "0.30")
	b.fleet("all")
	b.autoscale()
	b.pods("p", 5, "1900m", "1Gi") // four on a large machine, one on a small one

	b.Runs(5)
	b.becomes(map[string]int{"large": 1, "small": 1})
	b.removePods()
	b.becomes(map[string]int{})
}
