// Package profile learns how much energy and time a pod takes on a machine type from observed pods with known requests,
// and predicts both for further pods.
//
// It is the modelling component of HEATS (Rocha et al., PDP 2019, section III): one regression per machine type and
// quantity on requested CPU and memory. Beyond the paper, it selects the terms by cross-validation, tolerates outliers,
// and states a trust for each prediction.
//
// A profile predicts a standard amount of work, that of the probes, at the requests of a pod. The actual work of a pod
// is unknown. The score only uses ratios between machine types, in which the amount of work cancels.
package profile

import (
	"fmt"
	"math"
)

const gib = 1 << 30

// Term is a factor of a coefficient of a [Model], with CPU in cores and memory in GiB.
type Term string

// The terms. Work that is spread over the requested CPUs takes a time proportional to their inverse.
const (
	One            Term = "One"            // 1
	CPU            Term = "CPU"            // c
	Memory         Term = "Memory"         // m
	CPUTimesMemory Term = "CPUTimesMemory" // c·m
	OnePerCPU      Term = "OnePerCPU"      // 1/c
	MemoryPerCPU   Term = "MemoryPerCPU"   // m/c
)

// Terms returns all terms.
func Terms() []Term { return []Term{One, CPU, Memory, CPUTimesMemory, OnePerCPU, MemoryPerCPU} }

// Size is what a pod requests.
type Size struct {
	MilliCPU    int64
	MemoryBytes int64
}

// smallest is the lower bound on requests. A pod that requests no CPU still gets some, and 1/cpu must stay finite.
var smallest = Size{MilliCPU: 10, MemoryBytes: 0}

// value returns the term at a size.
func (t Term) value(s Size) float64 {
	cpu := float64(max(s.MilliCPU, smallest.MilliCPU)) / 1000
	memory := float64(max(s.MemoryBytes, smallest.MemoryBytes)) / gib
	switch t {
	case One:
		return 1
	case CPU:
		return cpu
	case Memory:
		return memory
	case CPUTimesMemory:
		return cpu * memory
	case OnePerCPU:
		return 1 / cpu
	case MemoryPerCPU:
		return memory / cpu
	}
	return math.NaN()
}

// Range is the range of a model's samples: the least and the greatest of each request and of the predicted quantity.
type Range struct {
	Least, Most           Size
	LeastValue, MostValue float64
}

// Quality describes how well a model fits its samples.
type Quality struct {
	// Samples is the number of samples, Sizes the number of different requests.
	Samples, Sizes int
	// RSquared is the share of the variance that the model explains, with the weights of the fit. It is 0 for a
	// quantity that does not vary.
	RSquared float64
	// Spread is the typical relative error on requests that were not learned from: the standard deviation if errors
	// were normal. With only one size it is that of the samples themselves.
	Spread float64
}

// Model predicts one quantity on one machine type:
//
//	value(size) = Σ Coefficients_i · Terms_i(size)
//
// clamped to between half the least and twice the greatest observed value, so that it is positive whatever the
// coefficients.
type Model struct {
	Terms        []Term
	Coefficients []float64
	Range        Range
	Quality      Quality
}

// maxTerms is the maximum number of terms of a model.
const maxTerms = 6

// Validate returns the first fault of a model, with the name of the field, or nil for a valid model.
func (m Model) Validate() error {
	if len(m.Terms) == 0 || len(m.Terms) > maxTerms || len(m.Coefficients) != len(m.Terms) {
		return fmt.Errorf("terms: %d, with %d coefficients: must be from 1 to %d, with one coefficient each", len(m.Terms), len(m.Coefficients), maxTerms)
	}
	for i, t := range m.Terms {
		if math.IsNaN(t.value(Size{1, 1})) {
			return fmt.Errorf("terms[%d]: %q: must be one of %q", i, t, Terms())
		}
		if c := m.Coefficients[i]; math.IsNaN(c) || math.IsInf(c, 0) {
			return fmt.Errorf("terms[%d]: coefficient %v: must be a finite number", i, c)
		}
	}
	r := m.Range
	switch {
	case r.Least.MilliCPU < 0 || r.Most.MilliCPU < r.Least.MilliCPU:
		return fmt.Errorf("range: CPU from %d to %d m: must be 0 or more, in ascending order", r.Least.MilliCPU, r.Most.MilliCPU)
	case r.Least.MemoryBytes < 0 || r.Most.MemoryBytes < r.Least.MemoryBytes:
		return fmt.Errorf("range: memory from %d to %d bytes: must be 0 or more, in ascending order", r.Least.MemoryBytes, r.Most.MemoryBytes)
	case !(r.LeastValue > 0) || !(r.MostValue >= r.LeastValue) || math.IsInf(2*r.MostValue, 0):
		return fmt.Errorf("range: value from %v to %v: must be finite numbers above 0, in ascending order", r.LeastValue, r.MostValue)
	case !(m.Quality.Spread >= 0) || math.IsInf(m.Quality.Spread, 0):
		return fmt.Errorf("spread: %v: must be a finite number of at least 0", m.Quality.Spread)
	}
	return nil
}
