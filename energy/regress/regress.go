// Package regress provides the least squares that all fits of measured energy share: ordinary and non-negative, and
// Huber's weights around either, so that outliers do not distort the fit.
package regress

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// ErrDependent is returned if the rows determine no unique solution: there are too few rows, or columns are linearly
// dependent.
var ErrDependent = errors.New("the samples do not distinguish the terms")

// Solver returns the coefficients b that minimise the weighted sum of squares Σ w_i·(y_i - rows_i·b)². Rows must have
// equal lengths, all values must be finite and weights not negative.
type Solver func(rows [][]float64, y, w []float64) ([]float64, error)

// maxCondition is the condition number of scaled columns above which a solution is dominated by rounding errors.
const maxCondition = 1e8

// LeastSquares is the ordinary [Solver], by QR decomposition of columns scaled to equal length. It returns
// [ErrDependent] if there is no unique solution.
func LeastSquares(rows [][]float64, y, w []float64) ([]float64, error) {
	if err := check(rows, y, w); err != nil {
		return nil, err
	}
	n, k := len(rows), len(rows[0])
	if n < k {
		return nil, ErrDependent
	}
	x, right := mat.NewDense(n, k, nil), mat.NewVecDense(n, nil)
	norms := make([]float64, k)
	for i, r := range rows {
		root := math.Sqrt(w[i])
		right.SetVec(i, y[i]*root)
		for j, v := range r {
			x.Set(i, j, v*root)
			norms[j] = math.Hypot(norms[j], v*root)
		}
	}
	for j, norm := range norms {
		if norm == 0 {
			return nil, ErrDependent
		}
		for i := range n {
			x.Set(i, j, x.At(i, j)/norm)
		}
	}
	var qr mat.QR
	qr.Factorize(x)
	if !(qr.Cond() <= maxCondition) {
		return nil, ErrDependent
	}
	var b mat.VecDense
	if err := qr.SolveVecTo(&b, false, right); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDependent, err)
	}
	answer := make([]float64, k)
	for j := range answer {
		answer[j] = b.AtVec(j) / norms[j]
	}
	return answer, nil
}

// sweeps is the number of rounds after which [NonNegative] takes a long step, and longSteps the maximum number of long
// steps. A dozen coefficients of a power curve converge within some hundreds of rounds.
const sweeps, longSteps = 2_000, 10

// NonNegative is the [Solver] for non-negative coefficients, by coordinate descent on the normal equations, which
// converges to the minimum of a convex function. If it converges slowly, it takes long steps (see settled). A column of
// zeros gets the coefficient 0.
func NonNegative(rows [][]float64, y, w []float64) ([]float64, error) {
	if err := check(rows, y, w); err != nil {
		return nil, err
	}
	k := len(rows[0])
	gram, right := mat.NewSymDense(k, nil), make([]float64, k)
	for i, r := range rows {
		for a := range k {
			right[a] += w[i] * r[a] * y[i]
			for b := a; b < k; b++ {
				gram.SetSym(a, b, gram.At(a, b)+w[i]*r[a]*r[b])
			}
		}
	}
	b := make([]float64, k)
	for range longSteps {
		if descend(gram, right, b) {
			return b, nil
		}
		b = settled(gram, right, b)
	}
	return b, nil
}

// descend minimises the sum of squares over one coefficient after the other, and reports whether it has converged.
func descend(gram *mat.SymDense, right, b []float64) bool {
	k := len(b)
	for range sweeps {
		change, size := 0.0, 0.0
		for j := range k {
			curvature := gram.At(j, j)
			if curvature == 0 {
				continue
			}
			slope := right[j]
			for l := range k {
				slope -= gram.At(j, l) * b[l]
			}
			next := max(0, b[j]+slope/curvature)
			change, size = max(change, math.Abs(next-b[j])), max(size, next)
			b[j] = next
		}
		if change <= 1e-10*size {
			return true
		}
	}
	return false
}

// settled continues from b, which converges slowly because columns are nearly dependent. It moves straight to the
// minimum over the positive coefficients without bounds. If a coefficient would become negative, it stops where that
// coefficient is 0 and continues without it (Lawson and Hanson, Solving Least Squares Problems, chapter 23, steps 6 to
// 11). It stops if columns are linearly dependent.
func settled(gram *mat.SymDense, right, b []float64) []float64 {
	for {
		free := above(b)
		if len(free) == 0 {
			return b
		}
		x, ok := unbounded(gram, right, free)
		if !ok {
			return b
		}
		share, stop := 1.0, -1 // the fraction of the step, and the coefficient that limits it
		for i, j := range free {
			if x[i] < 0 && b[j]/(b[j]-x[i]) < share {
				share, stop = b[j]/(b[j]-x[i]), j
			}
		}
		for i, j := range free {
			b[j] = max(0, b[j]+share*(x[i]-b[j]))
		}
		if stop < 0 {
			return b
		}
		b[stop] = 0
	}
}

