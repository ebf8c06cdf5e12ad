package packing

import (
	"cmp"
	"math"
)

// Slots is the maximum number of extended resources that a plan considers at once.
const Slots = 4

// Extended are amounts of resources besides CPU and memory, such as GPUs, by slot. Which resource a slot stands for, and its
// unit, is up to the caller, and is the same for all sizes that are compared; the amounts of unused slots are 0. As an array
// it is compared with ==, copied and stored without an allocation.
type Extended [Slots]int16

// Fits reports whether each requested amount is at most the free one. What is not requested always fits, even where the
// free amount is negative, as for kube-scheduler: devices may fail while pods use them.
func (e Extended) Fits(free Extended) bool {
	if e == (Extended{}) {
		return true
	}
	for i, amount := range e {
		if amount > 0 && amount > free[i] {
			return false
		}
	}
	return true
}

// Plus returns e plus other. Sums that exceed an int16 are its maximum or minimum.
func (e Extended) Plus(other Extended) Extended {
	if other == (Extended{}) {
		return e
	}
	for i, amount := range other {
		e[i] = saturated(int64(e[i]) + int64(amount))
	}
	return e
}

// Minus returns e minus other, limited like sums.
func (e Extended) Minus(other Extended) Extended {
	if other == (Extended{}) {
		return e
	}
	for i, amount := range other {
		e[i] = saturated(int64(e[i]) - int64(amount))
	}
	return e
}

// Most returns the greater amount of each slot.
func (e Extended) Most(other Extended) Extended {
	for i, amount := range other {
		e[i] = max(e[i], amount)
	}
	return e
}

// Least returns the smaller amount of each slot.
func (e Extended) Least(other Extended) Extended {
	for i, amount := range other {
		e[i] = min(e[i], amount)
	}
	return e
}

// Shares reports whether both have more than 0 in some slot.
func (e Extended) Shares(other Extended) bool {
	for i, amount := range other {
		if amount > 0 && e[i] > 0 {
			return true
		}
	}
	return false
}

// Only returns the amounts in the slots in which of has more than 0, and 0 in the others.
func (e Extended) Only(of Extended) Extended {
	for i, amount := range of {
		if amount <= 0 {
			e[i] = 0
		}
	}
	return e
}

// Beyond returns the amounts that exceed the free ones, and 0 in the other slots.
func (e Extended) Beyond(free Extended) Extended {
	for i, amount := range free {
		if e[i] <= 0 || e[i] <= amount {
			e[i] = 0
		}
	}
	return e
}

// Compare orders amounts, most first, slot by slot.
func (e Extended) Compare(other Extended) int {
	for i, amount := range other {
		if c := cmp.Compare(amount, e[i]); c != 0 {
			return c
		}
	}
	return 0
}

func saturated(n int64) int16 { return int16(min(max(n, math.MinInt16), math.MaxInt16)) }
