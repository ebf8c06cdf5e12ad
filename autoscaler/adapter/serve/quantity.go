package serve

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity gives a number in the form of the metrics APIs, to a thousandth, as
// autoscalers read it. What has no place there (not a number, infinite, more than 2⁶³
// thousandths) is not ok: it is as if it were not measured.
func quantity(v float64) (q resource.Quantity, ok bool) {
	milli := math.Round(v * 1000)
	if !(math.Abs(milli) < math.MaxInt64) { // written so that NaN lands here
		return resource.Quantity{}, false
	}
	return *resource.NewMilliQuantity(int64(milli), resource.DecimalSI), true
}
