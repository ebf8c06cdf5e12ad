package sizing

import (
	"math"
	"slices"
)

// halfLife is after how many hours an hour counts half in the expectation of the next ones.
const halfLife = 72

// grain is the least standard deviation of a sum, as a share of its mean: use is never known more precisely.
const grain = 0.002

// sums are mean and variance of what a set of containers uses together in each hour of a week. Containers are assumed
// to be independent within an hour, and as they were from hour to hour: what they have in common, such as the time of
// day, is in the means.
type sums struct {
	mean, variance, weight [Hours]float64
	most                   float64 // the set never uses more
	containers             int
}

func newSums(profiles []*Profile) *sums {
	s := &sums{containers: len(profiles)}
	for _, p := range profiles {
		s.most += p.Most
		for h := range Hours {
			s.mean[h] += p.Mean[h]
			s.variance[h] += p.Variance[h]
		}
	}
	total := 0.0
	for h := range Hours {
		s.weight[h] = math.Exp2(-float64(h) / halfLife)
		total += s.weight[h]
	}
	floor := s.floor()
	for h := range Hours {
		s.weight[h] /= total
		s.variance[h] += floor
	}
	return s
}

// floor is the least variance of the sum.
func (s *sums) floor() float64 {
	largest := slices.Max(s.mean[:])
	return max(grain*grain*largest*largest, math.SmallestNonzeroFloat32)
}

// overload returns the expected share of the time in which the set uses more than an amount:
//
//	Σ_h w_h · Φ((M_h - amount) / σ_h),
//
// and 0 if the set never uses more.
func (s *sums) overload(amount float64) float64 {
	if amount >= s.most {
		return 0
	}
	share := 0.0
	for h := range Hours {
		share += s.weight[h] * exceeds((amount-s.mean[h])/math.Sqrt(s.variance[h]))
	}
	return share
}

// exceeds returns the probability that a standard normal variable exceeds x.
func exceeds(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// quantile returns the least amount whose overload is at most the risk.
func (s *sums) quantile(risk float64) float64 {
	low, high := 0.0, 0.0
	for h := range Hours {
		high = max(high, s.mean[h]+far*math.Sqrt(s.variance[h]))
	}
	high = min(high, s.most)
	for range 48 {
		if middle := (low + high) / 2; s.overload(middle) > risk {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// far is so many standard deviations that nothing is expected beyond.
const far = 7

// Overload returns the expected share of the time in which containers with these profiles together use more than an
// amount. Cost: O(n · [Hours]).
func Overload(profiles []*Profile, amount float64) float64 {
	if len(profiles) == 0 {
		return 0
	}
	return newSums(profiles).overload(amount)
}

// Required returns what containers with these profiles need together so that they use more in at most the given share
// of the time: the quantile of the sum of their use, taken over the hours of a week, of which recent ones count more.
// The risk must be above 0 and below 1/2. No containers need nothing. Cost: O(n · [Hours]).
func Required(profiles []*Profile, risk float64) float64 {
	if len(profiles) == 0 {
		return 0
	}
	return newSums(profiles).quantile(risk)
}

// Shares divides [Required] among the containers: each gets what it is expected to use when their sum is just at the
// quantile,
//
//	r_i = E[u_i | Σ_j u_j = Q] = Σ_h ω_h · (m_ih + v_ih/V_h · (Q - M_h)),
//
// where ω_h is the share of hour h in the density of the sum at Q. These are the Euler contributions to a quantile
// (Tasche, Risk contributions and performance measurement, 1999), and they add up to Q. Two bounds are put on them: at
// least a container's overall mean, so that one that rests when others work does not seem to need nothing; and at most
// what it is expected ever to use. What the second takes from some is added to the others, so that the sum is Q or more.
// Cost: O(n · [Hours]).
func Shares(profiles []*Profile, risk float64) (required float64, shares []float64) {
	shares = make([]float64, len(profiles))
	if len(profiles) == 0 {
		return 0, shares
	}
	s := newSums(profiles)
	required = s.quantile(risk)
	density := s.density(required)
	own := s.floor() / float64(s.containers)
	room, sum := 0.0, 0.0
	for i, p := range profiles {
		for h, part := range density {
			if part > 0 {
				shares[i] += part * (p.Mean[h] + (p.Variance[h]+own)/s.variance[h]*(required-s.mean[h]))
			}
		}
		shares[i] = min(max(shares[i], p.Overall), p.Most)
		sum += shares[i]
		room += p.Most - shares[i]
	}
	if missing := required - sum; missing > 0 && room > 0 {
		for i, p := range profiles {
			shares[i] += min(1, missing/room) * (p.Most - shares[i])
		}
	}
	return required, shares
}

// density returns the share of each hour in the density of the sum at an amount.
func (s *sums) density(amount float64) (shares [Hours]float64) {
	// The logarithm of each density, relative to the largest one, so that none underflows.
	logs, largest := [Hours]float64{}, math.Inf(-1)
	for h := range Hours {
		x := (amount - s.mean[h]) / math.Sqrt(s.variance[h])
		logs[h] = math.Log(s.weight[h]) - x*x/2 - math.Log(s.variance[h])/2
		largest = max(largest, logs[h])
	}
	total := 0.0
	for h := range Hours {
		shares[h] = math.Exp(logs[h] - largest)
		total += shares[h]
	}
	for h := range Hours {
		shares[h] /= total
	}
	return shares
}
