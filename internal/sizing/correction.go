package sizing

import "math"

// Correction adapts the risk that is planned for, so that the realised share of overloaded intervals keeps to the stated
// one although use changes, and although moves prevent overloads that requests alone would not: adaptive conformal
// inference (Gibbs and Candès, Adaptive conformal inference under distribution shift, 2021), on the logarithm of the
// risk. The zero value plans for half the stated risk.
//
// With λ of 0 at first, a step of η for each interval and a realised share e_t in interval t,
//
//	risk_t = target · exp(-λ_t), λ_{t+1} = λ_t + η · (e_t / target - 1),
//
// where λ stops falling when the risk is a tenth, so that λ_T is at least the sum of its T steps. If no machine is
// overloaded while λ is at least some safe value, λ never exceeds it by more than one step, and the mean of e_t is at
// most
//
//	target · (1 + safe / (η·T)) + 1 / T,
//
// for any use. The target is half the stated risk.
type Correction struct {
	lambda float64
}

const (
	// step is η: intervals of half a day without overload undo one unit of λ.
	step = 1.0 / 144
	// target is the share of the stated risk that is aimed for.
	target = 0.5
	// least and most bound the risk that is planned for; a stated risk above most is not exceeded.
	least, most = 1e-12, 0.1
)

// Observe counts one interval in which some of the machines were overloaded. Without machines it counts nothing.
func (c *Correction) Observe(overloaded, machines int, stated float64) {
	if machines <= 0 || !(stated > 0) {
		return
	}
	realised, aim := float64(overloaded)/float64(machines), target*stated
	c.lambda = max(-math.Log(max(most, aim)/aim), c.lambda+step*(realised/aim-1))
}

// Risk returns the risk to plan for.
func (c *Correction) Risk(stated float64) float64 {
	return max(least, target*stated*math.Exp(-c.lambda))
}
