package queueing

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// exactResponse is W by the textbook's sums (equations 2 to 4 of the paper) in exact fractions, independent of the
// package.
func exactResponse(n int, lambda, mu float64) *big.Rat {
	l, m := new(big.Rat).SetFloat64(lambda), new(big.Rat).SetFloat64(mu)
	load := new(big.Rat).Quo(l, m)
	term, sum := big.NewRat(1, 1), new(big.Rat) // load^k/k!
	for k := range n {
		sum.Add(sum, term)
		term = new(big.Rat).Mul(term, new(big.Rat).Quo(load, big.NewRat(int64(k+1), 1)))
	}
	capacity := new(big.Rat).Mul(m, big.NewRat(int64(n), 1))
	rho := new(big.Rat).Quo(l, capacity)
	idle := new(big.Rat).Sub(big.NewRat(1, 1), rho)
	sum.Add(sum, new(big.Rat).Quo(term, idle))
	p0 := new(big.Rat).Inv(sum)
	waiting := new(big.Rat).Mul(term, rho)
	waiting.Quo(waiting, new(big.Rat).Mul(idle, idle))
	waiting.Mul(waiting, p0)
	requests := waiting.Add(waiting, load)
	return requests.Quo(requests, l)
}

func TestResponseIsExactToNineDigits(t *testing.T) {
	worst := 0.0
	for _, n := range []int{1, 2, 3, 5, 8, 17, 40, 81, 140, 200} {
		for _, rho := range []float64{1e-6, 0.01, 0.3, 0.7, 0.9, 0.97, 0.999, 0.999999} {
			for _, mu := range []float64{0.37, 1582.3} {
				lambda := rho * float64(n) * mu
				want, _ := exactResponse(n, lambda, mu).Float64()
				got := System{n, lambda, mu}.Response()
				relative := math.Abs(got-want) / want
				worst = max(worst, relative)
				if !(relative <= 1e-9) {
					t.Errorf("W(%d, %v, %v) = %v, want %v", n, lambda, mu, got, want)
				}
			}
		}
	}
	t.Logf("worst relative error %.2g", worst)
}

// TestRandomQueuesAreExact draws queues. It has few cases, because fractions of hundreds of digits are slow.
func TestRandomQueuesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		mu := rapid.Float64Range(1e-3, 1e4).Draw(t, "mu")
		lambda := rapid.Float64Range(1e-6, 1-1e-7).Draw(t, "rho") * float64(n) * mu
		want, _ := exactResponse(n, lambda, mu).Float64()
		if got := (System{n, lambda, mu}).Response(); !(math.Abs(got-want) <= 1e-9*want) {
			t.Fatalf("W(%d, %v, %v) = %v, want %v", n, lambda, mu, got, want)
		}
	})
}

func TestKnownQueues(t *testing.T) {
	inf := math.Inf(1)
	for _, tc := range []struct {
		name      string
		s         System
		w, l, c   float64
		stable    bool
		tolerance float64
	}{
		{"one server, half busy: 1/(mu-lambda)", System{1, 5, 10}, 0.2, 1, 0.5, true, 1e-15},
		{"two servers at 3/4: C = 9/14", System{2, 1.5, 1}, 1 + 9.0/14/0.5, 1.5 * (1 + 9.0/7), 9.0 / 14, true, 1e-15},
		{"nobody asks", System{3, 0, 4}, 0.25, 0, 0, true, 0},
		{"exactly saturated", System{2, 20, 10}, inf, inf, 1, false, 0},
		{"over-filled", System{2, 21, 10}, inf, inf, 1, false, 0},
		{"service in no time", System{1, 21, inf}, 0, 0, 0, true, 0},
		{"no servers", System{0, 1, 1}, math.NaN(), math.NaN(), math.NaN(), false, 0},
		{"negative rate", System{1, -1, 1}, math.NaN(), math.NaN(), math.NaN(), false, 0},
		{"rate that is no number", System{1, math.NaN(), 1}, math.NaN(), math.NaN(), math.NaN(), false, 0},
		{"no service", System{1, 1, 0}, math.NaN(), math.NaN(), math.NaN(), false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, part := range []struct {
				name      string
				got, want float64
			}{{"W", tc.s.Response(), tc.w}, {"Ls", tc.s.Requests(), tc.l}, {"C", tc.s.Waits(), tc.c}} {
				same := part.got == part.want || math.IsNaN(part.want) && math.IsNaN(part.got) ||
					math.Abs(part.got-part.want) <= tc.tolerance*math.Abs(part.want)*4
				if !same {
					t.Errorf("%s = %v, want %v", part.name, part.got, part.want)
				}
			}
			if tc.s.Stable() != tc.stable {
				t.Errorf("stable is %v, want %v", tc.s.Stable(), tc.stable)
			}
		})
	}
}

func TestHugeQueuesStayFinite(t *testing.T) {
	for _, n := range []int{171, 1000, 100_000} {
		for _, rho := range []float64{1e-9, 0.5, 0.99, 0.999999} {
			s := System{n, rho * float64(n) * 10, 10}
			w, c := s.Response(), s.Waits()
			if !(w >= 0.1 && w < 1e3) || !(c >= 0 && c <= 1) {
				t.Errorf("n=%d rho=%v: W = %v and C = %v, want 0.1 or more and a probability", n, rho, w, c)
			}
		}
	}
	// Halfin and Whitt's limit: with sqrt(N) spare servers for each standard deviation beta = 1, C converges to
	// 1/(1+beta·Phi(beta)/phi(beta)).
	phi, Phi := math.Exp(-0.5)/math.Sqrt(2*math.Pi), 0.5*math.Erfc(-1/math.Sqrt2)
	n := 100_000.0
	got := System{int(n), n - math.Sqrt(n), 1}.Waits()
	if want := 1 / (1 + Phi/phi); math.Abs(got-want) > 2e-3*want {
		t.Errorf("C of 100,000 servers = %v, want nearly %v", got, want)
	}
}

func TestResponseFallsWithServersAndRisesWithArrivals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mu := rapid.Float64Range(0.01, 1e4).Draw(t, "mu")
		n := rapid.IntRange(1, 3000).Draw(t, "n")
		lambda := rapid.Float64Range(0, 1.2).Draw(t, "rho") * float64(n) * mu
		w := System{n, lambda, mu}.Response()
		if more := (System{n + 1, lambda, mu}).Response(); more > w {
			t.Fatalf("W(%d) = %v above W(%d) = %v", n+1, more, n, w)
		}
		step := 1 + rapid.Float64Range(1e-6, 0.5).Draw(t, "step")
		if more := (System{n, lambda * step, mu}).Response(); more < w*(1-1e-12) {
			t.Fatalf("W at %v/s = %v below W at %v/s = %v", lambda*step, more, lambda, w)
		}
		if w < 1/mu {
			t.Fatalf("W = %v is below the bare service time %v", w, 1/mu)
		}
	})
}

func BenchmarkResponse(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 100_000} {
		b.Run(fmt.Sprintf("servers=%d", n), func(b *testing.B) {
			s := System{n, 0.95 * float64(n) * 10, 10}
			b.ReportAllocs()
			for b.Loop() {
				s.Response()
			}
		})
	}
}
