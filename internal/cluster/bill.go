package cluster

import (
	"math/bits"
	"time"
)

// Bill returns the price in micro-dollars of a machine held for the given time. Every started billing period is paid in
// full, and at least one period is paid. A period of 0 bills by the nanosecond. The total is rounded up to a whole
// micro-dollar once.
//
// The result is exact for any time and any price up to a million dollars per hour. Neither may be negative.
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
