package planner

import (
	"cmp"
	"math"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// Request is what [Supercargo] is asked.
type Request struct {
	// Pods are those that found no room. Their names are unique.
	Pods []Pod
	// Nodes are machines that are there or on their way, with room to fill first.
	Nodes []ExistingNode
	// Flavors can be bought.
	Flavors []Flavor
	// Limits bound what is bought.
	Limits cluster.Limits
	// Options say for how long machines are paid and how long to search.
	// MaxMachines counts like Limits.Machines.
	Options MixOptions
	// Stop is asked now and then whether to return the best plan so far; nil never
	// stops. A plan is whole as soon as the first one is found, which Stop cannot
	// prevent.
	Stop func() bool
}

// ExistingNode is a node that is there, or on its way, and paid for already.
type ExistingNode struct {
	// Name is unique among the nodes.
	Name string
	// Free is what pods can still use of it.
	Free packing.Size
	// Places is how many more pods it takes; nil for any number.
	Places *int64
	// Arch and Host are as for [Flavor].
	Arch string
	Host *constraint.Host
	// Pods are what those on it demand of others, and look like to others; nil ones
	// demand nothing and look like nothing.
	Pods []*constraint.Pod
}

// NodeOf is a node with that room left, and with so many pods.
func NodeOf(n *cluster.Node, free packing.Size, pods int) ExistingNode {
	e := ExistingNode{Name: n.Name, Free: free, Arch: n.Arch, Host: n.Host}
	if n.MaxPods != nil {
		e.Places = new(max(0, *n.MaxPods-int64(pods)))
	}
	for i := range n.Pods {
		e.Pods = append(e.Pods, n.Pods[i].Demands)
	}
	return e
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

// Supercargo plans the cheapest machines it can find for the pods that the nodes have no
// room for, where a machine is paid from when it is bought until its longest pod ends:
//
//	bill = Σ price · [MixOptions.Paid](longest runtime on the machine)
//
// So pods without a runtime get machines with the lowest price per hour, and batch pods
// are grouped by runtime besides. Of plans with the same bill, the one with fewer
// machines is better. Where limits leave pods out, plans that leave fewer out come
// first, however long or large these are.
//
// Nodes are filled first, since they cost nothing more. Pods go where their constraints
// let them go, by the rules of kube-scheduler: what a host must be like is known of each
// flavor; pods that keep apart on hosts or depend on domains such as zones are assigned to these
// and bought for together with all others, no two that keep apart on one machine; those that
// depend on others of their host in other ways are placed one by one, and others
// fill up what those leave. docs/planner.md says how the rest is bought, and why the
// lower bound is one.
//
// Up to 12 pods, none of them coupled to others, the plan is the best there is, but for
// limits of what is bought other than the number of machines. No plan is dearer than
// that of [Greedy], in either order, for the same pods and flavors without nodes,
// constraints or maxima. With coupled pods and no limits, no plan leaves more pods out
// than first fit by the same rules does, or is dearer.
//
// Bills are compared in exact integers. The plan does not depend on the order of the
// arguments, and is the same if all prices are multiplied by a number, and on any
// computer, unless it is stopped. Equal pods go by arrival, then name; equal flavors by
// price, then name; other ties by a fixed order of sizes. Machines come in this order:
// those for coupled pods; then those paid for longest, cheapest, first by flavor. Names
// of pods within a machine are ordered.
//
// The arguments are not modified. Cost: that of [Greedy] for the machines it buys before
// it must be dearer, O(steps) for Options.Effort, and O(k·f) for k kinds of pods and f
// flavors that no cheaper one replaces, each time prices are worked out; O(n·m) for n
// coupled pods on m machines. Memory: O(n + f + k), and O(k²) if 50·k³ steps are
// allowed.
func Supercargo(r Request) Result {
	result, coupled := r.plan(true)
	if !coupled || r.stop()() {
		return result
	}
	if len(result.Unplaceable) > 0 {
		other, _ := r.plan(false)
		result = better(result, other)
	}
	limit := int64(math.MaxInt64)
	if len(result.Unplaceable) == 0 {
		limit = result.MicroDollarsPerHour
	}
	if other, ok := r.firstFit(limit); ok {
		result = better(result, other.result())
	}
	return result
}

// plan makes a plan, and reports whether there are coupled pods: it buys for them together with
// all others as far as that can be, or for one after the other.
func (r *Request) plan(together bool) (result Result, coupled bool) {
	d := newDraft(r)
	d.placeCoupled(together)
	d.fillRooms()
	d.buy()
	d.repair()
	d.shrink()
	return d.result(), d.tracker != nil
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
