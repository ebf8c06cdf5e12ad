// Package standby decides which idle machines are suspended and which are woken.
//
// HEATS leaves idle machines on (Rocha et al., PDP 2019: its totals include their idle power). A
// machine in standby draws little, but waking it takes time and energy, and pods wait meanwhile.
// [Decide] keeps the machines awake that waiting and expected pods need. It suspends an idle
// machine once its idle energy equals the cost of waking it, so it never spends more than twice the
// optimum in hindsight (the ski-rental rule: Karlin et al., Algorithmica 1994).
package standby

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// Phase is the state of a machine.
type Phase int

// The phases.
const (
	// Awake machines accept pods.
	Awake Phase = iota
	// Waking machines will accept pods.
	Waking
	// Asleep machines must be woken first.
	Asleep
)

// Machine is a machine that accepts pods or may be suspended.
type Machine struct {
	Name  string
	Phase Phase
	// Free is its room at the time when a machine that is woken now would accept pods, and MaxPods
	// the number of additional pods. Arch is as in GOARCH.
	Free    packing.Size
	MaxPods int64
	Arch    string
	// Idle is how long an awake machine has had no pods; nil if it has some.
	Idle *time.Duration
	// Rank orders machines by preference for placing pods: the lowest first, ties by name.
	Rank float64
	// Power, Asleep and Waking are its power when idle, in standby and while waking, which takes
	// Wakes. Wakes is 0 for machines without standby.
	Power, Asleep, Waking energy.Watts
	Wakes                 time.Duration
}

// Plan has the names of the machines to suspend and to wake, sorted by name.
type Plan struct {
	Sleep, Wake []string
	// Recheck is the time after which an idle machine may be suspended if nothing happens before; 0
	// if none may.
	Recheck time.Duration
}

// BreakEven returns the idle time after which a machine has drawn as much above standby as waking
// it costs. It is 0 for a machine without standby or whose idle power is no higher than its standby
// power, which should never be suspended.
func (m *Machine) BreakEven() time.Duration {
	saves := float64(m.Power - m.Asleep)
	if m.Wakes <= 0 || !(saves > 0) {
		return 0
	}
	return time.Duration(float64(m.Waking-m.Asleep) / saves * float64(m.Wakes))
}

// Decide returns the machines to suspend and to wake, for the waiting pods and those expected
// before a machine that is woken now could accept them, each list in placement order. Machines may
// be in any order and are not modified.
//
// Each pod is placed on the first machine with room: awake machines first, then waking ones, then
// suspended ones, each by rank. A machine that gets a pod stays awake or is woken. Of the others,
// those that have been idle for their break-even time are suspended. No machine is in both lists.
//
// Cost: O(p·m) for p pods and m machines.
func Decide(machines []Machine, waiting, expected []cluster.Pod) Plan {
	order := slices.Clone(machines)
	slices.SortFunc(order, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Name, b.Name))
	})
	needed := make([]bool, len(order))
	for _, pods := range [][]cluster.Pod{waiting, expected} {
		for _, p := range pods {
			if at := slices.IndexFunc(order, func(m Machine) bool { return m.holds(&p) }); at >= 0 {
				needed[at] = true
				order[at].Free = order[at].Free.Minus(p.Size)
				order[at].MaxPods--
			}
		}
	}
	var plan Plan
	for i, m := range order {
		switch {
		case m.Phase == Asleep && needed[i]:
			plan.Wake = append(plan.Wake, m.Name)
		case m.Phase == Awake && m.Idle != nil && !needed[i] && m.BreakEven() > 0:
			left := m.BreakEven() - *m.Idle
			if left <= 0 {
				plan.Sleep = append(plan.Sleep, m.Name)
			} else if plan.Recheck == 0 || left < plan.Recheck {
				plan.Recheck = left
			}
		}
	}
	slices.Sort(plan.Sleep)
	slices.Sort(plan.Wake)
	return plan
}

func (m *Machine) holds(p *cluster.Pod) bool {
	return p.Size.Fits(m.Free) && m.MaxPods > 0 && (p.Arch == "" || p.Arch == m.Arch)
}
