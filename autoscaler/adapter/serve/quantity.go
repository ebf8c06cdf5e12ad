package serve

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity converts a number to a quantity of the metrics APIs, rounded to thousandths, as
// autoscalers read it. It returns false for values without a representation (NaN, infinite,
// more than 2⁶³ thousandths), which count as not measured.
func quantity(v float64) (q resource.Quantity, ok bool) {
	milli := math.Round(v * 1000)
	if !(math.Abs(milli) < math.MaxInt64) { // also true for NaN
		return resource.Quantity{}, false
	}
	return *resource.NewMilliQuantity(int64(milli), resource.DecimalSI), true
}
