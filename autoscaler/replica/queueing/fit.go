package queueing

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// Sample is a measurement of one step of steady operation.
type Sample struct {
	Replicas    int
	ArrivalRate float64 // requests per second
	Response    float64 // mean of this step, seconds
	Before      float64 // mean of the step before, seconds
}

// Valid reports whether the sample can be used: it has at least one replica, and all other values are above 0 and
// finite.
func (s Sample) Valid() bool {
	return s.Replicas >= 1 && finiteAbove0(s.ArrivalRate) && finiteAbove0(s.Response) && finiteAbove0(s.Before)
}

func finiteAbove0(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

// FitOptions bound the fit. The zero value gives the paper's bounds: mu_b > 0, c > 0 and 0 < alpha < 0.3.
type FitOptions struct {
	// FixedRate keeps c at 0, for laws with one service rate.
	FixedRate bool
	// MaxAlpha is the upper bound of alpha; 0 means [DefaultMaxAlpha]. Without a bound, alpha explains everything,
	// because consecutive response times are similar.
	MaxAlpha float64
}

// DefaultMaxAlpha is the paper's bound of alpha.
const DefaultMaxAlpha = 0.3

// Fitted is a model with its goodness of fit.
type Fitted struct {
	Model
	// Residual is the root mean squared error, in seconds.
	Residual float64
	// R2 is the share of the samples' variance that the model explains: 1 is all, below 0 is worse than their mean.
	R2 float64
	// Used counts the samples used, and Dropped the samples with a missing, zero, negative or infinite value.
	Used, Dropped int
}

// minFitSamples is the minimum number of samples to fit three constants.
const minFitSamples = 6

// minRateSpread is the minimum ratio of the highest to the lowest arrival rate that separates mu_b from c/lambda.
const minRateSpread = 1.05

// ErrUndetermined is wrapped by errors about samples that do not determine the model.
var ErrUndetermined = errors.New("samples do not determine the model")

// Fit finds the constants with the least sum of squared errors
//
//	Σ (y_k - alpha·y_(k-1) - (1 - alpha)·W(N_k, lambda_k, mu_b + c/lambda_k))²
//
// within their bounds (section 5.1 of the paper). It wraps [ErrUndetermined] if there are fewer than six samples, or if
// all have nearly the same arrival rate, which does not separate mu_b from c; FixedRate avoids the latter.
//
// For given mu_b and c, the best alpha is a quotient clamped to its bounds, because the sum is a parabola in it. The
// rest is a search over ln mu_b and ln c, whose values cannot leave their bounds, by Nelder and Mead's simplex. It
// needs no derivative; W has none where a sample becomes unstable. There W is cut at ten times the longest measured
// response, so that the sum stays finite and continuous. One starting point is the line over 1/lambda through the
// service rates that explain each sample alone. The result is deterministic. Cost: some hundred sums.
func Fit(samples []Sample, o FitOptions) (Fitted, error) {
	f, err := newFitting(samples, o)
	if err != nil {
		return Fitted{}, err
	}
	var best []float64
	least := math.Inf(1)
	for _, start := range f.starts() {
		result, err := optimize.Minimize(optimize.Problem{Func: f.sum}, start,
			&optimize.Settings{FuncEvaluations: 4000, Concurrent: 1,
				Converger: &optimize.FunctionConverge{Absolute: 1e-18, Relative: 1e-12, Iterations: 60}},
			&optimize.NelderMead{})
		if result == nil {
			return Fitted{}, fmt.Errorf("fit the queueing model: %w", err)
		}
		// If the evaluations run out, result still has the best point so far.
		if result.F < least {
			least, best = result.F, result.X
		}
	}
	if best == nil {
		return Fitted{}, fmt.Errorf("fit the queueing model to %d samples: %w: no model fits them", len(f.samples), ErrUndetermined)
	}
	return f.fitted(best), nil
}

// fitting is the problem that Fit solves.
type fitting struct {
	samples  []Sample
	dropped  int
	fixed    bool
	maxAlpha float64
	ceiling  float64 // seconds; the response time of an unstable sample
}

func newFitting(samples []Sample, o FitOptions) (*fitting, error) {
	f := &fitting{fixed: o.FixedRate, maxAlpha: o.MaxAlpha}
	switch {
	case o.MaxAlpha == 0:
		f.maxAlpha = DefaultMaxAlpha
	case !(o.MaxAlpha > 0 && o.MaxAlpha < 1):
		return nil, fmt.Errorf("fit the queueing model: MaxAlpha %v: must be a number above 0 and below 1", o.MaxAlpha)
	}
	low, high := math.Inf(1), 0.0
	for _, s := range samples {
		if !s.Valid() {
			f.dropped++
			continue
		}
		f.samples = append(f.samples, s)
		f.ceiling = max(f.ceiling, 10*s.Response)
		low, high = min(low, s.ArrivalRate), max(high, s.ArrivalRate)
	}
	if n := len(f.samples); n < minFitSamples {
		return nil, fmt.Errorf("fit the queueing model: %w: %d usable samples, must be %d or more", ErrUndetermined, n, minFitSamples)
	}
	if !f.fixed && high < minRateSpread*low {
		return nil, fmt.Errorf("fit the queueing model: %w: all arrival rates are from %.6g to %.6g/s: provide samples with a wider range, or fix the service rate",
			ErrUndetermined, low, high)
	}
	return f, nil
}

// model returns the model at the point x of the search, with its best alpha, and W of each sample.
func (f *fitting) model(x []float64) (Model, []float64) {
	m := Model{MuB: math.Exp(x[0])}
	if !f.fixed {
		m.C = math.Exp(x[1])
	}
	w := make([]float64, len(f.samples))
	var over, under float64
	for i, s := range f.samples {
		w[i] = min(m.System(s.Replicas, s.ArrivalRate).Response(), f.ceiling)
		over += (s.Response - w[i]) * (s.Before - w[i])
		under += (s.Before - w[i]) * (s.Before - w[i])
	}
	if under > 0 {
		m.Alpha = min(max(over/under, 0), f.maxAlpha)
	}
	return m, w
}

// sum returns the sum of squared errors at the point x.
func (f *fitting) sum(x []float64) float64 {
	m, w := f.model(x)
	if m.MuB == 0 || math.IsInf(m.MuB, 1) || math.IsInf(m.C, 1) {
		return math.MaxFloat64
	}
	total := 0.0
	for i, s := range f.samples {
		e := s.Response - m.Alpha*s.Before - (1-m.Alpha)*w[i]
		total += e * e
	}
	return total
}

func (f *fitting) fitted(x []float64) Fitted {
	m, _ := f.model(x)
	mean, variance := 0.0, 0.0
	for _, s := range f.samples {
		mean += s.Response / float64(len(f.samples))
	}
	for _, s := range f.samples {
		variance += (s.Response - mean) * (s.Response - mean)
	}
	squares := f.sum(x)
	r2 := 0.0
	if variance > 0 {
		r2 = 1 - squares/variance
	}
	return Fitted{Model: m, Residual: math.Sqrt(squares / float64(len(f.samples))), R2: r2, Used: len(f.samples), Dropped: f.dropped}
}

// starts returns the starting points of the search: the line through the rates that explain each sample alone, and two
// points that attribute most of the rate to mu_b or to c.
func (f *fitting) starts() [][]float64 {
	rates := make([]float64, len(f.samples))
	for i, s := range f.samples {
		rates[i] = RateFor(s.Replicas, s.ArrivalRate, s.Response)
	}
	sorted := slices.Sorted(slices.Values(rates))
	middle := sorted[len(sorted)/2]
	if f.fixed {
		return [][]float64{{math.Log(middle)}, {math.Log(sorted[0])}, {math.Log(sorted[len(sorted)-1])}}
	}
	lambda := f.samples[0].ArrivalRate
	starts := [][]float64{
		{math.Log(0.9 * middle), math.Log(0.1 * middle * lambda)},
		{math.Log(0.1 * middle), math.Log(0.9 * middle * lambda)},
	}
	if muB, c := line(f.samples, rates); muB > 0 && c > 0 {
		starts = append(starts, []float64{math.Log(muB), math.Log(c)})
	}
	return starts
}

// line returns the least-squares line rate = muB + c·(1/lambda).
func line(samples []Sample, rates []float64) (muB, c float64) {
	n := float64(len(samples))
	var sx, sy, sxx, sxy float64
	for i, s := range samples {
		x := 1 / s.ArrivalRate
		sx, sy, sxx, sxy = sx+x, sy+rates[i], sxx+x*x, sxy+x*rates[i]
	}
	c = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	return (sy - c*sx) / n, c
}
