package replicas

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/replicas/loop"
)

// crowds draws a day that was not used for tuning: a daily wave and six crowds with random times and slopes.
// Rates stay below 500 requests/s, where the paper's service can still keep the SLO.
func crowds(seed uint64) []trace.Rate {
	draw := rand.New(rand.NewPCG(seed, 0))
	type crowd struct{ start, more, rise, hold, fade float64 }
	var all []crowd
	for i := range 6 {
		all = append(all, crowd{
			start: 3600 * (2 + 3.5*float64(i) + 1.5*draw.Float64()), more: 50 + 300*draw.Float64(),
			rise: 30 + 570*draw.Float64(), hold: 300 + 900*draw.Float64(), fade: 300 + 2100*draw.Float64(),
		})
	}
	phase := 2 * math.Pi * draw.Float64()
	var rates []trace.Rate
	for second := 0.0; second < 86400; second += 30 {
		rate := 50 + 20*math.Sin(2*math.Pi*second/86400+phase)
		for _, c := range all {
			switch since := second - c.start; {
			case since < 0:
			case since < c.rise:
				rate += c.more * since / c.rise
			default:
				rate += c.more * math.Exp(-max(0, since-c.rise-c.hold)/c.fade)
			}
		}
		rates = append(rates, trace.Rate{At: time.Duration(second) * time.Second, PerSecond: rate})
	}
	return rates
}

// TestPredictiveBeatsInverseQueueWhereItWasNotTuned uses other weeks and days of the same services than
// TestPredictiveBeatsInverseQueue, on whose series the constants were chosen, and random crowds. The seed of
// the requests differs too.
func TestPredictiveBeatsInverseQueueWhereItWasNotTuned(t *testing.T) {
	type held struct {
		name string
		loop.Config
	}
	all := []held{
		{"Wikipedia, a day of the week after", loop.Config{Rates: series(t, "held-out/wikipedia.csv", 24), Interpolate: true, Warmup: 500 * time.Minute}},
		{"NASA, the three days after", loop.Config{Rates: series(t, "held-out/nasa.csv", 72), Warmup: 500 * time.Minute}},
	}
	for seed := range uint64(5) {
		all = append(all, held{fmt.Sprint("crowds ", seed), loop.Config{Rates: crowds(seed), Interpolate: true, Warmup: time.Hour}})
	}
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.Seed = 7
			ours, theirs := play(t, "predictive", tc.Config), play(t, "inversequeue", tc.Config)
			t.Logf("predictive %.2f %% at %.0f, inversequeue %.2f %% at %.0f container intervals",
				ours.ViolationPercent(), cost(ours), theirs.ViolationPercent(), cost(theirs))
			if ours.ViolationPercent() >= theirs.ViolationPercent() || cost(ours) > cost(theirs) {
				t.Error("want fewer violations at no more cost")
			}
		})
	}
}
