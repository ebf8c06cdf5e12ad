package purchase

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/packing"
)

// DefaultUnbounded is the assumed runtime of a pod without one if [MixOptions] do not set it.
const DefaultUnbounded = 24 * time.Hour

// MixOptions adjust the plan of [Supercargo]. The zero value minimizes the price per hour if no pod has a runtime.
// Negative values count as 0.
type MixOptions struct {
	// Setup is how long a machine is billed before its pods start.
	Setup time.Duration
	// Period is the unit of billing, of which every started one is billed in full. 0 means that the exact time is
	// billed.
	Period time.Duration
	// Unbounded is the assumed runtime of a pod without one; 0 means [DefaultUnbounded].
	Unbounded time.Duration
	// MaxMachines is the maximum number of machines to buy; 0 means no maximum.
	MaxMachines int
	// Effort is the approximate number of steps that the search may take. A step is some nanoseconds of work, such as
	// checking whether a pod fits a machine. 0 means 12,000,000 plus 20,000 for each pod, up to 72,000,000. The same
	// effort gives the same plan on any computer. Some work does not depend on it.
	Effort int
}

// Paid returns the billed time of a machine whose longest pod has the given runtime: Setup plus the runtime, rounded up
// to whole periods. A runtime of 0 or less counts as Unbounded. The result saturates at the longest duration.
func (o MixOptions) Paid(runtime time.Duration) time.Duration {
	if runtime <= 0 {
		runtime = o.Unbounded
	}
	if runtime <= 0 {
		runtime = DefaultUnbounded
	}
	// Neither sum can exceed an unsigned 64-bit integer.
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

// sort orders the machines of a mix as in plans.
func (m *mix) sort() {
	for i := range m.machines {
		slices.Sort(m.machines[i].kinds)
	}
	slices.SortFunc(m.machines, func(a, b machine) int {
		return cmp.Or(cmp.Compare(b.paid, a.paid), cmp.Compare(a.offer, b.offer), slices.Compare(a.kinds, b.kinds))
	})
}

// write adds the machines of a mix to a plan. The caller handles the pods without a machine.
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

// add adds an unnamed machine for these pods, which use the given amounts in total.
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
	if paid < DefaultUnbounded { // else the billed time is a guess
		m.Reason += fmt.Sprintf(" for %v, $%.4f in all", paid, float64(f.MicroDollarsPerHour)/1e6*paid.Hours())
	}
	p.Machines = append(p.Machines, m)
	p.MicroDollarsPerHour += m.MicroDollarsPerHour
}

// name numbers the machines of each flavor and assigns their pods to them.
func (p *Plan) name() {
	pods := 0
	for i := range p.Machines {
		pods += len(p.Machines[i].Pods)
	}
	p.Assignments = slices.Grow(p.Assignments, pods)
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
