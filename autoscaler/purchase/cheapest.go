package purchase

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Supercargo plans the cheapest machines that it can find for the pods for which the nodes have no room. A machine is
// billed from its purchase until its longest pod ends:
//
//	bill = Σ price · [MixOptions.Paid](longest runtime on the machine)
//
// Pods without a runtime therefore get machines with the lowest price per hour, and batch pods are also grouped by
// runtime. Of plans with the same bill, the one with fewer machines is better. If limits leave pods out, plans that
// leave out fewer pods come first, whatever their runtimes and sizes.
//
// Machines with GPUs are bought for pods that request GPUs, and first: the other pods fill what is left of them, and no
// machine with GPUs is bought for these.
//
// Nodes are filled first, because they cost nothing more. Pods are placed according to their constraints, by the rules
// of kube-scheduler. The node properties of each flavor are known. Pods that repel each other on nodes or depend on
// domains such as zones are assigned to domains and bought for together with all others, and no two pods that repel
// each other share a machine. Pods with other dependencies on pods of their node are placed one by one, and others fill
// the remaining room. docs/planner.md describes how the rest is bought, and why the lower bound holds.
//
// With up to 12 pods, none of them coupled to others, the plan is optimal, except under limits other than the number of
// machines. No plan is more expensive than that of [Greedy], in either order, for the same pods and flavors without
// nodes, constraints or maxima. With coupled pods and no limits, no plan leaves out more pods, or is more expensive,
// than first fit by the same rules.
//
// Bills are compared in exact integers. The plan does not depend on the order of the arguments, and is the same if all
// prices are multiplied by a number, and on any computer, unless it is stopped. Equal pods are ordered by arrival, then
// name; equal flavors by price, then name; other ties by a fixed order of sizes. Machines come in this order: those for
// pods that request GPUs; those for coupled pods; then by billed time, longest first, then cheapest, then by flavor. Names of
// pods within a machine are ordered.
//
// The arguments are not modified. Cost: that of [Greedy] for the machines it buys before it must be more expensive,
// O(steps) for Options.Effort, and O(k·f) for each calculation of prices, for k kinds of pods and f flavors that no
// cheaper one replaces; O(n·m) for n coupled pods on m machines. Memory: O(n + f + k), and O(k²) if 50·k³ steps are
// allowed.
func Supercargo(r Request) Result {
	if some, others := r.byGPUs(); len(some) > 0 && len(others) > 0 {
		return r.forGPUsFirst(some, others)
	}
	return r.cheapest()
}

// cheapest is [Supercargo] without a separate plan for the pods that request GPUs.
func (r Request) cheapest() Result {
	r.Flavors = withoutLooseLimits(r.Flavors, len(r.Pods))
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

// Larger returns the plan that would be the cheapest if each machine cost overhead micro-dollars per hour more: fewer and
// larger machines than those of [Supercargo]. overhead must not be negative. Prices, reasons and the sum of the plan are without
// it. A limit in dollars counts it, so the plan may leave out pods that [Supercargo] has machines for.
//
// Cost: that of [Supercargo].
func Larger(r Request, overhead int64) Plan {
	sold, runtimes := map[string]*Flavor{}, map[string]time.Duration{}
	for i := range r.Flavors {
		sold[r.Flavors[i].Name] = &r.Flavors[i]
	}
	for i := range r.Pods {
		runtimes[r.Pods[i].Name] = r.Pods[i].Runtime
	}
	r.Flavors = slices.Clone(r.Flavors)
	for i := range r.Flavors {
		price := &r.Flavors[i].MicroDollarsPerHour
		*price += min(overhead, math.MaxInt64-*price)
	}
	plan := Supercargo(r).Plan
	plan.MicroDollarsPerHour = 0
	for i := range plan.Machines {
		m := &plan.Machines[i]
		paid := time.Duration(0)
		for _, pod := range m.Pods {
			paid = max(paid, r.Options.Paid(runtimes[pod]))
		}
		name := m.Name
		*m = machineOf(sold[m.Flavor], m.Pods, m.Used, paid)
		m.Name = name
		plan.MicroDollarsPerHour += m.MicroDollarsPerHour
	}
	return plan
}

// withoutLooseLimits returns the flavors without the limits that cannot bind, since no plan has more machines than pods.
// Flavors that another dominates can then be left out: with a limit on each of 800 flavors, plans took longer and cost
// more.
func withoutLooseLimits(flavors []Flavor, pods int) []Flavor {
	loose := func(f Flavor) bool { return f.Most != nil && *f.Most >= pods }
	if !slices.ContainsFunc(flavors, loose) {
		return flavors
	}
	flavors = slices.Clone(flavors)
	for i := range flavors {
		if loose(flavors[i]) {
			flavors[i].Most = nil
		}
	}
	return flavors
}

// plan makes a plan, and reports whether there are coupled pods. It buys for the coupled pods together with all others
// as far as possible, or for one after the other.
func (r *Request) plan(together bool) (result Result, coupled bool) {
	d := newDraft(r)
	d.placeCoupled(together)
	d.fillRooms()
	d.buy()
	d.repair()
	d.shrink()
	return d.result(), d.tracker != nil
}

// better returns the result that leaves out fewer pods, then the cheaper one, then the first.
func better(a, b Result) Result {
	if cmp.Or(cmp.Compare(len(b.Unplaceable), len(a.Unplaceable)), cmp.Compare(b.MicroDollarsPerHour, a.MicroDollarsPerHour)) < 0 {
		return b
	}
	return a
}
