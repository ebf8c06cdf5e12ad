package capacity

import (
	"math"
	"time"
)

// Million is the unit of rates and shares: an interruption rate of 50,000 is 0.05 interruptions an hour.
const Million = 1_000_000

// DefaultInterruptions is the assumed rate of a spot machine for which none is stated, in interruptions in a million
// machine-hours.
const DefaultInterruptions = 50_000

// mostWaste bounds the results of [Repeated], in millionths: a thousand times the work.
const mostWaste = 1000 * Million

// Repeated returns how much more work a pod is expected to do because it begins again at each interruption, in millionths of
// its runtime. With interruptions that come independently at the rate r, a pod of runtime T ends after (exp(rT) - 1) / r,
// so it is
//
//	(exp(rT) - 1) / (rT) - 1 = rT/2! + (rT)²/3! + (rT)³/4! + ...
//
// in integers, rounded down term by term, and at most a thousand times the work. interruptions are those in a million
// machine-hours. It is 0 if either argument is not positive.
func Repeated(interruptions int64, runtime time.Duration) int64 {
	if interruptions <= 0 || runtime <= 0 {
		return 0
	}
	const longest = 1000 * time.Hour
	expected := min(interruptions, Million) * int64(min(runtime, longest)/time.Millisecond) / int64(time.Hour/time.Millisecond)
	sum, term := int64(0), int64(Million)
	for n := int64(2); n < 5000 && sum < mostWaste; n++ {
		term = term * min(expected, 40*Million) / Million / n
		if term == 0 && n > expected/Million {
			break
		}
		sum += term
	}
	return min(sum, mostWaste)
}

// Paused returns how much longer a pod takes that waits for the given time at each interruption, in millionths of its runtime.
func Paused(interruptions int64, pause time.Duration) int64 {
	if interruptions <= 0 || pause <= 0 {
		return 0
	}
	const longest = 1000 * time.Hour
	return min(interruptions, Million) * int64(min(pause, longest)/time.Millisecond) / int64(time.Hour/time.Millisecond)
}

// WithWaste returns a price with the share that is expected to be wasted, in millionths of the price, rounded up. It saturates
// at the greatest price.
func WithWaste(price, waste int64) int64 {
	if price <= 0 || waste <= 0 {
		return max(price, 0)
	}
	whole, rest := price/Million, price%Million
	if whole > (math.MaxInt64-price)/waste-1 {
		return math.MaxInt64
	}
	return price + whole*waste + (rest*waste+Million-1)/Million
}
