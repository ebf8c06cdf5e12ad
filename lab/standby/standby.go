// Package standby decides which idle machines sleep and which are woken.
//
// HEATS leaves idle machines on (Rocha et al., PDP 2019: its totals include their idle
// power). A machine that sleeps draws little, but takes a while and energy to wake, and
// pods wait meanwhile. [Decide] weighs both: it keeps awake what pods need that wait or
// are about to come, and puts an idle machine to sleep once it has idled away what waking
// it costs, so that whatever comes it never spends more than twice what a prophet would
// (the ski-rental rule: Karlin et al., Algorithmica 1994).
package standby

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/packing"
)

// Phase is what a machine can do now.
type Phase int

// The phases.
const (
	// Awake machines take pods.
	Awake Phase = iota
	// Waking machines will.
	Waking
	// Asleep machines have to be woken first.
	Asleep
)

// Machine is one of those that may sleep, or take pods.
type Machine struct {
	Name  string
	Phase Phase
	// Free is the room that it has or will have by the time at which one that is woken now
	// would take pods, MaxPods for how many more pods; Arch is as in GOARCH.
	Free    packing.Size
	MaxPods int64
	Arch    string
	// Idle is for how long an awake machine has had no pod; nil when it has some.
	Idle *time.Duration
	// Rank orders machines by how gladly pods are put there: the least first, ties by
	// name.
	Rank float64
	// Power and Asleep are what it draws when idle and asleep, Waking while it wakes, which
	// takes Wakes. Wakes is 0 for machines that cannot sleep.
	Power, Asleep, Waking energy.Watts
	Wakes                 time.Duration
}

// Plan names the machines to put to sleep and to wake, in the order of their names.
type Plan struct {
	Sleep, Wake []string
	// Recheck is after what time an idle machine may go to sleep if nothing happens
	// before; 0 if none may.
	Recheck time.Duration
}

// BreakEven is for how long a machine must idle until it has drawn as much above standby as
// waking it costs. It is 0 for a machine that draws no more idle than asleep, which then had
// better never sleep.
func (m *Machine) BreakEven() time.Duration {
	saves := float64(m.Power - m.Asleep)
	if m.Wakes <= 0 || !(saves > 0) {
		return 0
	}
	return time.Duration(float64(m.Waking-m.Asleep) / saves * float64(m.Wakes))
}

// Decide says which machines sleep and which wake, given the pods that wait and those that
// are expected before a machine that is woken now could take them, each list in the order
// in which they are placed. Machines may be in any order, and are not changed.
//
// Pods are put one by one on the first machine that has room: awake ones first, then those
// that wake, then those asleep, each by rank. What gets a pod stays awake, or is woken. Of
// the others, those that have idled for their break-even time sleep. No machine is both.
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
