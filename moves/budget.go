package moves

import (
	"fmt"

	"supercargo.dev/supercargo/internal/cluster"
)

// DefaultRisk is the default probability that a migration fails for good.
const DefaultRisk = 0.02

// Budget limits how much may be in progress at once; 0 means unlimited.
type Budget struct {
	// Machines is how many nodes with pods may be drained at once, including those that are already being drained.
	Machines int
	// Pods is how many pods may be on their way at once, including those that already are. Pods that are waited for do
	// not count.
	Pods int
}

// allowance is the remaining budget.
type allowance struct {
	Budget
	machines, pods int // in progress
}

func newAllowance(b Budget, s *cluster.State) *allowance {
	a := &allowance{Budget: b}
	for i := range s.Nodes {
		a.pods += s.Nodes[i].Incoming
		if s.Nodes[i].Phase == cluster.Leaving {
			a.machines++
		}
	}
	return a
}

// spent reports whether no further machine may be drained.
func (a *allowance) spent() bool { return a.Machines > 0 && a.machines >= a.Machines }

// allows reports whether the given number of further pods may be on their way.
func (a *allowance) allows(pods int) bool { return a.Pods <= 0 || a.pods+pods <= a.Pods }

// spend records that a machine is drained, and how many of its pods move.
func (a *allowance) spend(pods int) {
	a.machines++
	a.pods += pods
}

// String describes how much of the budget for pods is used.
func (a *allowance) String() string {
	return fmt.Sprintf("%d of at most %d pods are moving", a.pods, a.Pods)
}
