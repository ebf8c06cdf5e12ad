package outcome

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"supercargo.dev/supercargo/internal/text/plural"
)

// absent stands for a figure that does not exist, such as a percentage of zero.
const absent = "-"

// fixed formats v with the given number of decimals, half to even, and with commas between
// thousands from 10,000 up. It never returns negative zero. Numbers of 1e15 and more have an
// exponent.
func fixed(v float64, digits int) string {
	if math.Abs(v) >= 1e15 {
		return strconv.FormatFloat(v, 'e', 2, 64)
	}
	text := strconv.FormatFloat(math.Abs(v), 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	if len(whole) > 4 {
		for at := len(whole) - 3; at > 0; at -= 3 {
			whole = whole[:at] + "," + whole[at:]
		}
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if v < 0 && strings.ContainsAny(text, "123456789") {
		return "-" + whole
	}
	return whole
}

// capital capitalizes a text that begins with an ASCII letter.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// count formats a whole number.
func count[N int | int64](n N) string { return fixed(float64(n), 0) }

// counted formats a whole number with its noun, given in the singular.
func counted(n int, noun string) string { return count(n) + " " + plural.Noun(n, noun) }

// dollars formats an amount with cents, or with more decimals if the largest amount next to it is
// below one dollar.
func dollars(v, largest float64) string { return "$" + fixed(v, max(2, digitsFor(largest))) }

// digitsFor returns the number of decimals so that numbers up to largest show three significant
// figures: 2 for 9.87, 0 for 987, at most 9.
func digitsFor(largest float64) int {
	if largest < 1e-7 {
		if largest == 0 {
			return 0
		}
		return 9
	}
	return min(9, max(0, 2-int(math.Floor(math.Log10(largest)))))
}

// unit is a unit of time.
type unit struct {
	symbol, name string
	seconds      float64
	// upTo is the longest time, in seconds, for which this unit is preferred.
	upTo float64
	// steps are the usual distances between ticks, in this unit and ascending.
	steps []float64
}

var units = []unit{
	{"s", "seconds", 1, 5 * 60, []float64{1, 2, 5, 10, 15, 30, 60}},
	{"min", "minutes", 60, 2 * 3600, []float64{0.5, 1, 2, 5, 10, 15, 20, 30, 60}},
	{"h", "hours", 3600, 4 * 86400, []float64{0.5, 1, 2, 3, 4, 6, 12, 24}},
	{"d", "days", 86400, math.Inf(1), []float64{0.5, 1, 2, 3, 7, 14, 28}},
}

// unitFor returns the unit that is easiest to read for times up to largest.
func unitFor(largest float64) unit {
	for _, u := range units {
		if largest <= u.upTo {
			return u
		}
	}
	return units[len(units)-1]
}

// duration formats a time in its two largest units: "1 d 4 h", "2 min 5 s", "0.25 s".
func duration(seconds float64) string {
	if seconds < 60 {
		return fixed(seconds, min(2, digitsFor(seconds))) + " s"
	}
	for i := len(units) - 1; ; i-- {
		large, small := units[i], units[max(i-1, 0)]
		if seconds < large.seconds {
			continue
		}
		rest := math.Round(math.Mod(seconds, large.seconds) / small.seconds)
		whole := math.Floor(seconds / large.seconds)
		if rest*small.seconds >= large.seconds { // 59.7 min round up to an hour
			whole, rest = whole+1, 0
		}
		if rest == 0 {
			return fixed(whole, 0) + " " + large.symbol
		}
		return fmt.Sprintf("%s %s %.0f %s", fixed(whole, 0), large.symbol, rest, small.symbol)
	}
}

// shown makes untrusted text safe to display. Characters that do not print, such as tabs, escape
// sequences and direction marks, become Go escapes, so that a name can neither write to a terminal
// nor shift the cells of a table. It does not escape HTML; the template does.
func shown(name string) string {
	if name == "" {
		return "(no name)"
	}
	var b strings.Builder
	for len(name) > 0 {
		r, size := utf8.DecodeRuneInString(name)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, name[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		name = name[size:]
	}
	return b.String()
}

// shortened is shown, cut to at most the given number of runes.
func shortened(name string, runes int) string {
	name = shown(name)
	if utf8.RuneCountInString(name) <= runes {
		return name
	}
	return string([]rune(name)[:runes-1]) + "…"
}