// above returns the indices of positive values.
func above(b []float64) []int {
	var free []int
	for j := range b {
		if b[j] > 0 {
			free = append(free, j)
		}
	}
	return free
}

// unbounded returns the coefficients of the free columns that minimise the sum of squares with the others at 0, and
// false if those columns are dependent.
func unbounded(gram *mat.SymDense, right []float64, free []int) ([]float64, bool) {
	some, target := mat.NewSymDense(len(free), nil), mat.NewVecDense(len(free), nil)
	for i, a := range free {
		target.SetVec(i, right[a])
		for j := i; j < len(free); j++ {
			some.SetSym(i, j, gram.At(a, free[j]))
		}
	}
	var factors mat.Cholesky
	var x mat.VecDense
	if !factors.Factorize(some) || factors.SolveVecTo(&x, target) != nil {
		return nil, false
	}
	return x.RawVector().Data, true
}

// check returns an error for input for which a [Solver] is not defined.
func check(rows [][]float64, y, w []float64) error {
	if len(rows) == 0 || len(rows[0]) == 0 || len(y) != len(rows) || len(w) != len(rows) {
		return fmt.Errorf("%d rows, %d values and %d weights: the numbers must be equal, and at least one", len(rows), len(y), len(w))
	}
	for i, r := range rows {
		if len(r) != len(rows[0]) {
			return fmt.Errorf("row %d has %d columns: must be %d as in row 0", i, len(r), len(rows[0]))
		}
		if slices.ContainsFunc(r, notFinite) || notFinite(y[i]) || notFinite(w[i]) || w[i] < 0 {
			return fmt.Errorf("row %d: must have finite numbers and a weight of at least 0", i)
		}
	}
	return nil
}

func notFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// Fit is the result of a robust regression.
type Fit struct {
	// Coefficients are in the order of the columns.
	Coefficients []float64
	// Weights are the final weights of the rows, in (0, 1]: 1 for a row within the bound, less for outliers.
	Weights []float64
	// Scale is the spread of the residuals: the standard deviation of a normal distribution with the same median
	// absolute value.
	Scale float64
}

const (
	// huber is the residual, in spreads, from which on a row loses weight. At 1.345 the fit is 95 % as efficient as
	// least squares on normal errors (Huber and Ronchetti, Robust Statistics, 2nd ed., section 7.8).
	huber = 1.345
	// normalMAD converts the median absolute residual to the standard deviation of a normal distribution.
	normalMAD = 1.4826
	// rounds bounds the reweighting, which converges in about ten rounds.
	rounds = 50
)

// Huber fits y to the rows by iteratively reweighted least squares with Huber's weights. At least half of the rows must
// be good; the others may have any values. It is deterministic.
func Huber(solve Solver, rows [][]float64, y []float64) (Fit, error) {
	f := Fit{Weights: make([]float64, len(rows))}
	for i := range f.Weights {
		f.Weights[i] = 1
	}
	largest := 0.0
	for _, v := range y {
		largest = max(largest, math.Abs(v))
	}
	residuals := make([]float64, len(rows))
	for range rounds {
		b, err := solve(rows, y, f.Weights)
		if err != nil {
			return Fit{}, err
		}
		f.Coefficients = b
		for i, r := range rows {
			residuals[i] = math.Abs(y[i] - Dot(r, b))
		}
		f.Scale = normalMAD * Median(residuals)
		// A fit that is exact for most rows still needs a bound for the others.
		bound, change := huber*max(f.Scale, 1e-9*largest), 0.0
		for i, r := range residuals {
			w := 1.0
			if r > bound {
				w = bound / r
			}
			change = max(change, math.Abs(w-f.Weights[i]))
			f.Weights[i] = w
		}
		if change < 1e-6 {
			break
		}
	}
	return f, nil
}

// Dot returns the dot product of two slices of equal length.
func Dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v * b[i])
	}
	return sum
}

// Median returns the median of the values, the mean of the middle two if their number is even, and NaN if there are
// none. It does not change them.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
