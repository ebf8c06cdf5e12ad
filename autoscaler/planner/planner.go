// Package planner decides which machines to buy for unschedulable pods.
//
// [Supercargo] searches for the cheapest machines that hold all pods together, fills the
// nodes there are first, heeds what pods demand of where they run, and says what any plan
// must cost. [Greedy] is the algorithm of the HTAS paper for services (Zhong and Buyya, ACM
// TOIT 2020, section 5.2), which no plan of Supercargo may be dearer than. Where the paper
// adds and subtracts totals, as if a pod could straddle machines, it packs whole pods, so
// that each machine of a [Plan] comes with the pods it is bought for.
//
// The package buys nothing itself and knows nothing about Kubernetes. Every
// function is pure and deterministic: the order of its arguments does not
// matter, and ties are broken as its comment says.
package planner

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// Pod is a pod that waits for a machine. It has of a [cluster.Pod] what a purchase depends
// on, in the same terms: a search copies and compares pods by the thousand, and two that
// differ in nothing here are served alike.
type Pod struct {
	// Item is what it asks for. Its name is unique. A pod that asks for a
	// negative amount is unplaceable.
	packing.Item
	// Arch is the CPU architecture it needs, as in GOARCH; empty means any.
	Arch string
	// Demands are what else it demands of where it runs; nil is nothing. Only
	// [Supercargo] heeds them.
	Demands *constraint.Pod
	// Except are flavors that are not to be bought for it; nil is none. Only [Supercargo]
	// heeds them. Pods with the same exceptions best share them.
	Except *Exceptions
	// OnlyBought says that none of the nodes that are there is for it. Only [Supercargo] heeds it.
	OnlyBought bool
}

// PodOf is a pod as the planner takes it. One of which nobody knows how long it runs has no
// runtime.
func PodOf(p *cluster.Pod) Pod {
	pod := Pod{Item: p.Item, Arch: p.Arch, Demands: p.Demands}
	if p.Guessed {
		pod.Runtime = 0
	}
	return pod
}

// Exceptions are flavors that are not bought for a pod although they seem to hold it.
type Exceptions struct {
	// Flavors are their names, with the reasons.
	Flavors map[string]string
}

// Flavor is a kind of machine that can be bought. Its name is the last tie-break. Its price is
// not negative; one that costs nothing scores above all that do. One without a Host has nodes
// without labels and taints. Only [Supercargo] heeds Most.
type Flavor = cluster.Flavor

// Order is the order in which pods choose, and so which of them a machine takes
// when it cannot take all.
type Order int

const (
	// Services is the order of [packing.LargestFirst].
	Services Order = iota
	// Batch is the order of [packing.LongestFirst].
	Batch
)

// Options adjust a plan. The zero value plans for services and buys any number
// of machines.
type Options struct {
	// Order is the order in which pods choose.
	Order Order
	// MaxMachines is how many machines may be bought; 0 means any number. Pods
	// for which there is none left are unplaceable.
	MaxMachines int
}

// Machine is one machine to buy.
type Machine struct {
	// Flavor is the name of its flavor.
	Flavor string
	// Name is FLAVOR-N, N counting the machines of the flavor from 0 in the order
	// they are bought. It is unique within a plan unless a flavor's own name looks
	// like that.
	Name string
	// Pods are the names of the pods it is bought for, in the order they chose;
	// [Supercargo] puts them in the order of names.
	Pods []string
	// Used is what these pods ask for together.
	Used packing.Size
	// CPU and Memory are the amounts in Used divided by the greatest that any
	// candidate flavor would have used in this purchase, 0 to 1. [Supercargo] divides by
	// what the machine has instead.
	CPU, Memory float64
	// Score is (CPU + Memory) / 2 per dollar and hour: the highest of all candidates,
	// where there are any, and +Inf for a machine that costs nothing. It is for
	// display; purchases compare exact fractions.
	Score float64
	// MicroDollarsPerHour is its price.
	MicroDollarsPerHour int64
	// Reason says in words why this flavor was bought.
	Reason string
}

// Assignment says which machine takes a pod.
type Assignment struct {
	Pod string
	// Machine is the name of a machine of the plan, or of a node if Waits is set.
	Machine string
	// Waits is set where the pod takes room that is, or comes free, on a node there
	// already, so that nothing is bought for it.
	Waits bool
}

// Unplaceable is a pod for which no machine is bought.
type Unplaceable struct {
	Pod string
	// Reason says why and what would be needed, for a person.
	Reason string
	// Limited says that some flavor takes it and may not be bought any more: because of
	// [Request].Limits, or of Flavor.Most. Only [Supercargo] says so.
	Limited bool
}

