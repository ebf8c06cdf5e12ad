package doublethreshold

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/sentences"
)

func TestEachReasonIsGivenWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	say := func(window ...float64) string {
		return strings.Join(evaluate(Default(), 10, window...).Reasons, "; ")
	}
	few, rapidOut, out, rapidIn, in := say(90, 95), say(55, 77, 115.5), say(55, 58, 60), say(48, 32, 20), say(40, 38, 36)
	exactly, zero, fromZero := say(30, 40, 50), say(0, 0, 0), say(0, 60, 70)
	sentences.Check(t, []string{"doublethreshold.go"}, []sentences.Case{
		{"%d of %d samples", few, out},
		{"normal scale-in: utilisation %.4g %%, %s", zero, rapidIn},
		{"rapid scale-out", rapidOut, out},
		{"normal scale-out", out, rapidOut},
		{"rapid scale-in", rapidIn, in},
		{"normal scale-in", in, rapidIn},
		{"no rule applies", exactly, in},
		{"growth from a utilisation of 0 is undefined", fromZero, exactly},
		{"%s: utilisation %.4g %%, mean growth %+.3g", in, few},
	}, nil)
}
