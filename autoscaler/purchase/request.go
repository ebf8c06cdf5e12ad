package purchase

import (
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// Request is the input of [Supercargo].
type Request struct {
	// Pods are the pods that found no room. Their names must be unique.
	Pods []Pod
	// Nodes are existing or ordered machines, whose room is filled first.
	Nodes []ExistingNode
	// Flavors are the flavors that can be bought.
	Flavors []Flavor
	// Zones are the numbers of machines in each zone, the existing and the ordered ones: of equal flavors, the machines
	// are bought in the zone that has the fewest. nil means none.
	Zones map[string]int
	// Spreads are the numbers of pods that a soft topology spread constraint counts, by zone, on existing nodes: see
	// [SpreadShare]. nil means none.
	Spreads map[string]map[string]int
	// Limits bound the machines to buy.
	Limits cluster.Limits
	// Options set the billed time of machines and the effort of the search. MaxMachines counts like Limits.Machines.
	Options MixOptions
	// Stop is polled; once it returns true, the best plan so far is returned. nil never stops. Plans are complete once
	// the first one is found, which Stop cannot prevent.
	Stop func() bool
}

// ExistingNode is a node that exists or is on order, and is already paid for.
type ExistingNode struct {
	// Name is unique among the nodes.
	Name string
	// Free are the resources that pods can still use.
	Free packing.Size
	// Places is how many more pods the node takes; nil means any number.
	Places *int64
	// Arch and Host are as in [Flavor].
	Arch string
	Host *constraint.Host
	// Pods are the constraints and labels of the pods on the node; nil ones have neither.
	Pods []*constraint.Pod

	// flavor is the name of the flavor if the node is a machine of a plan in progress; else empty.
	flavor string
}

// NodeOf converts a node that has the given free room and number of pods.
func NodeOf(n *cluster.Node, free packing.Size, pods int) ExistingNode {
	e := ExistingNode{Name: n.Name, Free: free, Arch: n.Arch, Host: n.Host}
	if n.MaxPods != nil {
		e.Places = new(max(0, *n.MaxPods-int64(pods)))
	}
	e.Pods = slices.Grow(e.Pods, len(n.Pods))
	for i := range n.Pods {
		e.Pods = append(e.Pods, n.Pods[i].Demands)
	}
	return e
}

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
	// Effort is the approximate number of steps that the search may take, and a quarter more for 500 pods or more while
	// their plan may be more than one percent too expensive. A step is some nanoseconds of work, such as checking
	// whether a pod fits a machine. 0 means 12,000,000 plus 20,000 for each pod, up to 72,000,000. The same effort gives
	// the same plan on any computer. Some work does not depend on it.
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

// limited reports whether there is any limit on purchases.
func (r *Request) limited() bool {
	return newBudget(r.Limits, r.Options).Limited() || slices.ContainsFunc(r.Flavors, func(f Flavor) bool { return f.Most != nil })
}

// constrained reports whether there is anything that [Greedy] ignores.
func (r *Request) constrained() bool {
	return slices.ContainsFunc(r.Pods, func(p Pod) bool { return p.Demands != nil || p.Except != nil }) ||
		slices.ContainsFunc(r.Flavors, func(f Flavor) bool { return f.Most != nil || f.GPUs.Any })
}

func (r *Request) stop() func() bool {
	if r.Stop == nil {
		return func() bool { return false }
	}
	return r.Stop
}
