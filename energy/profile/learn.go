package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/regress"
)

// Sample is the energy and runtime of a finished pod or probe on a machine of the type.
type Sample struct {
	Size    Size
	Runtime time.Duration
	// Energy is that of the task alone: the machine's use minus what it would have used without the task.
	Energy energy.Joules
	// NoEnergy means that there was no meter: only the runtime counts.
	NoEnergy bool
}

// Profile predicts energy and runtime for one machine type.
type Profile struct {
	// Energy is in joules, Runtime in seconds.
	Energy, Runtime Model
}

// LeastSamples is the minimum number of samples to learn from.
const LeastSamples = 4

// ErrTooFew is returned for fewer than [LeastSamples] usable samples.
var ErrTooFew = fmt.Errorf("fewer than %d usable samples", LeastSamples)

// Learn fits a profile to samples. Their order does not change the result. Implausible samples (no time or energy, or
// not a number) are skipped and counted; those without energy are used for the runtime only.
func Learn(samples []Sample) (p Profile, unusable int, err error) {
	timed, powered := make([]Sample, 0, len(samples)), make([]Sample, 0, len(samples))
	for _, s := range samples {
		e := float64(s.Energy)
		if s.Runtime <= 0 || !s.NoEnergy && (!(e > 0) || math.IsInf(e, 0)) || s.Size.MilliCPU < 0 || s.Size.MemoryBytes < 0 {
			unusable++
			continue
		}
		if timed = append(timed, s); !s.NoEnergy {
			powered = append(powered, s)
		}
	}
	if len(powered) < LeastSamples {
		return Profile{}, unusable, fmt.Errorf("learn from %d samples, %d of them without energy: %w", len(samples), len(timed)-len(powered), ErrTooFew)
	}
	for _, all := range [][]Sample{timed, powered} {
		slices.SortFunc(all, func(a, b Sample) int {
			return cmp.Or(compareSizes(a.Size, b.Size), cmp.Compare(a.Runtime, b.Runtime), cmp.Compare(a.Energy, b.Energy))
		})
	}
	p.Energy, err = learn(powered, func(s Sample) float64 { return float64(s.Energy) })
	if err != nil {
		return Profile{}, unusable, fmt.Errorf("learn energy: %w", err)
	}
	p.Runtime, err = learn(timed, func(s Sample) float64 { return s.Runtime.Seconds() })
	if err != nil {
		return Profile{}, unusable, fmt.Errorf("learn runtime: %w", err)
	}
	return p, unusable, nil
}

func compareSizes(a, b Size) int {
	return cmp.Or(cmp.Compare(a.MilliCPU, b.MilliCPU), cmp.Compare(a.MemoryBytes, b.MemoryBytes))
}

// candidates are the sets of terms to try, simpler ones first.
var candidates = [][]Term{
	{One},
	{One, CPU},
	{One, OnePerCPU},
	{One, Memory},
	{One, CPU, Memory},
	{One, OnePerCPU, Memory},
	{One, CPU, OnePerCPU},
	{One, CPU, Memory, CPUTimesMemory},
	{One, OnePerCPU, Memory, MemoryPerCPU},
	{One, CPU, OnePerCPU, Memory},
	{One, CPU, OnePerCPU, Memory, CPUTimesMemory, MemoryPerCPU},
}

// better is the factor by which the error must fall for a set of terms to be preferred to one tried before it, which is
// no larger: by noise alone, some larger set looks slightly better.
const better = 0.95

// learn fits one quantity to samples sorted by size. It selects the terms that best predict sizes that they were not
// fitted to.
func learn(samples []Sample, of func(Sample) float64) (Model, error) {
	folds, sizes := foldsOf(samples)
	var terms []Term
	least, spread := math.Inf(1), 0.0
	for _, c := range candidates {
		errs, ok := heldOut(samples, of, c, folds, sizes)
		if !ok {
			continue
		}
		if e := regress.Median(errs); e < least*better || terms == nil {
			least, terms, spread = e, c, normal*e
		}
	}
	if terms == nil { // one size: nothing can be held out
		terms = candidates[0]
	}
	fit, err := fitTerms(samples, of, terms)
	if err != nil {
		return Model{}, err
	}
	m := Model{Terms: terms, Coefficients: fit.Coefficients, Range: rangeOf(samples, of)}
	if sizes == 1 {
		spread = fit.Scale
	}
	m.Quality = Quality{Samples: len(samples), Sizes: sizes, Spread: spread, RSquared: rSquared(samples, of, m, fit.Weights)}
	return m, m.Validate()
}

