package trend

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestGrowthIsAShareOfTheMean(t *testing.T) {
	for name, c := range map[string]struct {
		samples []Sample
		want    float64
	}{
		"from 90 to 110":      {[]Sample{{0, 90}, {60, 100}, {120, 110}}, 0.2},
		"from 110 to 90":      {[]Sample{{0, 110}, {60, 100}, {120, 90}}, -0.2},
		"the same":            {[]Sample{{0, 5}, {1, 5}, {2, 5}}, 0},
		"up and down":         {[]Sample{{0, 1}, {1, 3}, {2, 1}}, 0},
		"too few":             {[]Sample{{0, 1}, {1, 3}}, 0},
		"all at one time":     {[]Sample{{4, 1}, {4, 3}, {4, 2}}, 0},
		"nothing all along":   {[]Sample{{0, 0}, {1, 0}, {2, 0}}, 0},
		"at uneven times":     {[]Sample{{0, 10}, {10, 11}, {40, 14}, {50, 15}}, 0.4},
		"nothing was sampled": {nil, 0},
	} {
		if got := Growth(c.samples); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestALeakIsFoundInNoise tests a leak of a fifth in half an hour, with noise of a tenth.
func TestALeakIsFoundInNoise(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var flat, leaks []Sample
	for minute := range 60 {
		noise := 1 + 0.1*(random.Float64()-0.5)
		flat = append(flat, Sample{float64(60 * minute), 100 * noise})
		leaks = append(leaks, Sample{float64(60 * minute), (100 + 0.75*float64(minute)) * noise})
	}
	if got := Growth(SecondHalf(flat)); math.Abs(got) > 0.05 {
		t.Errorf("what stays the same grows by %v", got)
	}
	if got := Growth(SecondHalf(leaks)); got < 0.1 {
		t.Errorf("what leaks grows by %v", got)
	}
}

func TestTheSecondHalfGoesByTime(t *testing.T) {
	half := SecondHalf([]Sample{{0, 1}, {1, 2}, {2, 3}, {9, 4}, {10, 5}})
	if len(half) != 2 || half[0].Seconds != 9 {
		t.Errorf("%v", half)
	}
	if SecondHalf(nil) != nil {
		t.Error("half of nothing is something")
	}
}
