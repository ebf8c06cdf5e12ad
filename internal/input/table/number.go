package table

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Rounding says what becomes of the part of a number that its unit cannot hold.
type Rounding int

// What becomes of such a part.
const (
	Exact     Rounding = iota // refuse it
	RoundDown                 // drop it: a machine never promises more than it has
	RoundUp                   // count it as one more: a pod never gets less than it asked for
)

// maxDigits bounds how long a number may be written.
const maxDigits = 40

// What [Decimal] finds wrong with a number, beside one that its unit cannot hold.
var (
	ErrNotNumber = errors.New("is not a plain decimal number such as 12 or 0.5")
	ErrNegative  = errors.New("is negative, want zero or more")
	ErrTooLarge  = errors.New("is too large")
)

// Decimal reads text as a plain non-negative decimal number, multiplies it by
// unit and returns the product as an int64. Signs other than a leading minus,
// exponents, NaN and Inf are refused. Whole numbers up to 15 digits cost no
// allocation.
func Decimal(text string, unit int64, r Rounding) (int64, error) {
	if value, ok := shortInteger(text); ok && value <= maxInt64/unit {
		return value * unit, nil
	}
	digits, decimals, err := splitDecimal(text)
	if err != nil {
		return 0, err
	}
	value, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return 0, ErrNotNumber
	}
	value.Mul(value, big.NewInt(unit))
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)
	rest := new(big.Int)
	value.QuoRem(value, ten, rest)
	if rest.Sign() != 0 {
		switch r {
		case Exact:
			return 0, tooFine(unit)
		case RoundUp:
			value.Add(value, big.NewInt(1))
		}
	}
	if !value.IsInt64() {
		return 0, ErrTooLarge
	}
	return value.Int64(), nil
}

const maxInt64 = 1<<63 - 1

// tooFine says which step a number must be a multiple of.
func tooFine(unit int64) error {
	if unit == 1 {
		return errors.New("is no whole number, want one")
	}
	return fmt.Errorf("is finer than 1/%d, want a multiple of that", unit)
}

// shortInteger reads up to 15 digits without allocating.
func shortInteger(text string) (int64, bool) {
	if len(text) == 0 || len(text) > 15 {
		return 0, false
	}
	var value int64
	for i := range len(text) {
		if !isDigit(text[i]) {
			return 0, false
		}
		value = value*10 + int64(text[i]-'0')
	}
	return value, true
}

// splitDecimal returns the digits of text without its point, and how many of
// them stood behind the point.
func splitDecimal(text string) (digits string, decimals int, err error) {
	body, negative := strings.CutPrefix(text, "-")
	if len(body) > maxDigits {
		return "", 0, fmt.Errorf("has more than %d characters", maxDigits)
	}
	whole, fraction, hasPoint := strings.Cut(body, ".")
	if whole == "" || hasPoint && fraction == "" || !allDigits(whole) || !allDigits(fraction) {
		return "", 0, ErrNotNumber
	}
	if negative {
		return "", 0, ErrNegative
	}
	return whole + fraction, len(fraction), nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
