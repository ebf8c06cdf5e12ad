// Package purchase decides which machines to buy for unschedulable pods.
//
// [Supercargo] searches for the cheapest machines that hold all pods together. It fills existing nodes first, respects
// the placement constraints of pods, and returns a lower bound of the price of any plan. [Greedy] is the algorithm of
// the HTAS paper for services (Zhong and Buyya, ACM TOIT 2020, section 5.2); no plan of Supercargo is more expensive.
// Where the paper adds and subtracts totals, as if a pod could span machines, Greedy packs whole pods, so that each
// machine of a [Plan] comes with the pods that it is bought for.
//
// The package buys nothing itself and has no client. Every function is pure and deterministic: the order of its
// arguments does not matter, and ties are broken as documented.
package purchase

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// Pod is a pod that needs a machine. It has the fields of [cluster.Pod] that a purchase depends on, because a search
// copies and compares thousands of pods, and pods that are equal here are treated alike.
type Pod struct {
	// Item is the pod's unique name and its requests. A pod with a negative request is unplaceable.
	packing.Item
	// Arch is the CPU architecture that the pod needs, as in GOARCH; empty means any.
	Arch string
	// Demands are its other placement constraints; nil means none. Only [Supercargo] respects them.
	Demands *constraint.Pod
	// Except are flavors that must not be bought for the pod; nil means none. Only [Supercargo] respects them. Pods
	// with the same exceptions should share the pointer.
	Except *Exceptions
	// OnlyBought excludes the existing nodes for the pod. Only [Supercargo] respects it.
	OnlyBought bool
}

// PodOf converts a pod for the planner. A pod with a guessed runtime gets no runtime.
func PodOf(p *cluster.Pod) Pod {
	pod := Pod{Item: p.Item, Arch: p.Arch, Demands: p.Demands}
	if p.Guessed {
		pod.Runtime = 0
	}
	return pod
}

// Exceptions are flavors that are not bought for a pod although they seem to hold it.
type Exceptions struct {
	// Flavors are the names of the flavors, with the reasons.
	Flavors map[string]string
}

// Flavor is a kind of machine that can be bought. Its name is the last tie-break. Its price must not be negative; a
// free flavor scores above all others. The nodes of a flavor without a Host have no labels and taints. Only
// [Supercargo] respects Most.
type Flavor = cluster.Flavor

// Order is the order in which pods are packed, which decides which pods a machine takes if it cannot take all.
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
	// Order is the order in which pods are packed.
	Order Order
	// MaxMachines is the maximum number of machines to buy; 0 means no maximum. Pods beyond it are unplaceable.
	MaxMachines int
}

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

// Greedy buys one machine after the other until every pod has one (paper, algorithm 3). In each step it packs the pods
// still pending into one empty machine of each flavor, in the order of opts.Order, skipping pods that no longer fit,
// and buys the flavor with the highest score:
//
//	score = (c/C + m/M) / 2 / price
//
// where c and m are the CPU and memory that the packed pods would really take, C and M the maxima of c and m over the
// candidate flavors, and price is that of one machine per hour. The packed pods are then no longer pending.
//
// Dividing by the flavor's own capacity instead would favour the cheapest flavor for any load. A resource that no
// pending pod requests counts 0. A flavor that holds no pending pod is no candidate. Pods that no flavor holds are
// unplaceable. Ties: lower price, then name.
//
// No machine is over-filled, max pods included. The arguments are not modified.
//
// Cost: O(n·log n) for n pods, plus O(log n) for each pod packed on trial: about n·f of them for f flavors of similar
// size, up to n·f times as many as the largest machine takes if the smallest are bought. See queue for the worst case.
func Greedy(pods []Pod, flavors []Flavor, opts Options) Plan {
	var plan Plan
	plan.buy(pods, flavors, opts, nil)
	plan.sort()
	return plan
}

// buy adds machines for the pods, or the reasons why there are none. If enough is not nil and accepts a machine, buy
// stops after it and returns false.
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

// refuse makes all pending pods unplaceable.
func (p *Plan) refuse(queues queues, pending []Pod, limit int) {
	reason := limitReached(limit)
	for at := range pending {
		if !queues.removed[at] {
			p.Unplaceable = append(p.Unplaceable, Unplaceable{Pod: pending[at].Name, Reason: reason})
		}
	}
}

func limitReached(limit int) string {
	return fmt.Sprintf("the plan may buy at most %d machines", limit)
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
	// worth is the numerator of the score, in an arbitrary unit shared by all candidates of one purchase.
	worth *big.Int
}

// bestPurchase returns the machine with the highest score and the indices of its pods in pending, at least one. Some
// pod must be pending, and every pending pod must fit some flavor.
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
	// If none of a resource is used, any divisor gives 0.
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
		m.Reason = fmt.Sprintf("costs nothing and holds %d of the pending pods", len(c.members))
		return m
	}
	m.Reason = fmt.Sprintf("best score of %d flavors: %d pods use %.3f of the most CPU and %.3f of the most memory for $%.4f/h",
		candidates, len(c.members), m.CPU, m.Memory, float64(m.MicroDollarsPerHour)/1e6)
	return m
}

// unplaceable returns why no flavor holds a pod, or "" if one does.
func unplaceable(p Pod, flavors []Flavor) string {
	if negative(p) {
		return fmt.Sprintf("requests a negative amount: CPU %dm, memory %d bytes", p.Size.MilliCPU, p.Size.MemoryBytes)
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
		return fmt.Sprintf("requests CPU %dm, but the largest flavor for it has %dm", p.Size.MilliCPU, most.MilliCPU)
	case p.Size.MemoryBytes > most.MemoryBytes:
		return fmt.Sprintf("requests %d bytes of memory, but the largest flavor for it has %d", p.Size.MemoryBytes, most.MemoryBytes)
	default:
		return fmt.Sprintf("no flavor has both CPU %dm and %d bytes of memory", p.Size.MilliCPU, p.Size.MemoryBytes)
	}
}

func negative(p Pod) bool { return p.Size.MilliCPU < 0 || p.Size.MemoryBytes < 0 }

// suits reports whether a pod of one architecture runs on a machine of the other.
func suits(pod, machine string) bool { return pod == "" || pod == machine }

// sorted returns a copy of the pods in the order in which they are packed.
func sorted(pods []Pod, order Order) []Pod {
	compare := packing.LargestFirst
	if order == Batch {
		compare = packing.LongestFirst
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b Pod) int { return compare(a.Item, b.Item) })
	return pods
}
