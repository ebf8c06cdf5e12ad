package purchase

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/packing"
)

// Machine is one machine to buy.
type Machine struct {
	// Flavor is the name of its flavor.
	Flavor string
	// Name is FLAVOR-N, where N counts the machines of the flavor from 0 in the order of purchase. It is unique within
	// a plan unless the name of a flavor looks like that.
	Name string
	// Pods are the names of the pods that the machine is bought for, in packing order; [Supercargo] sorts them by name.
	Pods []string
	// Used is the sum of the requests of these pods.
	Used packing.Size
	// CPU and Memory are the amounts in Used divided by the maximum that any candidate flavor would have used in this
	// purchase, 0 to 1. [Supercargo] divides by the capacity of the machine instead.
	CPU, Memory float64
	// Score is (CPU + Memory) / 2 per dollar and hour: the maximum over all candidates, if there are any, and +Inf for
	// a free machine. It is for display; purchases compare exact fractions.
	Score float64
	// MicroDollarsPerHour is its price.
	MicroDollarsPerHour int64
	// Reason describes why this flavor was bought.
	Reason string
}

// Assignment says which machine takes a pod.
type Assignment struct {
	Pod string
	// Machine is the name of a machine of the plan, or of a node if Waits is set.
	Machine string
	// Waits is set if the pod takes room that is free, or becomes free, on an existing node, so that nothing is bought
	// for it.
	Waits bool
}

// Unplaceable is a pod for which no machine is bought.
type Unplaceable struct {
	Pod string
	// Reason describes why, and what would be needed, for people.
	Reason string
	// Limited reports that some flavor could hold the pod but may not be bought any more because of [Request].Limits or
	// Flavor.Most. Only [Supercargo] sets it.
	Limited bool
}

// Plan is what to buy. Each pod is either in Assignments or in Unplaceable.
type Plan struct {
	// Machines are in the order of purchase, or in that of [Supercargo].
	Machines []Machine
	// Assignments and Unplaceable are ordered by pod name.
	Assignments []Assignment
	Unplaceable []Unplaceable
	// MicroDollarsPerHour is the sum of the prices of Machines.
	MicroDollarsPerHour int64
}

// Result is a plan with its quality.
type Result struct {
	Plan
	// LowerBoundMicroDollarsPerHour is the least price of any machines that hold the placed pods together with the
	// nodes.
	LowerBoundMicroDollarsPerHour int64
	// Gap is the relative amount by which the price of the plan exceeds that bound; 0 if nothing is bought, and +Inf if
	// the bound is 0 and the price is not.
	Gap float64
}

// Gap returns the relative amount by which a price exceeds its lower bound, both in micro-dollars per hour; 0 if it
// does not, and +Inf if the bound is 0 and the price is not.
func Gap(price, bound int64) float64 {
	switch {
	case price <= bound:
		return 0
	case bound <= 0:
		return math.Inf(1)
	}
	return float64(price-bound) / float64(bound)
}

// add adds an unnamed machine for these pods, which use the given amounts in total.
func (p *Plan) add(f *Flavor, pods []string, used packing.Size, paid time.Duration) {
	slices.Sort(pods)
	p.Machines = append(p.Machines, machineOf(f, pods, used, paid))
	p.MicroDollarsPerHour += f.MicroDollarsPerHour
}

// machineOf returns an unnamed machine of a flavor for these pods.
func machineOf(f *Flavor, pods []string, used packing.Size, paid time.Duration) Machine {
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
	return m
}

// Together describes why machines of one flavor were bought: by their common reason, or else by what they hold together.
func Together(machines []Machine) string {
	if len(machines) == 0 {
		return ""
	}
	same, pods, cpu, memory := true, 0, 0.0, 0.0
	for i := range machines {
		m := &machines[i]
		same = same && m.Reason == machines[0].Reason
		pods += len(m.Pods)
		cpu, memory = cpu+m.CPU, memory+m.Memory
	}
	if same {
		return machines[0].Reason
	}
	n := float64(len(machines))
	return fmt.Sprintf("the cheapest found to hold %d pods, which use on average %.1f %% of the CPU and %.1f %% of the memory of a machine, at $%.4f/h each",
		pods, 100*cpu/n, 100*memory/n, float64(machines[0].MicroDollarsPerHour)/1e6)
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

func (p *Plan) sort() {
	slices.SortFunc(p.Assignments, func(a, b Assignment) int { return cmp.Compare(a.Pod, b.Pod) })
	slices.SortFunc(p.Unplaceable, func(a, b Unplaceable) int { return cmp.Compare(a.Pod, b.Pod) })
}
