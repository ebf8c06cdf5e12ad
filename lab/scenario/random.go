package scenario

import (
	"hash/fnv"
	"math/bits"
	"math/rand/v2"
)

// stream is an independent source of random numbers.
type stream struct{ source *rand.PCG }

// newStream returns the stream for a seed and a name. Streams with other names or seeds are
// independent.
func newStream(seed uint64, name string) stream {
	h := fnv.New64a()
	h.Write([]byte(name))
	high := mix(mix(seed) ^ h.Sum64())
	return stream{rand.NewPCG(high, mix(high^seed))}
}

// mix is the finalizer of SplitMix64: every bit of the argument affects every bit of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// below returns a uniform number from 0 to n-1 (Lemire 2019).
func (s stream) below(n int64) int64 {
	high, low := bits.Mul64(s.source.Uint64(), uint64(n))
	for threshold := -uint64(n) % uint64(n); low < threshold; {
		high, low = bits.Mul64(s.source.Uint64(), uint64(n))
	}
	return int64(high)
}

// unit returns a uniform multiple of 2^-53 in [0, 1).
func (s stream) unit() float64 { return fraction(s.source.Uint64()) }

// fraction returns x/2^64, rounded down to a multiple of 2^-53. The conversion of the quotient
// prevents fusing it with an addition in the caller.
func fraction(x uint64) float64 { return float64(float64(x>>11) / (1 << 53)) }

// exponential returns a number from the exponential distribution with mean 1. It uses von Neumann's
// method of 1951, which compares uniform numbers and needs no logarithm: the length of the first
// falling run is odd with probability e^-x, where x is the start of the run, and each even run adds
// 1.
func (s stream) exponential() float64 {
	for whole := 0.0; ; whole++ {
		first := s.source.Uint64()
		last, length := first, 1
		for next := s.source.Uint64(); next < last; next = s.source.Uint64() {
			last = next
			length++
		}
		if length%2 == 1 {
			return whole + fraction(first)
		}
	}
}
