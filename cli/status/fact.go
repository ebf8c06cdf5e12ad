package status

import (
	"fmt"
	"strconv"
	"strings"
)

// Fact is a figure of an object, with its name.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// facts returns the facts that have a value, from names that each precede their value.
func facts(pairs ...string) []Fact {
	all := make([]Fact, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all = append(all, Fact{pairs[i], pairs[i+1]})
		}
	}
	return all
}

// Unreported returns what is said of an object whose controller has not written its status, as a sentence; empty if it has.
// The figures of such a status are zeros, which mean nothing.
func Unreported(observedGeneration int64, controller string) string {
	if observedGeneration > 0 {
		return ""
	}
	return "The " + controller + " has not reported on it yet."
}

// positive returns a number; empty if it is 0.
func positive(n int32) string {
	if n == 0 {
		return ""
	}
	return grouped(int(n))
}

// prefixed returns a text with what stands before it; empty if the text is.
func prefixed(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + text + after
}

// cores returns CPU in cores, to two decimals.
func cores(milliCPU int64) string {
	text := strconv.FormatFloat(float64(milliCPU)/1000, 'f', 2, 64)
	whole, part, _ := strings.Cut(text, ".")
	n, _ := strconv.Atoi(whole)
	return strings.TrimSuffix(grouped(n)+"."+strings.TrimRight(part, "0"), ".")
}

// byteUnits are the units of bytes, each 1024 times the one before.
var byteUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// byteCount returns a number of bytes in the largest unit of which there is one, to one decimal below ten.
func byteCount(n int64) string {
	v, unit := float64(n), 0
	for v >= 1024 && unit < len(byteUnits)-1 {
		v, unit = v/1024, unit+1
	}
	if v >= 10 {
		return fmt.Sprintf("%s %s", grouped(int(v+0.5)), byteUnits[unit])
	}
	return strings.Replace(fmt.Sprintf("%.1f %s", v, byteUnits[unit]), ".0 ", " ", 1)
}
