package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/packing"
)

// DefaultUnbounded is how long a pod without a runtime is taken to run where
// [MixOptions] do not say.
const DefaultUnbounded = 24 * time.Hour

// MixOptions adjust what [Mix] plans. The zero value makes the price per hour as
// low as it can where no pod has a runtime. Negative values count as 0.
type MixOptions struct {
	// Setup is how long a machine is paid for before its pods start.
	Setup time.Duration
	// Period is the unit in which time is paid, every started one in full. 0 means
	// that time is paid as it passes.
	Period time.Duration
	// Unbounded is how long a pod without a runtime is taken to run; 0 means
	// [DefaultUnbounded].
	Unbounded time.Duration
	// MaxMachines is how many machines may be bought; 0 means any number.
	MaxMachines int
	// Effort is about how many steps the search may take, a step being some
	// nanoseconds of work: to look at whether a pod goes to a machine. 0 means
	// 4,000,000 and 10,000 for each pod, up to 104,000,000. The same effort gives the
	// same plan on any computer. Some work is done whatever it says.
	Effort int
}

// Paid returns for how long a machine is paid whose longest pod runs for the
// runtime: Setup and the runtime, rounded up to whole periods. A runtime that is
// not above 0 counts as Unbounded. The result stops at the longest duration.
func (o MixOptions) Paid(runtime time.Duration) time.Duration {
	if runtime <= 0 {
		runtime = o.Unbounded
	}
	if runtime <= 0 {
		runtime = DefaultUnbounded
	}
	// Neither sum can exceed 64 bits without a sign.
	paid := uint64(max(o.Setup, 0)) + uint64(runtime)
	if period := uint64(max(o.Period, 0)); period > 0 {
		paid = min(paid, math.MaxInt64)
		paid = (paid + period - 1) / period * period
	}
	return time.Duration(min(paid, math.MaxInt64))
}

func (o MixOptions) effort(pods int) int {
	const least, forEach, most = 4_000_000, 10_000, 104_000_000
	if o.Effort > 0 {
		return o.Effort
	}
	return least + min(forEach*min(pods, most/forEach), most-least)
}

// Mix returns the cheapest machines it can find that hold all pods, where a
// machine is paid from when it is bought until its longest pod ends:
//
//	bill = Σ price · [MixOptions.Paid](longest runtime on the machine)
//
// So pods without a runtime get machines with the lowest price per hour, and
// batch pods are grouped by runtime besides. Of plans with the same bill, the
// one with fewer machines is better. If opts.MaxMachines does not allow for all
// pods, plans that leave fewer pods out come first, however long or large these
// are, and the lowest bill second.
//
// Up to 12 pods the plan is the best there is. For more it is the best of many
// tried: the purchases of [Greedy] in both orders, so that the plan is never
// worse than theirs; constructions that weigh a machine's pods by what they must
// cost at least; for few kinds of pods, the rounded solution of the linear
// program over the sets of pods that fill a machine; and what a local search
// makes of the best of these, which tears some machines down and packs their pods
// anew. Pods of one size, architecture and time paid are one kind.
//
// Bills are compared in exact integers. The plan does not depend on the order of
// the arguments, and is the same if all prices are multiplied by a number. Equal
// pods go by arrival, then name; equal flavors by price, then name; other ties by
// a fixed order of sizes. Machines are ordered by how long they are paid for, the
// longest first, then price, then flavor; names of pods within a machine are
// ordered.
//
// The arguments are not modified. Cost: that of [Greedy] twice, plus O(steps) for
// opts.Effort, plus O(1,000·n·f) for n pods and f flavors; half as much again with
// a limit that binds. Memory: O(n + f), and O(k²) for k kinds if 50·k³ steps are
// allowed.
func Mix(pods []Pod, flavors []Flavor, opts MixOptions) Plan {
	return Supercargo(Request{Pods: pods, Flavors: flavors, Options: opts}).Plan
}

// write adds the machines of a mix to a plan. Pods that have none are left to the caller.
func (p *problem) write(plan *Plan, m mix) {
	for i := range m.machines {
		slices.Sort(m.machines[i].kinds)
	}
	slices.SortFunc(m.machines, func(a, b machine) int {
		return cmp.Or(cmp.Compare(b.paid, a.paid), cmp.Compare(a.offer, b.offer), slices.Compare(a.kinds, b.kinds))
	})
	served := make([]int, len(p.kinds))
	for _, from := range m.machines {
		var pods []string
		for _, k := range from.kinds {
			pods = append(pods, p.kinds[k].pods[served[k]])
			served[k]++
		}
		plan.add(&p.offers[from.offer].Flavor, pods, from.used, time.Duration(from.paid))
	}
}

// add adds a machine, without a name, for these pods, which use so much of it together.
func (p *Plan) add(f *Flavor, pods []string, used packing.Size, paid time.Duration) {
	slices.Sort(pods)
	m := Machine{
		Flavor: f.Name, Pods: pods, Used: used, MicroDollarsPerHour: f.MicroDollarsPerHour,
		CPU:    float64(used.MilliCPU) / float64(max(f.Size.MilliCPU, 1)),
		Memory: float64(used.MemoryBytes) / float64(max(f.Size.MemoryBytes, 1)),
		Score:  math.Inf(1),
	}
	if f.MicroDollarsPerHour > 0 {
		m.Score = (m.CPU + m.Memory) / 2 / (float64(f.MicroDollarsPerHour) / 1e6)
	}
	m.Reason = fmt.Sprintf("cheapest flavor that holds its %d pods: they use %.3f of its CPU and %.3f of its memory, paid for %v at $%.4f/h",
		len(pods), m.CPU, m.Memory, paid, float64(f.MicroDollarsPerHour)/1e6)
	p.Machines = append(p.Machines, m)
	p.MicroDollarsPerHour += m.MicroDollarsPerHour
}

// name numbers the machines of each flavor and assigns their pods to them.
func (p *Plan) name() {
	numbers := map[string]int{}
	for i := range p.Machines {
		m := &p.Machines[i]
		m.Name = fmt.Sprintf("%s-%d", m.Flavor, numbers[m.Flavor])
		numbers[m.Flavor]++
		for _, pod := range m.Pods {
			p.Assignments = append(p.Assignments, Assignment{Pod: pod, Machine: m.Name})
		}
	}
}
