package cluster

import "time"

// Bill returns the price in micro-dollars of a machine held for a time: every
// started billing period is paid in full, at least one. A period of 0 bills by
// the nanosecond. Fractions of a micro-dollar are rounded up once, on the whole.
func Bill(microDollarsPerHour int64, held, period time.Duration) int64 {
	paid := held
	if period > 0 {
		paid = max(1, (held+period-1)/period) * period
	}
	// Hours and the rest apart, so that the product stays within 64 bits for any
	// price up to 2.5 million dollars an hour.
	hours, rest := int64(paid/time.Hour), int64(paid%time.Hour)
	return microDollarsPerHour*hours + ceilDiv(microDollarsPerHour*(rest/1000), int64(time.Hour)/1000)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
