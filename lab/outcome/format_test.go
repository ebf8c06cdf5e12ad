package outcome

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNumbersAreWrittenForReaders(t *testing.T) {
	tests := []struct {
		v      float64
		digits int
		want   string
	}{
		{0, 0, "0"}, {0, 2, "0.00"}, {1.005, 1, "1.0"}, {9999, 0, "9999"}, {9999.6, 0, "10,000"},
		{12345.678, 2, "12,345.68"}, {1234567, 0, "1,234,567"}, {-1234567.5, 1, "-1,234,567.5"},
		{-0.04, 1, "0.0"}, {-0.06, 1, "-0.1"}, {999999999999999, 0, "999,999,999,999,999"}, {1e15, 2, "1.00e+15"}, {-1e18, 0, "-1.00e+18"},
	}
	for _, tc := range tests {
		if got := fixed(tc.v, tc.digits); got != tc.want {
			t.Errorf("fixed(%v, %d) = %q, want %q", tc.v, tc.digits, got, tc.want)
		}
	}
}

func TestThreeFiguresOfTheLargestNumberAreShown(t *testing.T) {
	for largest, want := range map[float64]int{0: 0, 1e-300: 9, 0.00123: 5, 0.0999: 4, 0.1: 3, 1: 2, 9.99: 2, 10: 1, 99: 1, 100: 0, 1e18: 0} {
		if got := digitsFor(largest); got != want {
			t.Errorf("digitsFor(%v) = %d, want %d", largest, got, want)
		}
	}
}

func TestMoneyHasCentsAndMoreIfAllIsLessThanADollar(t *testing.T) {
	for _, tc := range []struct {
		v, largest float64
		want       string
	}{{3, 200, "$3.00"}, {0, 0, "$0.00"}, {0.0123, 0.0456, "$0.0123"}, {12345.6, 12345.6, "$12,345.60"}} {
		if got := dollars(tc.v, tc.largest); got != tc.want {
			t.Errorf("dollars(%v, %v) = %q, want %q", tc.v, tc.largest, got, tc.want)
		}
	}
}

func TestTimesAreWrittenInTheirTwoLargestUnits(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0 s", 0.25: "0.25 s", 42: "42.0 s", 60: "1 min", 125: "2 min 5 s", 3600: "1 h", 3599.8: "60 min",
		5400: "1 h 30 min", 86400: "1 d", 129600: "1 d 12 h", 86400 + 86399: "2 d", 1e9: "11,574 d 2 h",
	} {
		if got := duration(seconds); got != want {
			t.Errorf("duration(%v) = %q, want %q", seconds, got, want)
		}
	}
}

func TestOneIsSingular(t *testing.T) {
	for n, want := range map[int]string{0: "0 policies", 1: "1 policy", 2: "2 policies", 12000: "12,000 policies"} {
		if got := counted(n, "policy"); got != want {
			t.Errorf("counted(%d, policy) = %q, want %q", n, got, want)
		}
	}
	if got := counted(3, "pod"); got != "3 pods" {
		t.Errorf("counted(3, pod) = %q", got)
	}
}

func TestNamesCannotPaintOnATerminal(t *testing.T) {
	for name, want := range map[string]string{
		"packing":               "packing",
		"größte Mühe, 装箱":       "größte Mühe, 装箱",
		"":                      "(no name)",
		"\x1b[31mred\x1b[0m":    `\x1b[31mred\x1b[0m`,
		"a\tb\nc\r":             `a\tb\nc\r`,
		"\u202ereversed\u2066":  `\u202ereversed\u2066`,
		"half a rune \xe8\xa3!": `half a rune \xe8\xa3!`,
		"nul\x00":               `nul\x00`,
		"a quote ' and \"":      "a quote ' and \"",
		"\ufffd is a rune":      "\ufffd is a rune",
		"no-break\u00a0space":   `no-break\u00a0space`,
	} {
		if got := shown(name); got != want {
			t.Errorf("shown(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzShownPrints(f *testing.F) {
	f.Add("plain", 8)
	f.Add("\x1b[2J\u202e\xff\x00", 3)
	f.Fuzz(func(t *testing.T, name string, runes int) {
		text := shown(name)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || text == "" {
			t.Errorf("shown(%q) = %q, which does not print", name, text)
		}
		if runes < 1 {
			return
		}
		if short := shortened(name, runes); utf8.RuneCountInString(short) > runes {
			t.Errorf("shortened(%q, %d) = %q, which is longer", name, runes, short)
		}
	})
}
