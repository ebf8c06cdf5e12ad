// Package families draws pods of the kinds that clusters run, and names the catalogues to plan them for.
// Plans are checked against their guarantees over all of them, so that no planner is good only on the pods it
// was developed with.
package families

import (
	"math"
	"math/rand/v2"
)

// Family is a distribution of pod requests.
type Family struct {
	Name string
	// draw draws milli-CPUs, and GiB per core.
	draw func(r *rand.Rand) (milliCPU, ratio float64)
}

// The greatest requests: the largest machine of any catalogue has four times as much.
const (
	mostMilliCPU    = 16_000
	mostMemoryBytes = 64 << 30
)

// Draw draws the requests of a pod: CPU in steps of 10 m and memory in steps of 16 MiB, at least one step
// each, and at most 16 cores and 64 GiB.
func (f Family) Draw(r *rand.Rand) (milliCPU, memoryBytes int64) {
	const step, stepBytes = 10, 16 << 20
	cpu, ratio := f.draw(r)
	cpu = min(max(cpu, step), mostMilliCPU)
	memory := min(max(cpu/1000*ratio*(1<<30), stepBytes), mostMemoryBytes)
	return int64(math.Round(cpu/step)) * step, int64(math.Round(memory/stepBytes)) * stepBytes
}

// All lists the families.
var All = []Family{
	{"uniform", func(r *rand.Rand) (float64, float64) { return between(r, 100, 8_000), between(r, 1, 8) }},
	{"lognormal", func(r *rand.Rand) (float64, float64) { return lognormal(r, 500, 1), lognormal(r, 3, 0.6) }},
	{"bimodal", func(r *rand.Rand) (float64, float64) {
		if r.IntN(5) > 0 {
			return between(r, 50, 500), between(r, 1.5, 2.5)
		}
		return between(r, 3_000, 8_000), between(r, 5, 7)
	}},
	{"heavy-tailed", func(r *rand.Rand) (float64, float64) { return pareto(r, 100, 1.2), lognormal(r, 3, 0.6) }},
	{"memory-bound", func(r *rand.Rand) (float64, float64) { return lognormal(r, 400, 0.8), between(r, 8, 32) }},
	{"CPU-bound", func(r *rand.Rand) (float64, float64) { return between(r, 500, 8_000), between(r, 0.25, 1) }},
	{"few kinds", fewKinds},
	{"many tiny, few huge", func(r *rand.Rand) (float64, float64) {
		if r.IntN(50) > 0 {
			return between(r, 10, 100), between(r, 1, 8)
		}
		return between(r, 8_000, 16_000), between(r, 1, 4)
	}},
}

// fewKinds draws one of a dozen sizes, the first as often as all others together, like the replicas of a
// dozen workloads of different sizes.
func fewKinds(r *rand.Rand) (milliCPU, ratio float64) {
	kinds := [...][2]float64{
		{250, 2}, {500, 4}, {100, 1.28}, {1_000, 3}, {2_000, 8}, {750, 2.5},
		{4_000, 4}, {300, 10}, {1_500, 1}, {6_000, 2}, {3_500, 7}, {50, 5},
	}
	at := 0
	for at < len(kinds)-1 && r.IntN(2) == 0 {
		at++
	}
	return kinds[at][0], kinds[at][1]
}

func between(r *rand.Rand, least, most float64) float64 { return least + (most-least)*r.Float64() }

// lognormal draws from the log-normal distribution with the given median and the given standard deviation of
// the logarithm.
func lognormal(r *rand.Rand, median, deviation float64) float64 {
	return median * math.Exp(deviation*r.NormFloat64())
}

// pareto draws from the Pareto distribution with the given minimum and exponent.
func pareto(r *rand.Rand, least, exponent float64) float64 {
	return least / math.Pow(1-r.Float64(), 1/exponent)
}
