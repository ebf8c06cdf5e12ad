package purchase

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"supercargo.dev/supercargo/internal/packing"
)

// GreedyOptions adjust a plan of [Greedy]. The zero value plans for services and buys any number
// of machines.
type GreedyOptions struct {
	// Order is the order in which pods are packed.
	Order Order
	// MaxMachines is the maximum number of machines to buy; 0 means no maximum. Pods beyond it are unplaceable.
	MaxMachines int
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
// size, up to n·f times as many as the largest machine takes if the smallest are bought. See [packing.FirstFit] for the worst case.
func Greedy(pods []Pod, flavors []Flavor, opts GreedyOptions) Plan {
	var plan Plan
	plan.buy(pods, flavors, opts, nil)
	plan.sort()
	return plan
}

// buy adds machines for the pods, or the reasons why there are none. If enough is not nil and accepts a machine, buy
// stops after it and returns false.
func (p *Plan) buy(pods []Pod, flavors []Flavor, opts GreedyOptions, enough func(*Machine) bool) bool {
	ordered := sorted(pods, opts.Order)
	pending := make([]Pod, 0, len(ordered))
	for _, pod := range ordered {
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

// candidate is a flavor with the pods that one machine of it would take.
type candidate struct {
	flavor  *Flavor
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
	for i := range flavors {
		f := &flavors[i]
		members, used := queues.pack(f, pending)
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

func (c *candidate) machine(most packing.Size, candidates int) Machine {
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
	for i := range flavors {
		f := &flavors[i]
		if !suits(p.Arch, f.Arch) {
			continue
		}
		if p.Size.Fits(f.Size) {
			return ""
		}
		suitable = true
		most = most.Most(f.Size)
	}
	switch {
	case !suitable:
		return fmt.Sprintf("needs architecture %s, which no flavor has", p.Arch)
	case p.Size.MilliCPU > most.MilliCPU:
		return fmt.Sprintf("requests CPU %dm, but the largest flavor for it has %dm", p.Size.MilliCPU, most.MilliCPU)
	case p.Size.MemoryBytes > most.MemoryBytes:
		return fmt.Sprintf("requests %d bytes of memory, but the largest flavor for it has %d", p.Size.MemoryBytes, most.MemoryBytes)
	case !p.Size.Extended.Fits(most.Extended):
		return "requests more of an extended resource than any flavor has"
	default:
		return fmt.Sprintf("no flavor has both CPU %dm and %d bytes of memory", p.Size.MilliCPU, p.Size.MemoryBytes)
	}
}

// queues are the pending pods in packing order, once for each CPU architecture among the flavors: a pod is in the
// queues of the machines on which it runs.
type queues struct {
	// removed reports, by pending pod, whether a machine has taken it.
	removed []bool
	byArch  map[string]*packing.FirstFit
}

func newQueues(pending []Pod, flavors []Flavor) queues {
	q := queues{removed: make([]bool, len(pending)), byArch: map[string]*packing.FirstFit{}}
	for _, f := range flavors {
		if q.byArch[f.Arch] == nil {
			q.byArch[f.Arch] = new(packing.NewFirstFit(len(pending), func(at int) (packing.Size, bool) {
				return pending[at].Size, suits(pending[at].Arch, f.Arch)
			}))
		}
	}
	return q
}

// pack returns the pods that one machine of a flavor takes, in packing order, and the sum of their requests.
func (q queues) pack(f *Flavor, pending []Pod) ([]int, packing.Size) {
	var members []int
	free, steps := f.Size, 0
	for at := -1; f.Takes(len(members) + 1); {
		at = q.byArch[f.Arch].Next(at+1, &free, &steps)
		if at < 0 || at >= len(pending) {
			break
		}
		// An unlimited room holds even what is not in the queue.
		if !q.removed[at] && suits(pending[at].Arch, f.Arch) && pending[at].Size.Extended.Fits(free.Extended) {
			members = append(members, at)
			free = free.Minus(pending[at].Size)
		}
	}
	return members, f.Size.Minus(free)
}

// remove removes the pod at an index from all queues.
func (q queues) remove(at int) {
	q.removed[at] = true
	for _, one := range q.byArch {
		one.Clear(at)
	}
}
