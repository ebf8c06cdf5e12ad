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
	// Spread is the soft topology spread constraint over zones, as a key of [Request.Spreads]; empty if there is none. Only
	// [Supercargo] respects it.
	Spread string
	// OnlyBought excludes the existing nodes for the pod. Only [Supercargo] respects it.
	OnlyBought bool
	// Repeats means that the pod begins its work again when its machine is interrupted. Only [Supercargo] respects it.
	Repeats bool
}

// PodOf converts a pod for the planner, with the requests of its successor. A pod with a guessed runtime gets no runtime.
func PodOf(p *cluster.Pod) Pod {
	pod := Pod{Item: p.Elsewhere().Item, Arch: p.Arch, Demands: p.Demands, Spread: p.Spread, Repeats: p.Repeats}
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

// negative reports whether the pod requests a negative amount. Extended resources cannot be negative.
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

var bareHost = &constraint.Host{}

// admittedBy returns why no machine of a flavor admits the pod, or "".
func (p *Pod) admittedBy(f *Flavor) string {
	if why := p.unsuited(f); why != "" {
		return why
	}
	if why := p.excepted(f); why != "" {
		return why
	}
	if !f.ServesGPUs(p.Size) {
		return onlyForGPUs
	}
	if p.Demands == nil {
		return ""
	}
	return p.Demands.Admits(hostOf(f.Host))
}

// onlyForGPUs says that a flavor has GPUs, and is not bought for a pod without any.
const onlyForGPUs = "it has GPUs, and the pod requests none of them"

// unsuited says that the pod needs another architecture than that of a flavor, or returns "".
func (p *Pod) unsuited(f *Flavor) string {
	if suits(p.Arch, f.Arch) {
		return ""
	}
	return "needs architecture " + p.Arch
}

// excepted returns why a flavor must not be bought for the pod, or "".
func (p *Pod) excepted(f *Flavor) string {
	if p.Except == nil {
		return ""
	}
	return p.Except.Flavors[f.Name]
}

func hostOf(h *constraint.Host) *constraint.Host {
	if h == nil {
		return bareHost
	}
	return h
}
