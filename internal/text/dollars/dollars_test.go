package dollars

import (
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPricesAreReadInMicroDollarsRoundedUp(t *testing.T) {
	tests := []struct {
		text string
		want int64
	}{
		{"0", 0},
		{"0.0", 0},
		{"0.192", 192_000},
		{"1", 1_000_000},
		{"007", 7_000_000},
		{"12.5", 12_500_000},
		{"0.000001", 1},
		{"0.0000001", 1},      // a fraction of a micro-dollar is rounded up
		{"0.000000000001", 1}, // the smallest value
		{"0.0271474836", 27_148},
		{"0.999999000001", 1_000_000},
		{"1000000", 1_000_000_000_000},
		{"1000000.000000", 1_000_000_000_000},
	}
	for _, tc := range tests {
		if got, err := Parse(tc.text); err != nil || got != tc.want {
			t.Errorf("Parse(%q) = %d, %v; want %d", tc.text, got, err, tc.want)
		}
	}
}

func TestWhatIsNoPriceIsRefused(t *testing.T) {
	for _, text := range []string{
		"", " ", ".", "1.", ".5", "-1", "+1", "1e3", "0x10", "1,5", "1.2.3", " 1", "1 ", "$1", "NaN", "Inf", "１",
		"0.1234567890123", "10000000", "1000000.000001", "1000000.0000000001", "9999999999999999999999",
	} {
		got, err := Parse(text)
		if err == nil {
			t.Errorf("Parse(%q) = %d, want an error", text, got)
		} else if !strings.Contains(err.Error(), `"`+text+`" is not a price: `) {
			t.Errorf("Parse(%q): %v, which does not say what was read", text, err)
		}
	}
}

func TestPricesAreWrittenWithTwoDecimalsAtLeast(t *testing.T) {
	tests := []struct {
		micros int64
		want   string
	}{
		{0, "0.00"},
		{1, "0.000001"},
		{10, "0.00001"},
		{100, "0.0001"},
		{1_000, "0.001"},
		{10_000, "0.01"},
		{100_000, "0.10"},
		{1_000_000, "1.00"},
		{192_000, "0.192"},
		{1_020_300, "1.0203"},
		{1_000_000_000_000, "1000000.00"},
		{-1_500_000, "-1.50"},
		{-1, "-0.000001"},
	}
	for _, tc := range tests {
		if got := Format(tc.micros); got != tc.want {
			t.Errorf("Format(%d) = %q, want %q", tc.micros, got, tc.want)
		}
	}
}

func TestAPriceThatIsWrittenIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.Int64Range(0, 1_000_000_000_000).Draw(t, "micros")
		if got, err := Parse(Format(micros)); err != nil || got != micros {
			t.Fatalf("%d is written as %q and read as %d, %v", micros, Format(micros), got, err)
		}
	})
}

// FuzzParse compares with big rational numbers.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"0", "0.192", "1000000", "1000000.000001", "1.", ".5", "-1", "1e3", "0.000000000001", "９"} {
		f.Add(text)
	}
	price := regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,12})?$`)
	most := big.NewRat(1_000_000_000_000, 1)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if !price.MatchString(text) {
			if err == nil {
				t.Fatalf("%q is taken for %d", text, got)
			}
			return
		}
		exact, _ := new(big.Rat).SetString(text)
		exact.Mul(exact, big.NewRat(1_000_000, 1))
		if exact.Cmp(most) > 0 {
			if err == nil {
				t.Fatalf("%q is above the most and is taken for %d", text, got)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		above := new(big.Rat).Sub(new(big.Rat).SetInt64(got), exact)
		if above.Sign() < 0 || above.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Fatalf("%q is read as %d", text, got)
		}
	})
}
