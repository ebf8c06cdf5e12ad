package moves

import (
	"fmt"

	"supercargo.dev/supercargo/internal/cluster"
)

// DefaultRisk is how probable it is that a migration fails for good.
const DefaultRisk = 0.02

// Budget is how much may be under way at once; 0 means any number.
type Budget struct {
	// Machines is how many nodes with pods may be emptied at once. Those that are being
	// emptied already count, as do those of the round.
	Machines int
	// Pods is how many pods may be on their way at once: those of the round beside all
	// that are already. Pods that wait until they end do not count.
	Pods int
}

// allowance is what is left of a budget.
type allowance struct {
	Budget
	machines, pods int // under way
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

// spent reports whether no machine more may be emptied.
func (a *allowance) spent() bool { return a.Machines > 0 && a.machines >= a.Machines }

// allows reports whether so many pods more may be on their way.
func (a *allowance) allows(pods int) bool { return a.Pods <= 0 || a.pods+pods <= a.Pods }

// spend notes that a machine is emptied, and how many of its pods move.
func (a *allowance) spend(pods int) {
	a.machines++
	a.pods += pods
}

// String says what is left for pods.
func (a *allowance) String() string {
	return fmt.Sprintf("%d of at most %d pods are on their way", a.pods, a.Pods)
}
