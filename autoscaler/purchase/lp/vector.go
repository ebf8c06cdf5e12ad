// Package lp solves the linear programs behind a machine mix: how the price of an offer divides among its measures
// ([Master], by column generation over an interior-point method), and what a division of items among places with limited
// room costs at least ([Transport]).
//
// Every function is pure and deterministic. Products are converted before they are added, so that no compiler fuses the
// two operations, which some machines round differently: results are the same everywhere.
package lp

const (
	// Linear is the number of measures, from the first, that are parts of a machine's resources.
	Linear = 3
	// Measures is the number of measures.
	Measures = 11
)

// Vector has a number for each measure.
type Vector [Measures]float64

// Times multiplies.
func Times(a, b float64) float64 { return float64(a * b) }

// Dot returns the sum of the products of the numbers of both vectors.
func Dot(a, b Vector) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}

// Total returns the sum of the numbers of a vector.
func Total(a Vector) float64 {
	sum := 0.0
	for _, x := range a {
		sum += x
	}
	return sum
}
