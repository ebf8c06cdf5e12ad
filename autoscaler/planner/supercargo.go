package planner

import (
	"cmp"

	"supercargo.dev/supercargo/internal/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// Request is what [Supercargo] is asked.
type Request struct {
	// Pods are those that found no room. Their names are unique.
	Pods []Pod
	// Nodes are machines that are there or on their way, with room to fill first.
	Nodes []Standing
	// Flavors can be bought.
	Flavors []Flavor
	// Limits bound what is bought.
	Limits Limits
	// Options say for how long machines are paid and how long to search.
	// MaxMachines counts like Limits.Machines.
	Options MixOptions
	// Stop is asked now and then whether to return the best plan so far; nil never
	// stops. A plan is whole as soon as the first one is found, which Stop cannot
	// prevent.
	Stop func() bool
}

// Standing is a machine that is paid for already.
type Standing struct {
	// Name is unique among the nodes.
	Name string
	// Free is what pods can still use of it.
	Free packing.Size
	// Places is how many more pods it takes; less than 0 means any number.
	Places int64
	// Arch and Host are as for [Flavor].
	Arch string
	Host *constraint.Host
	// Pods are what those on it demand of others, and look like to others; nil ones
	// demand nothing and look like nothing.
	Pods []*constraint.Pod
}

// Limits are limits of what is bought, all machines together; 0 means none.
type Limits struct {
	Machines int
	// MilliCPU and MemoryBytes are of what pods can use of the machines.
	MilliCPU, MemoryBytes int64
	// MicroDollarsPerHour is of the price.
	MicroDollarsPerHour int64
}

// Result is a plan and how good it is.
type Result struct {
	Plan
	// LowerBoundMicroDollarsPerHour is what any machines cost that hold the pods that
	// are placed, together with the nodes.
	LowerBoundMicroDollarsPerHour int64
	// Gap is by how much the price of the plan is above that, as a part of it; 0 where
	// nothing is bought, and +Inf where the bound is 0 and the price is not.
	Gap float64
}

// Supercargo returns the cheapest machines it can find that hold all pods, and what
// any machines that hold them cost at least.
func Supercargo(r Request) Result {
	d := newDraft(&r)
	d.placeCoupled()
	d.fillRooms()
	d.buy()
	d.repair()
	d.shrink()
	result := d.result()
	if d.tracker != nil && !d.stop() {
		if other, ok := r.firstFit(); ok {
			result = better(result, other.result())
		}
	}
	return result
}

// better returns the result that leaves fewer pods out, or is cheaper, the first of
// equals.
func better(a, b Result) Result {
	if cmp.Or(cmp.Compare(len(b.Unplaceable), len(a.Unplaceable)), cmp.Compare(b.MicroDollarsPerHour, a.MicroDollarsPerHour)) < 0 {
		return b
	}
	return a
}

func (r *Request) stop() func() bool {
	if r.Stop == nil {
		return never
	}
	return r.Stop
}
