// Package dollars parses and formats prices: dollars per hour in text, micro-dollars per hour in numbers.
package dollars

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// mostDollars is the maximum price per hour.
const mostDollars = 1_000_000

// Parse parses dollars per hour, such as 0.192, and returns micro-dollars per hour, rounded up. It accepts 0 to
// 1,000,000 dollars with up to twelve decimals and no exponent.
func Parse(text string) (int64, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	if !digits(whole, 1, 7) || !digits(fraction, 0, 12) || strings.HasSuffix(text, ".") {
		return 0, fmt.Errorf("%q is not a price: must be dollars per hour from 0 to %d, such as 0.192", text, mostDollars)
	}
	const decimals = 12
	dollars, _ := strconv.ParseInt(whole, 10, 64) // at most seven digits
	rest, _ := strconv.ParseInt(fraction+strings.Repeat("0", decimals-len(fraction)), 10, 64)
	micros := dollars*1_000_000 + (rest+999_999)/1_000_000
	if micros > mostDollars*1_000_000 {
		return 0, fmt.Errorf("%q is not a price: must be at most %d dollars per hour", text, mostDollars)
	}
	return micros, nil
}

func digits(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && strings.Trim(s, "0123456789") == ""
}

// Format formats micro-dollars per hour as dollars for Parse, with at least two decimals.
func Format(microDollars int64) string {
	sign := ""
	if microDollars < 0 {
		sign, microDollars = "-", -microDollars
	}
	text := fmt.Sprintf("%s%d.%06d", sign, microDollars/1_000_000, microDollars%1_000_000)
	for i := 0; i < 4 && strings.HasSuffix(text, "0"); i++ {
		text = text[:len(text)-1]
	}
	return text
}

// Of converts micro-dollars to dollars for display. Sums should be calculated in micro-dollars.
func Of(microDollars int64) float64 { return float64(microDollars) / 1e6 }

// Amount is an amount in micro-dollars. JSON has it in dollars.
type Amount int64

// Dollars returns the amount in dollars, for display.
func (a Amount) Dollars() float64 { return Of(int64(a)) }

// MarshalJSON implements [json.Marshaler].
func (a Amount) MarshalJSON() ([]byte, error) { return json.Marshal(a.Dollars()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Amount) UnmarshalJSON(text []byte) error {
	var amount float64
	err := json.Unmarshal(text, &amount)
	*a = Amount(math.Round(amount * 1e6))
	return err
}