// normal converts the median of absolute errors to the standard deviation of a normal distribution.
const normal = 1.4826

// maxFolds is the number of folds into which the sizes are divided. Fewer sizes are held out one by one.
const maxFolds = 10

// foldsOf returns the fold of each sample, sorted by size, and the number of sizes. All samples of one size are in one
// fold, otherwise the model would be tested on sizes that it has seen.
func foldsOf(samples []Sample) (fold []int, sizes int) {
	fold = make([]int, len(samples))
	for i, s := range samples {
		if i == 0 || s.Size != samples[i-1].Size {
			sizes++
		}
		fold[i] = (sizes - 1) % maxFolds
	}
	return fold, sizes
}

// heldOut returns the relative errors of the terms on each sample when its fold is not learned from. It returns false
// if the terms are not determined without some fold.
func heldOut(samples []Sample, of func(Sample) float64, terms []Term, fold []int, sizes int) ([]float64, bool) {
	if sizes < 2 {
		return nil, false
	}
	errs := make([]float64, 0, len(samples))
	for part := range min(sizes, maxFolds) {
		var known, unseen []Sample
		for i, s := range samples {
			if fold[i] == part {
				unseen = append(unseen, s)
			} else {
				known = append(known, s)
			}
		}
		fit, err := fitTerms(known, of, terms)
		if err != nil {
			return nil, false
		}
		for _, s := range unseen {
			errs = append(errs, math.Abs(regress.Dot(rowOf(terms, s.Size), fit.Coefficients)/of(s)-1))
		}
	}
	return errs, true
}

func rowOf(terms []Term, s Size) []float64 {
	row := make([]float64, len(terms))
	for j, t := range terms {
		row[j] = t.value(s)
	}
	return row
}

// fitTerms minimises relative errors, so that a pod with a tenth of a core matters as much as one with ten cores. It
// divides each row by its value.
func fitTerms(samples []Sample, of func(Sample) float64, terms []Term) (regress.Fit, error) {
	rows, ones := make([][]float64, len(samples)), make([]float64, len(samples))
	for i, s := range samples {
		rows[i], ones[i] = rowOf(terms, s.Size), 1
		for j := range rows[i] {
			rows[i][j] /= of(s)
		}
	}
	return regress.Huber(regress.LeastSquares, rows, ones)
}

func rangeOf(samples []Sample, of func(Sample) float64) Range {
	first := samples[0]
	r := Range{first.Size, first.Size, of(first), of(first)}
	for _, s := range samples[1:] {
		r.Least = Size{min(r.Least.MilliCPU, s.Size.MilliCPU), min(r.Least.MemoryBytes, s.Size.MemoryBytes)}
		r.Most = Size{max(r.Most.MilliCPU, s.Size.MilliCPU), max(r.Most.MemoryBytes, s.Size.MemoryBytes)}
		r.LeastValue, r.MostValue = min(r.LeastValue, of(s)), max(r.MostValue, of(s))
	}
	return r
}

// rSquared returns the R² of a model. It is clamped to 0, because a fit with an intercept can only be worse than the
// mean because of the weights.
func rSquared(samples []Sample, of func(Sample) float64, m Model, weights []float64) float64 {
	var sum, weight float64
	for i, s := range samples {
		sum, weight = sum+weights[i]*of(s), weight+weights[i]
	}
	mean := sum / weight
	var left, all float64
	for i, s := range samples {
		off, from := of(s)-regress.Dot(rowOf(m.Terms, s.Size), m.Coefficients), of(s)-mean
		left, all = left+weights[i]*off*off, all+weights[i]*from*from
	}
	if all <= 0 {
		return 0
	}
	return max(0, 1-left/all)
}
