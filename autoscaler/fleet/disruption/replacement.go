package disruption

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Machine is a machine of a fleet whose node accepts pods.
type Machine struct {
	// Node is its name.
	Node string
	// Age is how long the machine has been paid for.
	Age time.Duration
	// Drifted reports that the machine is not made as a new one would be, and that only the fleet replaces it.
	Drifted bool
	// Unhealthy is the condition of the node for which it is replaced, for people; empty if there is none.
	Unhealthy string
}

// Policy says which machines are replaced regardless of what that costs.
type Policy struct {
	// ExpireAfter is the maximum age of a machine; 0 means none.
	ExpireAfter time.Duration
	// Drifted is whether drifted machines are replaced.
	Drifted bool
}

// PolicyOf returns the policy of a spec.
func PolicyOf(c *v1alpha1.FleetConsolidation) Policy {
	p := Policy{Drifted: c.Drifted == v1alpha1.DriftedReplace}
	if c.ExpireAfter != nil {
		p.ExpireAfter = c.ExpireAfter.Duration
	}
	return p
}

// Replacement is a machine to replace.
type Replacement struct {
	Node   string
	Reason v1alpha1.FleetBudgetReason
	// Why says the reason, for people.
	Why string
}

// Due returns the machines to replace: those that are unhealthy first, then the expired ones, then the drifted ones; of
// each the oldest first, ties by name. held says that unhealthy machines are not among them, because more are than
// [MostUnhealthy]: then probably not the machines are at fault, but what they share, such as the network.
func (p Policy) Due(machines []Machine) (due []Replacement, held string) {
	unhealthy := 0
	for i := range machines {
		if machines[i].Unhealthy != "" {
			unhealthy++
		}
	}
	most := MostUnhealthy(len(machines))
	if unhealthy > most {
		held = fmt.Sprintf("%d of %d machines are unhealthy, and at most %d would be replaced: find out what they share", unhealthy, len(machines), most)
	}
	sorted := slices.SortedFunc(slices.Values(machines), func(a, b Machine) int { return cmp.Or(cmp.Compare(b.Age, a.Age), cmp.Compare(a.Node, b.Node)) })
	for _, reason := range []v1alpha1.FleetBudgetReason{v1alpha1.BudgetUnhealthy, v1alpha1.BudgetExpired, v1alpha1.BudgetDrifted} {
		for i := range sorted {
			m := &sorted[i]
			if why := p.why(m, reason, held != ""); why != "" && !slices.ContainsFunc(due, func(r Replacement) bool { return r.Node == m.Node }) {
				due = append(due, Replacement{m.Node, reason, why})
			}
		}
	}
	return due, held
}

// why returns why a machine is replaced for a reason, or "".
func (p Policy) why(m *Machine, reason v1alpha1.FleetBudgetReason, held bool) string {
	switch {
	case reason == v1alpha1.BudgetUnhealthy && !held:
		return m.Unhealthy
	case reason == v1alpha1.BudgetExpired && p.ExpireAfter > 0 && m.Age >= p.expiry(m.Node):
		return fmt.Sprintf("it is older than spec.consolidation.expireAfter %v allows", p.ExpireAfter)
	case reason == v1alpha1.BudgetDrifted && p.Drifted && m.Drifted:
		return "it is not made as a new machine would be: the fleet or its template has changed since"
	}
	return ""
}

// expiry returns the age at which a machine expires: between 90 and 100 % of ExpireAfter, always the same for a name, so
// that machines that were bought together do not expire together.
func (p Policy) expiry(node string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node))
	return p.ExpireAfter - p.ExpireAfter/10*time.Duration(h.Sum32()%1000)/1000
}

// MostUnhealthy returns how many of so many machines may be unhealthy if they are to be replaced: a fifth, rounded up, as
// in Karpenter's repair of nodes.
func MostUnhealthy(machines int) int { return (machines + 4) / 5 }
