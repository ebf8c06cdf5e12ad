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

// MixOptions adjust what [Supercargo] plans. The zero value makes the price per hour as
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
	// 12,000,000 and 20,000 for each pod, up to 72,000,000. The same effort gives the
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
	const least, forEach, most = 12_000_000, 20_000, 72_000_000
	if o.Effort > 0 {
		return o.Effort
	}
	return least + min(forEach*min(pods, most/forEach), most-least)
}

// sort orders the machines of a mix as plans have them.
func (m *mix) sort() {
	for i := range m.machines {
		slices.Sort(m.machines[i].kinds)
	}
	slices.SortFunc(m.machines, func(a, b machine) int {
		return cmp.Or(cmp.Compare(b.paid, a.paid), cmp.Compare(a.offer, b.offer), slices.Compare(a.kinds, b.kinds))
	})
}

// write adds the machines of a mix to a plan. Pods that have none are left to the caller.
func (p *problem) write(plan *Plan, m mix) {
	m.sort()
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
	held := "its only pod, which uses"
	if len(pods) != 1 {
		held = fmt.Sprintf("its %d pods, which use", len(pods))
	}
	m.Reason = fmt.Sprintf("the cheapest found to hold %s %.1f %% of its CPU and %.1f %% of its memory, at $%.4f/h",
		held, 100*m.CPU, 100*m.Memory, float64(f.MicroDollarsPerHour)/1e6)
	if paid < DefaultUnbounded { // else nobody knows for how long
		m.Reason += fmt.Sprintf(" for %v, $%.4f in all", paid, float64(f.MicroDollarsPerHour)/1e6*paid.Hours())
	}
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
