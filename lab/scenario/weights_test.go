package scenario

import (
	"fmt"
	"slices"
	"testing"
)

func TestWeightsAreDrawnFromTheirRangeAndLeaveTheRestAsItIs(t *testing.T) {
	const kind = "  taskKinds: [{name: k, class: batch, cpu: 1, memory: 1, runtime: {min: 1s, max: 1h}%s}]\n"
	const patterns = "  workload: {patterns: [{shape: burst, count: 400, period: 1h, on: 1h, mix: {k: 1, nginx: 1}}]}\n"
	drawn := func(weight string) []Pod {
		return arrivals(t, read(t, base+fmt.Sprintf(kind, weight)+patterns), 7)
	}
	plain, weighed := drawn(""), drawn(", energyWeight: {min: 0.2, max: 0.6}")
	var seen []float64
	for i, p := range weighed {
		if want := plain[i]; p.Name != want.Name || p.Arrival != want.Arrival || p.Runtime != want.Runtime || want.EnergyWeight != nil {
			t.Fatalf("pod %+v, and without weights %+v", p, want)
		}
		if p.Category == "nginx" {
			if p.EnergyWeight != nil {
				t.Errorf("%s has weight %v", p.Name, *p.EnergyWeight)
			}
			continue
		}
		seen = append(seen, *p.EnergyWeight)
	}
	slices.Sort(seen)
	if least, median, most := seen[0], seen[len(seen)/2], seen[len(seen)-1]; !(least >= 0.2 && least < 0.22 && median > 0.36 && median < 0.44 && most > 0.58 && most <= 0.6) {
		t.Errorf("weights from %v over %v to %v, want them spread from 0.2 to 0.6", least, median, most)
	}
}
