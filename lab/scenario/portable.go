package scenario

import "math"

// The functions of this file return the same bits on every machine. A product is converted to
// float64 before an addition, which prevents fusing the two. Their precision is about 1e-14.

const ln2 = 0x1.62e42fefa39efp-1

// mulAdd returns a*b + c, rounded twice.
func mulAdd(a, b, c float64) float64 { return float64(a*b) + c }

// power returns x^e for x from 0 to 1 and e above zero.
func power(x, e float64) float64 {
	if x <= 0 {
		return 0
	}
	return expNegative(e * logarithm(x))
}

// logarithm returns ln x for x above zero: with x = m 2^k and m near 1, it is
// k ln 2 + 2 artanh((m-1)/(m+1)).
func logarithm(x float64) float64 {
	m, k := math.Frexp(x)
	if m < 0.7071 {
		m *= 2
		k--
	}
	s := (m - 1) / (m + 1)
	square := float64(s * s)
	sum := 0.0
	for n := 25; n >= 1; n -= 2 {
		sum = mulAdd(sum, square, 1/float64(n))
	}
	return mulAdd(float64(k), ln2, float64(2*s*sum))
}

// expNegative returns e^y for y of zero or less: with y = k ln 2 + r, it is 2^k times the Taylor
// series of e^r.
func expNegative(y float64) float64 {
	if y < -700 {
		return 0
	}
	k := math.Floor(mulAdd(y, 1/ln2, 0.5))
	r := mulAdd(-k, ln2, y)
	sum := 1.0
	for n := 18; n >= 1; n-- {
		sum = mulAdd(sum, r/float64(n), 1)
	}
	return math.Ldexp(sum, int(k))
}

// sineSquared returns sin²(pi p) for p from 0 to 1: 0 at both ends, 1 in the
// middle.
func sineSquared(p float64) float64 {
	angle := math.Pi * min(p, 1-p)
	square := float64(angle * angle)
	sum := 1.0
	for n := 24; n >= 2; n -= 2 {
		sum = mulAdd(sum, -square/float64(n*(n+1)), 1)
	}
	sine := float64(angle * sum)
	return float64(sine * sine)
}
