package lp

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/test/draw"
)

// leastSurplus tries every division of whole items among the domains, and returns by how much the cheapest exceeds the
// least worth of all items; +Inf if there is none.
func leastSurplus(s *Transport, kind int, room []float64) float64 {
	if kind == len(s.Items) {
		return 0
	}
	var place func(left, domain int) float64
	place = func(left, domain int) float64 {
		if left == 0 {
			return leastSurplus(s, kind+1, room)
		}
		if domain == len(room) {
			return math.Inf(1)
		}
		best := place(left, domain+1)
		if room[domain] >= 1 && s.Worth[kind][domain] != NotThere {
			room[domain]--
			best = min(best, float64(s.Worth[kind][domain]-s.Least[kind])+place(left-1, domain))
			room[domain]++
		}
		return best
	}
	return place(int(s.Items[kind]), 0)
}

// TestTheSurplusIsThatOfTheCheapestDivision compares with all divisions of few items. The bound is reached if each item
// can be in every domain.
func TestTheSurplusIsThatOfTheCheapestDivision(t *testing.T) {
	above := 0
	property := func(t *rapid.T) {
		s, least := &Transport{}, uint64(rapid.IntRange(0, 1).Draw(t, "least"))
		for range rapid.IntRange(1, 3).Draw(t, "domains") {
			s.Most = append(s.Most, float64(rapid.IntRange(1, 3).Draw(t, "most")))
		}
		if rapid.Bool().Draw(t, "any number in the first") {
			s.Most[0] = math.Inf(1)
		}
		for range rapid.IntRange(1, 3).Draw(t, "kinds") {
			worth, cheapest := make([]uint64, len(s.Most)), uint64(math.MaxUint64)
			for d := range worth {
				if worth[d] = rapid.Uint64Range(least, 9).Draw(t, "worth") * 1_000_000; worth[d] != NotThere {
					cheapest = min(cheapest, worth[d])
				}
			}
			if cheapest == math.MaxUint64 {
				worth[0], cheapest = 1_000_000, 1_000_000
			}
			s.Items, s.Least, s.Worth = append(s.Items, float64(rapid.IntRange(1, 3).Draw(t, "items"))), append(s.Least, cheapest), append(s.Worth, worth)
		}
		want := leastSurplus(s, 0, append([]float64(nil), s.Most...))
		got := float64(s.Surplus())
		if got > want {
			t.Fatalf("surplus %v, but a division has %v", got, want)
		}
		if least > NotThere && !math.IsInf(want, 1) && got < want-1 {
			t.Fatalf("surplus %v, want %v", got, want)
		}
		if got > 0 {
			above++
		}
	}
	draw.Fixed(t, 100, property)
	if above == 0 {
		t.Error("no division costs more than the least worth")
	}
	rapid.Check(t, property)
}
