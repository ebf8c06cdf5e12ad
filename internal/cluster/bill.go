package cluster

import (
	"math/bits"
	"time"
)

// Bill returns the price in micro-dollars of a machine held for a time: every
// started billing period is paid in full, at least one. A period of 0 bills by
// the nanosecond. Fractions of a micro-dollar are rounded up once, on the whole.
//
// The result is exact for any price up to a million dollars an hour and any time.
// Neither may be negative.
func Bill(microDollarsPerHour int64, held, period time.Duration) int64 {
	paid := held
	if period > 0 {
		paid = max(1, (held+period-1)/period) * period
	}
	// The product takes up to 103 bits.
	high, low := bits.Mul64(uint64(microDollarsPerHour), uint64(paid))
	low, carry := bits.Add64(low, uint64(time.Hour-1), 0)
	price, _ := bits.Div64(high+carry, low, uint64(time.Hour))
	return int64(price)
}
