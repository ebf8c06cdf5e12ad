package table

import (
	"fmt"
	"math/big"
	"strings"
)

// AppendDecimal writes value/unit exactly. unit must be a product of twos and
// fives, so that the decimals end.
func AppendDecimal(dst []byte, value, unit int64) []byte {
	dst = fmt.Appendf(dst, "%d", value/unit)
	rest := value % unit
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	tail, base, ten := big.NewInt(rest), big.NewInt(unit), big.NewInt(10)
	for tail.Sign() != 0 {
		digit := new(big.Int)
		digit.QuoRem(tail.Mul(tail, ten), base, tail)
		dst = append(dst, '0'+byte(digit.Int64()))
	}
	return dst
}

// AppendCells writes texts, each after a comma and quoted where it must be.
func AppendCells(dst []byte, texts ...string) []byte {
	for _, text := range texts {
		dst = append(dst, ',')
		if !strings.ContainsAny(text, ",\"") {
			dst = append(dst, text...)
			continue
		}
		dst = append(dst, '"')
		dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
		dst = append(dst, '"')
	}
	return dst
}
