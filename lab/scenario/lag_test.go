package scenario

import (
	"math"
	"testing"
	"time"
)

func TestALagThatDoesNotVaryIsItsMean(t *testing.T) {
	for _, mean := range []time.Duration{0, 1, 150 * time.Second, 10 * time.Hour} {
		for n := range 100 {
			if got := (Lag{Mean: mean}).Draw(uint64(n), n); got != mean {
				t.Errorf("machine %d takes %v, want %v", n, got, mean)
			}
		}
	}
}

// TestLagsHaveTheMeanAndDeviationGiven draws the lags that HTA measured.
func TestLagsHaveTheMeanAndDeviationGiven(t *testing.T) {
	const n = 40_000
	lag := Lag{Mean: 157_400 * time.Millisecond, SD: 4200 * time.Millisecond}
	for seed := range uint64(3) {
		var sum, squares, within float64
		for i := range n {
			got := lag.Draw(seed, i)
			off := (got - lag.Mean).Seconds()
			sum, squares = sum+off, squares+off*off
			if math.Abs(off) <= lag.SD.Seconds() {
				within++
			}
			if math.Abs(off) > 6*lag.SD.Seconds()+0.001 || got%time.Millisecond != 0 {
				t.Fatalf("seed %d: machine %d takes %v: want whole milliseconds, and no more than six deviations off", seed, i, got)
			}
		}
		// Five standard errors, and half a millisecond for truncation.
		if mean := sum / n; !(math.Abs(mean+0.0005) <= 5*4.2/math.Sqrt(n)) {
			t.Errorf("seed %d: the mean is %v s off", seed, mean)
		}
		if sd := math.Sqrt(squares / n); !(math.Abs(sd-4.2) <= 5*4.2/math.Sqrt(2*n)) {
			t.Errorf("seed %d: the standard deviation is %v s, want 4.2", seed, sd)
		}
		// 0.683 of a normal distribution; the sum of twelve has 0.6775.
		if share := within / n; !(math.Abs(share-0.68) <= 0.015) {
			t.Errorf("seed %d: %v lie within one standard deviation", seed, share)
		}
	}
}

func TestNoLagIsNegative(t *testing.T) {
	lag, zero := Lag{Mean: time.Second, SD: 10 * time.Second}, 0
	for n := range 10_000 {
		switch got := lag.Draw(1, n); {
		case got < 0:
			t.Fatalf("machine %d takes %v", n, got)
		case got == 0:
			zero++
		}
	}
	if share := float64(zero) / 10_000; !(math.Abs(share-0.46) <= 0.03) { // the share that would be below zero
		t.Errorf("%v of the machines are there at once, want 0.46", share)
	}
}

func TestLagsDependOnSeedAndMachineAlone(t *testing.T) {
	lag := Lag{Mean: time.Hour, SD: 10 * time.Minute}
	seen := map[time.Duration]bool{}
	for seed := range uint64(10) {
		for n := range 10 {
			first := lag.Draw(seed, n)
			if again := lag.Draw(seed, n); again != first {
				t.Errorf("seed %d: machine %d takes %v, and %v when asked again", seed, n, first, again)
			}
			seen[first] = true
		}
	}
	if len(seen) < 98 { // of 100 draws to the millisecond, two may be equal
		t.Errorf("100 machines take only %d different times", len(seen))
	}
	// The same on every machine and in every version.
	for n, want := range []time.Duration{3131_335 * time.Millisecond, 3307_329 * time.Millisecond, 4051_421 * time.Millisecond} {
		if got := lag.Draw(7, n); got != want {
			t.Errorf("seed 7: machine %d takes %v, want %v", n, got, want)
		}
	}
}
