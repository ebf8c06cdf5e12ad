package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"supercargo.dev/supercargo/internal/text/clip"
)

// Bound is the meaning of an [Amount].
type Bound int

const (
	// Unstated is an amount that was not stated.
	Unstated Bound = iota
	// Exact is a declared amount: "4".
	Exact
	// SoFar is the greatest amount measured so far: "~4".
	SoFar
	// Exceeded is an amount that has been exceeded: ">4".
	Exceeded
)

// Amount is an amount of a resource: cores and GPUs in units, memory and disk in MB of 2^20 bytes, as in cctools. The
// zero value is an amount that was not stated.
type Amount struct {
	Value float64
	Bound Bound
}

// String formats the amount as cctools does.
func (a Amount) String() string {
	switch a.Bound {
	case SoFar:
		return "~" + strconv.FormatFloat(a.Value, 'g', -1, 64)
	case Exceeded:
		return ">" + strconv.FormatFloat(a.Value, 'g', -1, 64)
	case Exact:
		return strconv.FormatFloat(a.Value, 'g', -1, 64)
	}
	return "na"
}

// ParseAmount parses an amount in the format of cctools: "4", "1.000", "~4", ">4" or "na". -1 means not stated.
func ParseAmount(text string) (Amount, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "na" || text == "n/a" {
		return Amount{}, nil
	}
	a := Amount{Bound: Exact}
	digits := text
	switch text[0] {
	case '~':
		a.Bound, digits = SoFar, text[1:]
	case '>':
		a.Bound, digits = Exceeded, text[1:]
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	switch {
	case err != nil || math.IsNaN(value) || value > maxAmount:
		return Amount{}, fmt.Errorf("%q is not an amount, must be such as 4, ~4, >4 or na", clip.Cell(text))
	case value == -1 && a.Bound == Exact:
		return Amount{}, nil
	case value < 0:
		return Amount{}, fmt.Errorf("%q is negative, must be 0 or more, or -1 for none", clip.Cell(text))
	}
	a.Value = value
	return a, nil
}

// maxAmount is the largest accepted amount: more than any machine has, and whole numbers up to it are exact.
const maxAmount = 1 << 50

// UnmarshalJSON reads a number or text; null means not stated.
func (a *Amount) UnmarshalJSON(data []byte) (err error) {
	*a, err = ParseAmount(scalar(data))
	return err
}

// count is a whole number of 0 or more, written as a number or as text.
type count int64

// UnmarshalJSON reads a number or text.
func (c *count) UnmarshalJSON(data []byte) error {
	text := scalar(data)
	if text == "null" || text == "" {
		return nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0 && value <= maxCount) {
		return fmt.Errorf("%q is not a count, must be a number from 0 to %d", clip.Cell(text), int64(maxCount))
	}
	*c = count(value)
	return nil
}

// maxCount bounds counts and times: as microseconds it is far in the future, and numbers up to it are exact in a
// float64.
const maxCount = 1 << 53

// scalar returns the text of a JSON string, or any other value verbatim.
func scalar(data []byte) string {
	data = bytes.TrimSpace(data)
	if text, plain := plainText(data); plain {
		return text
	}
	var text string
	if len(data) > 0 && data[0] == '"' && json.Unmarshal(data, &text) == nil {
		return text
	}
	if string(data) == "null" {
		return ""
	}
	return string(data)
}

// plainText returns the text of a JSON string, if it has no escapes.
func plainText(data []byte) (text string, plain bool) {
	n := len(data)
	if n < 2 || data[0] != '"' || data[n-1] != '"' || bytes.IndexByte(data, '\\') >= 0 || !utf8.Valid(data) {
		return "", false
	}
	return string(data[1 : n-1]), true
}
