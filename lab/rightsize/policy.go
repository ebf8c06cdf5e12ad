package rightsize

import (
	"math"
	"time"
)

// Policy sets the requests of entities.
type Policy interface {
	// Name is the name of the policy in results.
	Name() string
	// Start tells it of an entity that begins to run, and what it asked for.
	Start(entity int, asked Amounts, at time.Duration)
	// Learn tells it what an entity used in the interval that begins at a time; NaN is no measurement.
	Learn(entity int, at time.Duration, used Amounts)
	// Realised tells it in how many of the machines of an interval the use of a resource exceeded what they have.
	Realised(overloaded [resources]int, machines int)
	// Requests returns what entities should request now. sets are the entities on each machine; now is the end of an
	// interval. It may leave out entities whose request stays.
	Requests(now time.Duration, sets [][]int, requests []Amounts) map[int]Amounts
	// Holds reports whether a machine of this capacity may have this set of entities, beyond their requests.
	Holds(set []int, capacity Amounts) bool
	// Leave returns the entities that must leave a machine at once, although their requests fit.
	Leave(set []int, capacity Amounts) []int
}

// Refiner is a policy whose requests depend on which entities share a machine, so that the first machines are planned
// several times.
type Refiner interface {
	// Refine lets Requests decide once more at the same time.
	Refine()
}

// static is a policy that changes nothing: what others are made of.
type static struct{}

// Start implements [Policy].
func (static) Start(int, Amounts, time.Duration) {}

// Learn implements [Policy].
func (static) Learn(int, time.Duration, Amounts) {}

// Realised implements [Policy].
func (static) Realised([resources]int, int) {}

// Requests implements [Policy].
func (static) Requests(time.Duration, [][]int, []Amounts) map[int]Amounts { return nil }

// Holds implements [Policy].
func (static) Holds([]int, Amounts) bool { return true }

// Leave implements [Policy].
func (static) Leave([]int, Amounts) []int { return nil }

// Requested leaves requests as they are.
type Requested struct{ static }

// Name implements [Policy].
func (Requested) Name() string { return "requests" }

// known returns the amounts without those that are not known.
func known(a Amounts) Amounts {
	for r := range a {
		if math.IsNaN(a[r]) {
			a[r] = 0
		}
	}
	return a
}
