// Package packing decides which node takes a pod so that few nodes stay in use.
//
// It holds the two orders of the HTAS paper (Zhong and Buyya, ACM TOIT 2020,
// section 5.1): best-fit decreasing over (memory, CPU) for services, and
// time-bin best fit for batch jobs. [Index] answers for one pod at a time without
// looking at every node; [FitScores] and [TimeBinScores] turn the same orders into
// scheduler scores.
//
// The package knows nothing about Kubernetes: callers turn pods into [Item] and
// machines into [Node]. Every function is pure and deterministic, every tie is
// broken by name.
package packing

import (
	"cmp"
	"math"
	"time"
)

// Size is an amount of both packed resources: what an item asks for, or what a
// node has left. A node's size may be negative, when more was promised than it
// has; nothing fits there.
type Size struct {
	MemoryBytes int64
	MilliCPU    int64
}

// Fits reports whether an item of this size goes into the free room.
func (s Size) Fits(free Size) bool {
	return s.MemoryBytes <= free.MemoryBytes && s.MilliCPU <= free.MilliCPU
}

// Minus returns the room left in s after other is taken from it.
func (s Size) Minus(other Size) Size {
	return Size{MemoryBytes: s.MemoryBytes - other.MemoryBytes, MilliCPU: s.MilliCPU - other.MilliCPU}
}

// Item is one pod to place.
type Item struct {
	// Name breaks ties and must be unique.
	Name string
	// Size is what the item asks for.
	Size Size
	// Runtime is how long the item will still run. Only time-bin packing reads it.
	Runtime time.Duration
	// Arrival is when the item began to wait, as a time since any common start.
	// Earlier ones go first among equals.
	Arrival time.Duration
}

// Node is one machine.
type Node struct {
	// Name breaks ties and must be unique.
	Name string
	// Free is the room left.
	Free Size
	// Remaining is how long the longest batch job on the node will still run: 0
	// when it has none. A negative value, a job over its expected time, counts as 0.
	// It is [Endless] for a node with a service.
	Remaining time.Duration
}

// Endless is the remaining runtime of a node that does not empty by itself, since a
// service is on it. The paper knows no such node, as it keeps services apart. It is
// in the greatest time bin: a batch job costs nothing there, since the machine is
// kept anyway, and goes there rather than to a node that would else be free sooner.
const Endless time.Duration = math.MaxInt64

// endlessBin is the time bin of nodes that do not empty by themselves.
const endlessBin int64 = math.MaxInt64

// Unending is an expected finish that is as good as never: the time left until then
// is [Endless], counted from any time within three centuries of today.
var Unending = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// CompareFit orders nodes tightest first: least free memory, then least free
// CPU, then name. It returns a negative number when a comes before b.
func CompareFit(a, b Node) int {
	// One after the other, since planners spend most of their time here.
	if c := cmp.Compare(a.Free.MemoryBytes, b.Free.MemoryBytes); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Free.MilliCPU, b.Free.MilliCPU); c != 0 {
		return c
	}
	return cmp.Compare(a.Name, b.Name)
}

// BinOf returns the time bin of a remaining runtime: floor(remaining / cycle),
// where cycle is the scaling cycle, the time between two autoscaling rounds. An
// empty node and an overdue job are in bin 0, and so is everything when cycle is
// not positive. [Endless] is in the greatest bin, which no other runtime reaches
// while cycle is above a nanosecond.
func BinOf(remaining, cycle time.Duration) int64 {
	switch {
	case remaining <= 0 || cycle <= 0:
		return 0
	case remaining == Endless:
		return endlessBin
	}
	return int64(remaining / cycle)
}

// CompareBins orders time bins as algorithm 2 of the paper tries them for an
// item of bin own: its own bin, then greater bins upward, then lesser bins
// downward. It returns a negative number when a is tried before b.
func CompareBins(own, a, b int64) int {
	switch aUp, bUp := a >= own, b >= own; {
	case aUp && bUp:
		return cmp.Compare(a, b)
	case aUp:
		return -1
	case bUp:
		return 1
	default:
		return cmp.Compare(b, a)
	}
}

// CompareTimeBin orders nodes for a batch item of the given runtime: by time bin
// as [CompareBins] does, then tightest first.
func CompareTimeBin(runtime, cycle time.Duration) func(a, b Node) int {
	own := BinOf(runtime, cycle)
	return func(a, b Node) int {
		if c := CompareBins(own, BinOf(a.Remaining, cycle), BinOf(b.Remaining, cycle)); c != 0 {
			return c
		}
		return CompareFit(a, b)
	}
}

// LargestFirst orders services for placement: memory descending, CPU
// descending, then arrival, then name.
func LargestFirst(a, b Item) int {
	return cmp.Or(
		cmp.Compare(b.Size.MemoryBytes, a.Size.MemoryBytes),
		cmp.Compare(b.Size.MilliCPU, a.Size.MilliCPU),
		cmp.Compare(a.Arrival, b.Arrival),
		cmp.Compare(a.Name, b.Name),
	)
}

// LongestFirst orders batch items for placement: runtime descending, then
// arrival, then name.
func LongestFirst(a, b Item) int {
	return cmp.Or(
		cmp.Compare(b.Runtime, a.Runtime),
		cmp.Compare(a.Arrival, b.Arrival),
		cmp.Compare(a.Name, b.Name),
	)
}
