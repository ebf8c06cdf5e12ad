package table

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestDecimalAgreesWithRationals compares with big.Rat, which shares no code.
func TestDecimalAgreesWithRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9]{1,20}(\.[0-9]{1,18})?`).Draw(t, "text")
		unit := rapid.SampledFrom([]int64{1, 1000, 1_000_000, 1_000_000_000, BytesPerMiB, 1 << 30}).Draw(t, "unit")
		r := rapid.SampledFrom([]Rounding{Exact, RoundDown, RoundUp}).Draw(t, "rounding")
		want, _ := new(big.Rat).SetString(text)
		want.Mul(want, new(big.Rat).SetInt64(unit))
		whole, rest := new(big.Int).QuoRem(want.Num(), want.Denom(), new(big.Int))
		if r == RoundUp && rest.Sign() > 0 {
			whole.Add(whole, big.NewInt(1))
		}
		refuse := !whole.IsInt64() || r == Exact && rest.Sign() > 0
		got, err := Decimal(text, unit, r)
		switch {
		case refuse != (err != nil):
			t.Fatalf("decimal(%q, %d, %d) = %d, %v, want refusal %v", text, unit, r, got, err, refuse)
		case err == nil && got != whole.Int64():
			t.Fatalf("decimal(%q, %d, %d) = %d, want %s", text, unit, r, got, whole)
		}
	})
}
