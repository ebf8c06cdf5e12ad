package fit

import (
	"math"
	"testing"

	"supercargo.dev/supercargo/energy"
)

// TestErrorsArePercentOfWhatWasMeasured has a meter that alternates by a tenth around a straight line, so that every
// prediction misses by about a tenth.
func TestErrorsArePercentOfWhatWasMeasured(t *testing.T) {
	t.Parallel()
	var samples []energy.Activity
	for i := range 400 {
		u := float64(i%100) / 100
		off := 1.1
		if i/100%2 == 0 {
			off = 0.9
		}
		samples = append(samples, energy.Activity{Rates: []float64{u}, Watts: energy.Watts((50 + 100*u) * off)})
	}
	p, err := ByUtilization(samples, false)
	if err != nil {
		t.Fatal(err)
	}
	if q := p.Fitted; math.Abs(q.MeanErrorPercent-10) > 1 || q.Samples != 400 {
		t.Errorf("quality is %+v, want an error of about 10 %% over 400 samples", q)
	}
	if p.Seen == nil || *p.Seen != (Range{0, 0.99}) {
		t.Errorf("utilisation was seen from %+v, want 0 to 0.99", p.Seen)
	}
}
