// Package packing decides which node a pod goes to so that few nodes stay in use.
//
// It implements the two orders of the HTAS paper (Zhong and Buyya, ACM TOIT 2020, section 5.1): best-fit decreasing
// over (memory, CPU) for services, and time-bin best fit for batch jobs. [Index] finds a node for one pod without a
// scan of all nodes; [FitScores] and [TimeBinScores] turn the same orders into scheduler scores.
//
// The package is independent of Kubernetes: callers turn pods into [Item] and machines into [Node]. Every function is
// pure and deterministic, and ties are broken by name.
package packing

import (
	"cmp"
	"math"
	"time"
)

// Size is an amount of each resource: the requests of an item, or the free room of a node. The free CPU or memory is
// negative if the node is overcommitted; nothing fits there. The orders of this package compare CPU and memory only.
type Size struct {
	MemoryBytes int64
	MilliCPU    int64
	// Extended are the other resources.
	Extended Extended
}

// Fits reports whether an item of this size fits into the free room.
func (s Size) Fits(free Size) bool {
	return s.MemoryBytes <= free.MemoryBytes && s.MilliCPU <= free.MilliCPU && s.Extended.Fits(free.Extended)
}

// FitsInto is [Size.Fits] without copies.
func (s *Size) FitsInto(free *Size) bool {
	return s.MemoryBytes <= free.MemoryBytes && s.MilliCPU <= free.MilliCPU && s.Extended.Fits(free.Extended)
}

// Minus returns s minus other.
func (s Size) Minus(other Size) Size {
	return Size{MemoryBytes: s.MemoryBytes - other.MemoryBytes, MilliCPU: s.MilliCPU - other.MilliCPU, Extended: s.Extended.Minus(other.Extended)}
}

// Plus returns s plus other.
func (s Size) Plus(other Size) Size {
	return Size{MemoryBytes: s.MemoryBytes + other.MemoryBytes, MilliCPU: s.MilliCPU + other.MilliCPU, Extended: s.Extended.Plus(other.Extended)}
}

// Most returns the greater amount of each resource.
func (s Size) Most(other Size) Size {
	return Size{MemoryBytes: max(s.MemoryBytes, other.MemoryBytes), MilliCPU: max(s.MilliCPU, other.MilliCPU), Extended: s.Extended.Most(other.Extended)}
}

// Least returns the smaller amount of each resource.
func (s Size) Least(other Size) Size {
	return Size{MemoryBytes: min(s.MemoryBytes, other.MemoryBytes), MilliCPU: min(s.MilliCPU, other.MilliCPU), Extended: s.Extended.Least(other.Extended)}
}

// Item is one pod to place.
type Item struct {
	// Name is unique and breaks ties.
	Name string
	// Size is what the item requests.
	Size Size
	// Runtime is the remaining runtime of the item. Only time-bin packing uses it.
	Runtime time.Duration
	// Arrival is when the item became pending, as a time since any common start. Among equals, earlier items go first.
	Arrival time.Duration
}

// Node is one machine.
type Node struct {
	// Name is unique and breaks ties.
	Name string
	// Free is the free room.
	Free Size
	// Remaining is the remaining runtime of the longest batch job on the node, 0 if it has none. A negative value (an
	// overdue job) counts as 0. For a node with a service it is [Endless].
	Remaining time.Duration
}

// Endless is the remaining runtime of a node with a service, which does not become empty by itself. The paper has no
// such nodes because it keeps services apart. Endless is in the greatest time bin: a batch job costs nothing on such a
// node, because the machine is kept anyway, whereas it might delay the release of another node.
const Endless time.Duration = math.MaxInt64

// endlessBin is the time bin of [Endless].
const endlessBin int64 = math.MaxInt64

// Unending is an expected finish that means never: the time until then, from any time within three centuries of today,
// is [Endless].
var Unending = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// CompareFit orders nodes tightest first: least free memory, then least free
// CPU, then name. It returns a negative number when a comes before b.
func CompareFit(a, b Node) int {
	// The comparisons are written out because planners spend most of their time here.
	if c := cmp.Compare(a.Free.MemoryBytes, b.Free.MemoryBytes); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Free.MilliCPU, b.Free.MilliCPU); c != 0 {
		return c
	}
	return cmp.Compare(a.Name, b.Name)
}

// BinOf returns the time bin of a remaining runtime: floor(remaining / cycle), where cycle is the scaling cycle, the
// time between two autoscaling rounds. Empty nodes and overdue jobs are in bin 0, and so is everything if cycle is not
// positive. [Endless] is in the greatest bin, which no other runtime reaches if cycle is longer than a nanosecond.
func BinOf(remaining, cycle time.Duration) int64 {
	switch {
	case remaining <= 0 || cycle <= 0:
		return 0
	case remaining == Endless:
		return endlessBin
	}
	return int64(remaining / cycle)
}

// CompareBins orders time bins as algorithm 2 of the paper tries them for an item of bin own: the item's own bin, then
// higher bins ascending, then lower bins descending. It returns a negative number when a is tried before b.
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

// CompareTimeBin returns the order of nodes for a batch item of the given runtime: by time bin as in [CompareBins],
// then by [CompareFit].
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
	// Step by step: most items differ in memory, and names are long.
	if c := cmp.Compare(b.Size.MemoryBytes, a.Size.MemoryBytes); c != 0 {
		return c
	}
	if c := cmp.Compare(b.Size.MilliCPU, a.Size.MilliCPU); c != 0 {
		return c
	}
	return byArrival(a, b)
}

// LongestFirst orders batch items for placement: runtime descending, then
// arrival, then name.
func LongestFirst(a, b Item) int {
	if c := cmp.Compare(b.Runtime, a.Runtime); c != 0 {
		return c
	}
	return byArrival(a, b)
}

// byArrival orders by arrival, then name.
func byArrival(a, b Item) int {
	if c := cmp.Compare(a.Arrival, b.Arrival); c != 0 {
		return c
	}
	return cmp.Compare(a.Name, b.Name)
}
