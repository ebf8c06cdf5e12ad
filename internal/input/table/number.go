package table

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Rounding is how to handle the part of a number that is finer than its unit.
type Rounding int

// Rounding modes.
const (
	Exact     Rounding = iota // reject it
	RoundDown                 // drop it: a machine must not promise more than it has
	RoundUp                   // round up: a pod must not get less than it requests
)

// maxDigits bounds the length of a number.
const maxDigits = 40

// Errors of [Decimal], besides that for a number that is too fine.
var (
	ErrNotNumber = errors.New("is not a plain decimal number such as 12 or 0.5")
	ErrNegative  = errors.New("must be 0 or more")
	ErrTooLarge  = errors.New("is too large")
)

// Decimal parses text as a plain non-negative decimal number, multiplies it by unit and returns the product as an
// int64. It rejects signs, exponents, NaN and Inf. Integers of up to 15 digits do not allocate.
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

// tooFine returns the error for a number that is not a multiple of 1/unit.
func tooFine(unit int64) error {
	if unit == 1 {
		return errors.New("must be a whole number")
	}
	return fmt.Errorf("must be a multiple of 1/%d", unit)
}

// shortInteger parses up to 15 digits without allocating.
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

// splitDecimal returns the digits of text without its point, and the number of decimals.
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
