package table

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"supercargo.dev/supercargo/internal/text/clip"
)

// Bounds of single numbers, large enough for any machine and small enough for sums over a file.
const (
	MaxMilliCPU    = 1_000_000_000
	MaxMemoryBytes = 1 << 50
	// BytesPerMiB is the unit of memory in mebibytes.
	BytesPerMiB  = 1 << 20
	maxArchBytes = 16
)

// Cores reads a number of cores, or of milli-CPU with the suffix m.
func (t *Table) Cores(column string) int64 {
	text, milli := strings.CutSuffix(t.Cell(column), "m")
	if !milli {
		return t.AtMost(column, t.Positive(column, 1000, Exact), MaxMilliCPU)
	}
	value, err := Decimal(text, 1, Exact)
	if err == nil && value == 0 {
		err = errZero
	}
	if err != nil {
		t.BadCell(column, err)
	}
	return t.AtMost(column, value, MaxMilliCPU)
}

var errZero = errors.New("must be more than 0")

// Positive is [Table.Number], but zero is a fault.
func (t *Table) Positive(column string, unit int64, r Rounding) int64 {
	faults := t.Faults()
	value := t.Number(column, unit, r)
	if value == 0 && t.Faults() == faults {
		t.BadCell(column, errZero)
	}
	return value
}

// Float reads a cell as a number for which valid returns true, and otherwise records a fault with want. The number may
// have an exponent; NaN is never valid. It is not exact, so it is only for estimates.
func (t *Table) Float(column string, valid func(float64) bool, want string) float64 {
	x, err := strconv.ParseFloat(t.Cell(column), 64)
	if err != nil || math.IsNaN(x) || !valid(x) {
		t.Wrong(column, want)
		return 0
	}
	return x
}

// Wrong records a fault of a cell of the current row with its content and what it should contain.
func (t *Table) Wrong(column, want string) {
	t.Fault(t.line, column, fmt.Sprintf("%q: must be %s", clip.Cell(t.Cell(column)), want))
}

// AtMost records a fault for a value above most, and returns 0 for it.
func (t *Table) AtMost(column string, value, most int64) int64 {
	if value > most {
		t.BadCell(column, ErrTooLarge)
		return 0
	}
	return value
}

// CheckArch records a fault if the text cannot be an architecture.
func (t *Table) CheckArch(arch string) {
	ok := len(arch) <= maxArchBytes
	for i := range len(arch) {
		ok = ok && isNameByte(arch[i])
	}
	if !ok {
		t.BadCell("arch", errors.New("is not an architecture: must be a name such as amd64 or arm64"))
	}
}

// isNameByte reports whether c is a lower-case letter or digit.
func isNameByte(c byte) bool { return 'a' <= c && c <= 'z' || isDigit(c) }

// Printable reports whether s has at most most bytes and no control characters.
func Printable(s string, most int) bool {
	for _, c := range s {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return len(s) <= most
}