// Plan is what to buy. Each pod is either in Assignments or in Unplaceable.
type Plan struct {
	// Machines are in the order they are bought, or in that of [Supercargo].
	Machines []Machine
	// Assignments and Unplaceable are ordered by pod name.
	Assignments []Assignment
	Unplaceable []Unplaceable
	// MicroDollarsPerHour is the sum of the prices of Machines.
	MicroDollarsPerHour int64
}

// Greedy buys one machine after the other until every pod has one (paper,
// algorithm 3). Each time it packs the pods still pending into one empty
// machine of each flavor, in the order of opts.Order, passing over pods that do
// not fit any more, and buys the flavor with the highest score:
//
//	score = (c/C + m/M) / 2 / price
//
// where c and m are the CPU and memory that the packed pods would really take, C
// and M the greatest c and m over the candidate flavors, and price is that of
// one machine per hour. The pods packed into it are then no longer pending.
//
// Dividing by the flavor's own capacity instead would favour the cheapest flavor
// whatever the load. A resource that no pending pod asks for counts 0. A
// flavor that holds no pending pod is no candidate. Pods that no flavor holds
// are unplaceable. Ties: lower price, then name.
//
// No machine is over-filled, max pods included. The arguments are not modified.
// Cost: O(n·log n) for n pods, plus O(log n) for each pod packed on trial: some
// n·f of them for f flavors of like size, up to n·f times as many as the greatest
// machine takes where the smallest are bought. See queue for the worst case.
func Greedy(pods []Pod, flavors []Flavor, opts Options) Plan {
	var plan Plan
	plan.buy(pods, flavors, opts, nil)
	plan.sort()
	return plan
}

// buy adds machines for the pods, or the reason why there is none. It stops after a
// machine of which enough, unless nil, says so, and returns false.
func (p *Plan) buy(pods []Pod, flavors []Flavor, opts Options, enough func(*Machine) bool) bool {
	var pending []Pod
	for _, pod := range sorted(pods, opts.Order) {
		if reason := unplaceable(pod, flavors); reason != "" {
			p.Unplaceable = append(p.Unplaceable, Unplaceable{Pod: pod.Name, Reason: reason})
			continue
		}
		pending = append(pending, pod)
	}
	queues := newQueues(pending, flavors)
	numbers := map[string]int{}
	for left := len(pending); left > 0; {
		if opts.MaxMachines > 0 && len(p.Machines) == opts.MaxMachines {
			p.refuse(queues, pending, opts.MaxMachines)
			return true
		}
		m, members := bestPurchase(queues, pending, flavors)
		m.Name = fmt.Sprintf("%s-%d", m.Flavor, numbers[m.Flavor])
		numbers[m.Flavor]++
		for _, at := range members {
			queues.remove(at)
			m.Pods = append(m.Pods, pending[at].Name)
			p.Assignments = append(p.Assignments, Assignment{Pod: pending[at].Name, Machine: m.Name})
		}
		left -= len(members)
		p.Machines = append(p.Machines, m)
		p.MicroDollarsPerHour += m.MicroDollarsPerHour
		if enough != nil && enough(&m) {
			return false
		}
	}
	return true
}

// refuse makes all pods unplaceable that are still pending.
func (p *Plan) refuse(queues queues, pending []Pod, limit int) {
	reason := limitReached(limit)
	for at := range pending {
		if !queues.removed[at] {
			p.Unplaceable = append(p.Unplaceable, Unplaceable{Pod: pending[at].Name, Reason: reason})
		}
	}
}

func limitReached(limit int) string {
	return fmt.Sprintf("the plan may buy no more than %d machines", limit)
}

func (p *Plan) sort() {
	slices.SortFunc(p.Assignments, func(a, b Assignment) int { return cmp.Compare(a.Pod, b.Pod) })
	slices.SortFunc(p.Unplaceable, func(a, b Unplaceable) int { return cmp.Compare(a.Pod, b.Pod) })
}

// candidate is a flavor with the pods that one machine of it would take.
type candidate struct {
	flavor  Flavor
	members []int
	used    packing.Size
	// worth is the score's numerator in an arbitrary unit that all candidates of
	// one purchase share.
	worth *big.Int
}

