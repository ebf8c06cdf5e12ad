package regress

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

// line returns rows of y = 3 + 2x for x = 0..n-1.
func line(n int) (rows [][]float64, y, w []float64) {
	for i := range n {
		rows = append(rows, []float64{1, float64(i)})
		y = append(y, 3+2*float64(i))
		w = append(w, 1)
	}
	return rows, y, w
}

func TestSolversFindALineThatIsThere(t *testing.T) {
	for name, solve := range map[string]Solver{"ordinary": LeastSquares, "non-negative": NonNegative} {
		rows, y, w := line(10)
		b, err := solve(rows, y, w)
		if err != nil || !near(b[0], 3, 1e-6) || !near(b[1], 2, 1e-6) {
			t.Errorf("%s: %v, %v; want 3 and 2", name, b, err)
		}
	}
}

func TestRowsWithoutWeightDoNotCount(t *testing.T) {
	for name, solve := range map[string]Solver{"ordinary": LeastSquares, "non-negative": NonNegative} {
		rows, y, w := line(10)
		y[4], w[4] = 1000, 0
		if b, err := solve(rows, y, w); err != nil || !near(b[0], 3, 1e-6) || !near(b[1], 2, 1e-6) {
			t.Errorf("%s: %v, %v; want 3 and 2", name, b, err)
		}
	}
}

func TestNonNegativeStaysAtZeroWhereLeastSquaresGoesBelow(t *testing.T) {
	rows, y, w := line(10)
	for i := range y {
		y[i] = 20 - float64(i)
	}
	b, err := NonNegative(rows, y, w)
	if err != nil || b[1] != 0 || !near(b[0], 15.5, 1e-9) {
		t.Errorf("%v, %v; want the mean, 15.5, and 0", b, err)
	}
}

// TestNonNegativeIsTheLeast compares the solution with nearby points: in a convex problem none has a smaller sum of
// squares. Values are multiples of a quarter, because rounding decides between columns that differ by less than a
// millionth.
func TestNonNegativeIsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, k := rapid.IntRange(3, 12).Draw(t, "rows"), rapid.IntRange(1, 4).Draw(t, "columns")
		number := rapid.Map(rapid.IntRange(-40, 40), func(n int) float64 { return float64(n) / 4 })
		weight := rapid.Map(rapid.IntRange(0, 8), func(n int) float64 { return float64(n) / 4 })
		rows, y, w := make([][]float64, n), make([]float64, n), make([]float64, n)
		for i := range rows {
			rows[i], y[i], w[i] = make([]float64, k), number.Draw(t, "y"), weight.Draw(t, "w")
			for j := range k {
				rows[i][j] = number.Draw(t, "x")
			}
		}
		squares := func(b []float64) float64 {
			sum := 0.0
			for i, r := range rows {
				off := y[i]
				for j, v := range r {
					off -= v * b[j]
				}
				sum += w[i] * off * off
			}
			return sum
		}
		b, err := NonNegative(rows, y, w)
		if err != nil {
			t.Fatal(err)
		}
		least := squares(b)
		for j := range b {
			if b[j] < 0 {
				t.Fatalf("coefficient %d is %v", j, b[j])
			}
			for _, step := range []float64{-0.01, 0.01} {
				other := append([]float64(nil), b...)
				other[j] = max(0, other[j]+step)
				if squares(other) < least-1e-6*(1+least) {
					t.Fatalf("coefficients %v: squares %v; at %v they are less, %v", b, least, other, squares(other))
				}
			}
		}
	})
}

// TestNonNegativeComesToTheEndOfAValley uses columns that are nearly dependent, as in a draw of the test above.
func TestNonNegativeComesToTheEndOfAValley(t *testing.T) {
	rows := [][]float64{{-0.5, 1, 1}, {0.00390625, 1, 0.00390625}, {-0.0078125, 0.25, 0.0078125}}
	y, w := []float64{1, 1.5, -1.5}, []float64{1, 1, 0.5}
	b, err := NonNegative(rows, y, w)
	if err != nil {
		t.Fatal(err)
	}
	for j := range b {
		slope := 0.0 // of half the sum of squares
		for i, r := range rows {
			off := y[i]
			for l, v := range r {
				off -= v * b[l]
			}
			slope -= w[i] * off * r[j]
		}
		if b[j] < 0 || b[j] > 0 && math.Abs(slope) > 1e-8 || slope < -1e-8 {
			t.Errorf("coefficient %d of %v has slope %v, want 0, or more where it is 0", j, b, slope)
		}
	}
}

