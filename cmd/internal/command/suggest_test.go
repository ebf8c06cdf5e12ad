package command

import "testing"

func TestWordsAreAsFarApartAsWhatWasMistyped(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"pod", "pod", 0}, {"", "pod", 3}, {"pod", "", 3}, {"polcy", "policy", 1}, {"ouptut", "output", 1}, {"simulte", "simulate", 1}, {"plan", "explain", 3},
	} {
		if got := distance(tc.a, tc.b); got != tc.want {
			t.Errorf("%q and %q are %d apart, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
