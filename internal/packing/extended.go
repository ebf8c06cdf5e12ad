package packing

import (
	"cmp"
	"fmt"
	"math"
)

// Slots is the maximum number of extended resources that a plan considers at once.
const Slots = 4

// Extended are amounts of resources besides CPU and memory, such as GPUs, by slot: each an int16. Which resource a slot stands
// for, and its unit, is up to the caller, and is the same for all sizes that are compared; the amounts of unused slots are 0. It
// is compared with ==, and copied and stored without an allocation.
//
// The amounts are in one word, because planners compare and copy sizes all the time: most problems have no extended
// resources, which one comparison tells, and sizes are passed in registers, which those with arrays are not.
type Extended struct {
	// lanes are the amounts as two's complements, that of slot 0 in the lowest bits.
	lanes uint64
}

const (
	laneBits = 16
	// signs is the sign bit of each lane.
	signs uint64 = 0x8000_8000_8000_8000
)

// Amounts returns amounts by slot; those of further slots are 0. It panics if there are more amounts than slots.
func Amounts(bySlot ...int16) (e Extended) {
	if len(bySlot) > Slots {
		panic(fmt.Sprintf("packing: %d amounts for %d slots", len(bySlot), Slots))
	}
	for slot, amount := range bySlot {
		e = e.With(slot, amount)
	}
	return e
}

// At returns the amount in a slot.
func (e Extended) At(slot int) int16 { return int16(e.lanes >> (laneBits * slot)) }

// With returns e with an amount in a slot.
func (e Extended) With(slot int, amount int16) Extended {
	at := laneBits * slot
	return Extended{e.lanes&^(math.MaxUint16<<at) | uint64(uint16(amount))<<at}
}

// BySlot returns the amount in each slot.
func (e Extended) BySlot() (all [Slots]int16) {
	for slot := range all {
		all[slot] = e.At(slot)
	}
	return all
}

// String returns the amounts by slot, for messages of tests.
func (e Extended) String() string { return fmt.Sprint(e.BySlot()) }

// Equal is ==, for packages that compare by reflection and cannot see the word.
func (e Extended) Equal(other Extended) bool { return e == other }

// None reports whether all amounts are 0.
func (e Extended) None() bool { return e.lanes == 0 }

// Fits reports whether each requested amount is at most the free one. What is not requested always fits, even where the
// free amount is negative, as for kube-scheduler: devices may fail while pods use them.
func (e Extended) Fits(free Extended) bool {
	return e.lanes == 0 || e.fits(free)
}

func (e Extended) fits(free Extended) bool {
	return atLeast(free.lanes, e.lanes)|atLeast(0, e.lanes) == signs
}

// atLeast returns the sign bit of each lane in which a is at least b. The lowest bits are subtracted lane by lane with the sign
// bits set, so that no lane borrows from the next; equal signs leave the answer to them, and different signs decide alone.
func atLeast(a, b uint64) uint64 {
	lower := (a | signs) - (b &^ signs)
	return (b&^a | ^(a^b)&lower) & signs
}

// Plus returns e plus other. Sums that exceed an int16 are its maximum or minimum.
func (e Extended) Plus(other Extended) Extended {
	if other.lanes == 0 {
		return e
	}
	return e.plus(other)
}

func (e Extended) plus(other Extended) Extended {
	a, b := e.lanes, other.lanes
	sum := (a&^signs + b&^signs) ^ (a^b)&signs // no lane carries into the next
	if ^(a^b)&(a^sum)&signs == 0 {
		return Extended{sum}
	}
	for slot := range Slots {
		e = e.With(slot, saturated(int32(e.At(slot))+int32(other.At(slot))))
	}
	return e
}

// Minus returns e minus other, limited like sums.
func (e Extended) Minus(other Extended) Extended {
	if other.lanes == 0 {
		return e
	}
	return e.minus(other)
}

func (e Extended) minus(other Extended) Extended {
	a, b := e.lanes, other.lanes
	left := ((a | signs) - b&^signs) ^ (a^^b)&signs // no lane borrows from the next
	if (a^b)&(a^left)&signs == 0 {
		return Extended{left}
	}
	for slot := range Slots {
		e = e.With(slot, saturated(int32(e.At(slot))-int32(other.At(slot))))
	}
	return e
}

// Most returns the greater amount of each slot.
func (e Extended) Most(other Extended) Extended {
	if e == other {
		return e
	}
	return Extended{e.lanes&whole(atLeast(e.lanes, other.lanes)) | other.lanes&^whole(atLeast(e.lanes, other.lanes))}
}

// Least returns the smaller amount of each slot.
func (e Extended) Least(other Extended) Extended {
	if e == other {
		return e
	}
	return Extended{e.lanes&whole(atLeast(other.lanes, e.lanes)) | other.lanes&^whole(atLeast(other.lanes, e.lanes))}
}

// whole returns all bits of the lanes whose sign bits are set.
func whole(some uint64) uint64 { return some<<1 - some>>(laneBits-1) }

// positive returns the sign bit of each lane with more than 0.
func positive(lanes uint64) uint64 { return signs &^ atLeast(0, lanes) }

// Shares reports whether both have more than 0 in some slot.
func (e Extended) Shares(other Extended) bool {
	return positive(e.lanes)&positive(other.lanes) != 0
}

// Only returns the amounts in the slots in which of has more than 0, and 0 in the others.
func (e Extended) Only(of Extended) Extended {
	return Extended{e.lanes & whole(positive(of.lanes))}
}

// Beyond returns the amounts that exceed the free ones, and 0 in the other slots.
func (e Extended) Beyond(free Extended) Extended {
	return Extended{e.lanes & whole(positive(e.lanes)&^atLeast(free.lanes, e.lanes))}
}

// Requested returns 1 in the slots with more than 0, and 0 in the others.
func (e Extended) Requested() Extended {
	return Extended{positive(e.lanes) >> (laneBits - 1)}
}

// Compare orders amounts, most first, slot by slot.
func (e Extended) Compare(other Extended) int {
	for slot := range Slots {
		if c := cmp.Compare(other.At(slot), e.At(slot)); c != 0 {
			return c
		}
	}
	return 0
}

func saturated(n int32) int16 { return int16(min(max(n, math.MinInt16), math.MaxInt16)) }