// bestPurchase returns the machine with the highest score and the places of its
// pods in pending, one at least. Some pod must be pending, and every pending pod
// must fit some flavor.
func bestPurchase(queues queues, pending []Pod, flavors []Flavor) (Machine, []int) {
	var candidates []candidate
	var most packing.Size
	for i, f := range flavors {
		members, used := queues.pack(i, f, pending)
		if len(members) == 0 {
			continue
		}
		candidates = append(candidates, candidate{flavor: f, members: members, used: used})
		most.MilliCPU = max(most.MilliCPU, used.MilliCPU)
		most.MemoryBytes = max(most.MemoryBytes, used.MemoryBytes)
	}
	// Where nothing of a resource is used, any divisor gives 0.
	most.MilliCPU, most.MemoryBytes = max(most.MilliCPU, 1), max(most.MemoryBytes, 1)
	for i := range candidates {
		candidates[i].worth = worth(candidates[i].used, most)
	}
	best := slices.MinFunc(candidates, compareCandidates)
	return best.machine(most, len(candidates)), best.members
}

// worth returns c/C + m/M times C·M.
func worth(used, most packing.Size) *big.Int {
	cpu := new(big.Int).Mul(big.NewInt(used.MilliCPU), big.NewInt(most.MemoryBytes))
	memory := new(big.Int).Mul(big.NewInt(used.MemoryBytes), big.NewInt(most.MilliCPU))
	return cpu.Add(cpu, memory)
}

// compareCandidates orders by score descending, then price, then name.
func compareCandidates(a, b candidate) int {
	pa, pb := a.flavor.MicroDollarsPerHour, b.flavor.MicroDollarsPerHour
	if pa > 0 && pb > 0 {
		left := new(big.Int).Mul(a.worth, big.NewInt(pb))
		right := new(big.Int).Mul(b.worth, big.NewInt(pa))
		if c := right.Cmp(left); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(pa, pb), cmp.Compare(a.flavor.Name, b.flavor.Name))
}

func (c candidate) machine(most packing.Size, candidates int) Machine {
	m := Machine{
		Flavor: c.flavor.Name, Used: c.used, MicroDollarsPerHour: c.flavor.MicroDollarsPerHour,
		CPU:    float64(c.used.MilliCPU) / float64(most.MilliCPU),
		Memory: float64(c.used.MemoryBytes) / float64(most.MemoryBytes),
	}
	m.Score = (m.CPU + m.Memory) / 2 / (float64(m.MicroDollarsPerHour) / 1e6)
	if m.MicroDollarsPerHour == 0 {
		m.Reason = fmt.Sprintf("costs nothing and takes %d of the pending pods", len(c.members))
		return m
	}
	m.Reason = fmt.Sprintf("best score of %d flavors: %d pods use %.3f of the most CPU and %.3f of the most memory for $%.4f/h",
		candidates, len(c.members), m.CPU, m.Memory, float64(m.MicroDollarsPerHour)/1e6)
	return m
}

// unplaceable returns why no flavor holds a pod, or nothing if one does.
func unplaceable(p Pod, flavors []Flavor) string {
	if negative(p) {
		return fmt.Sprintf("asks for a negative amount: CPU %dm, memory %d bytes", p.Size.MilliCPU, p.Size.MemoryBytes)
	}
	if len(flavors) == 0 {
		return "there are no flavors to buy"
	}
	var most packing.Size
	suitable := false
	for _, f := range flavors {
		if !suits(p.Arch, f.Arch) {
			continue
		}
		if p.Size.Fits(f.Size) {
			return ""
		}
		suitable = true
		most.MilliCPU, most.MemoryBytes = max(most.MilliCPU, f.Size.MilliCPU), max(most.MemoryBytes, f.Size.MemoryBytes)
	}
	switch {
	case !suitable:
		return fmt.Sprintf("needs architecture %s, which no flavor has", p.Arch)
	case p.Size.MilliCPU > most.MilliCPU:
		return fmt.Sprintf("asks for CPU %dm, the most that a flavor has for it is %dm", p.Size.MilliCPU, most.MilliCPU)
	case p.Size.MemoryBytes > most.MemoryBytes:
		return fmt.Sprintf("asks for %d bytes of memory, the most that a flavor has for it is %d", p.Size.MemoryBytes, most.MemoryBytes)
	default:
		return fmt.Sprintf("no one flavor has both CPU %dm and %d bytes of memory", p.Size.MilliCPU, p.Size.MemoryBytes)
	}
}

func negative(p Pod) bool { return p.Size.MilliCPU < 0 || p.Size.MemoryBytes < 0 }

// suits reports whether a pod of one architecture runs on a machine of the other.
func suits(pod, machine string) bool { return pod == "" || pod == machine }

// sorted returns a copy of the pods in the order they choose.
func sorted(pods []Pod, order Order) []Pod {
	compare := packing.LargestFirst
	if order == Batch {
		compare = packing.LongestFirst
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b Pod) int { return compare(a.Item, b.Item) })
	return pods
}
