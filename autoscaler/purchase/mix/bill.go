package mix

import (
	"cmp"
	"math"
	"math/bits"
)

// bill is an amount of money: micro-dollars per hour times nanoseconds. It has 128 bits and saturates.
type bill struct{ high, low uint64 }

func newBill(price, paid uint64) bill {
	high, low := bits.Mul64(price, paid)
	return bill{high, low}
}

func (b bill) plus(other bill) bill {
	low, carry := bits.Add64(b.low, other.low, 0)
	high, over := bits.Add64(b.high, other.high, carry)
	if over > 0 {
		return bill{math.MaxUint64, math.MaxUint64}
	}
	return bill{high, low}
}

func (b bill) compare(other bill) int {
	return cmp.Or(cmp.Compare(b.high, other.high), cmp.Compare(b.low, other.low))
}

// less subtracts, down to 0.
func (b bill) less(other bill) bill {
	if b.compare(other) <= 0 {
		return bill{}
	}
	low, borrow := bits.Sub64(b.low, other.low, 0)
	high, _ := bits.Sub64(b.high, other.high, borrow)
	return bill{high, low}
}

// portion returns times·part/whole, rounded down and at most times. A part of 0 gives 0, even if whole is 0.
func portion(part, whole, times uint64) uint64 {
	switch {
	case part == 0:
		return 0
	case part >= whole:
		return times
	}
	high, low := bits.Mul64(part, times)
	q, _ := bits.Div64(high, low, whole)
	return q
}