func TestDependentColumnsAreRefused(t *testing.T) {
	tests := []struct {
		name string
		rows [][]float64
	}{
		{"fewer rows than columns", [][]float64{{1, 2}}},
		{"one column twice the other", [][]float64{{1, 2}, {2, 4}, {3, 6}}},
		{"a column of zeros", [][]float64{{1, 0}, {2, 0}, {3, 0}}},
	}
	for _, tc := range tests {
		y, w := make([]float64, len(tc.rows)), make([]float64, len(tc.rows))
		for i := range w {
			w[i] = 1
		}
		if b, err := LeastSquares(tc.rows, y, w); !errors.Is(err, ErrDependent) {
			t.Errorf("%s: %v, %v; want ErrDependent", tc.name, b, err)
		}
	}
}

func TestColumnsOfVeryUnequalSizeAreNoneOfThem(t *testing.T) {
	rows, y, w := line(10)
	for _, r := range rows {
		r[1] *= 1e12
	}
	if b, err := LeastSquares(rows, y, w); err != nil || !near(b[0], 3, 1e-6) || !near(b[1]*1e12, 2, 1e-6) {
		t.Errorf("%v, %v; want 3 and 2e-12", b, err)
	}
}

func TestMalformedInputIsRefused(t *testing.T) {
	one := []float64{1}
	tests := []struct {
		name string
		rows [][]float64
		y, w []float64
	}{
		{"no rows", nil, nil, nil},
		{"no columns", [][]float64{{}}, one, one},
		{"a row too long", [][]float64{{1}, {1, 2}}, []float64{1, 1}, []float64{1, 1}},
		{"a value too few", [][]float64{{1}}, nil, one},
		{"NaN in a row", [][]float64{{math.NaN()}}, one, one},
		{"an infinite value", [][]float64{{1}}, []float64{math.Inf(1)}, one},
		{"a negative weight", [][]float64{{1}}, one, []float64{-1}},
		{"a weight that is NaN", [][]float64{{1}}, one, []float64{math.NaN()}},
	}
	for _, tc := range tests {
		for name, solve := range map[string]Solver{"ordinary": LeastSquares, "non-negative": NonNegative} {
			if b, err := solve(tc.rows, tc.y, tc.w); err == nil {
				t.Errorf("%s, %s: %v, want an error", tc.name, name, b)
			}
		}
	}
}

// TestHuberBearsOutliers has one outlier in ten rows, in one direction, where least squares would be off by tens.
func TestHuberBearsOutliers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rows, y, _ := line(100)
	for i := range y {
		y[i] += random.NormFloat64() * 0.1
		if i%10 == 3 {
			y[i] += 500
		}
	}
	fit, err := Huber(LeastSquares, rows, y)
	if err != nil || !near(fit.Coefficients[0], 3, 0.15) || !near(fit.Coefficients[1], 2, 0.01) {
		t.Errorf("%v, %v; want about 3 and 2", fit.Coefficients, err)
	}
	if fit.Weights[3] > 0.01 || fit.Weights[50] == 0 || !near(fit.Scale, 0.1, 0.05) {
		t.Errorf("an outlier weighs %v, the spread is %v", fit.Weights[3], fit.Scale)
	}
}

func TestHuberOnExactDataIgnoresTheOneThatIsNot(t *testing.T) {
	rows, y, _ := line(20)
	for i := range y {
		y[i] = 0.1 + 0.3*float64(i) // exact except for rounding
	}
	y[7] = -1e6
	fit, err := Huber(LeastSquares, rows, y)
	if err != nil || !near(fit.Coefficients[0], 0.1, 0.05) || !near(fit.Coefficients[1], 0.3, 0.005) {
		t.Errorf("%v, %v; want 0.1 and 0.3", fit.Coefficients, err)
	}
}

func TestMedian(t *testing.T) {
	in := []float64{3, 1, 2}
	if got := Median(in); got != 2 || in[0] != 3 {
		t.Errorf("median %v of %v, which it may not change", got, in)
	}
	if got := Median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median %v, want 2.5", got)
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("median %v of nothing, want NaN", got)
	}
}
