package purchase

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
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
// A machine that may be interrupted counts with its expected cost instead of its price: see [AtExpectedCost]. It is not
// bought for a pod that would lose more work on it than a machine that is not interrupted costs. Prices and sums of the plan are
// without the loss; a limit in dollars and the lower bound count it.
//
// The arguments are not modified. Cost: that of [Greedy] for the machines it buys before it must be more expensive,
// O(steps) for Options.Effort, and O(k·f) for each calculation of prices, for k kinds of pods and f flavors that no
// cheaper one replaces; O(n·m) for n coupled pods on m machines. Memory: O(n + f + k), and O(k²) if 50·k³ steps are
// allowed.
func Supercargo(r Request) Result {
	if slices.ContainsFunc(r.Flavors, func(f Flavor) bool { return f.Interruptions > 0 }) {
		return r.withLosses()
	}
	return r.supercargo()
}

// supercargo is [Supercargo] at the prices of the flavors.
func (r Request) supercargo() Result {
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
	raised := r
	raised.Flavors = slices.Clone(r.Flavors)
	for i := range raised.Flavors {
		price := &raised.Flavors[i].MicroDollarsPerHour
		*price += min(overhead, math.MaxInt64-*price)
	}
	plan := Supercargo(raised).Plan
	r.restorePrices(&plan)
	return plan
}

// restorePrices gives the machines of a plan that was made at other prices the prices and reasons of the request.
func (r *Request) restorePrices(plan *Plan) {
	sold, runtimes := map[string]*Flavor{}, map[string]time.Duration{}
	for i := range r.Flavors {
		sold[r.Flavors[i].Name] = &r.Flavors[i]
	}
	for i := range r.Pods {
		runtimes[r.Pods[i].Name] = r.Pods[i].Runtime
	}
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
}

// withLosses is [Supercargo] for flavors of which some may be interrupted.
func (r Request) withLosses() Result {
	r.Flavors = withoutLooseLimits(r.Flavors, len(r.Pods))
	counted := r
	counted.Pods = r.keptFromLosses()
	counted.Flavors = AtExpectedCost(r.Flavors, counted.Pods, r.Options)
	// The bound is that of the expected cost: no price is lower by more than the greatest share that is lost.
	share := 1.0
	for i := range r.Flavors {
		if dear := counted.Flavors[i].MicroDollarsPerHour; dear > 0 {
			share = min(share, float64(r.Flavors[i].MicroDollarsPerHour)/float64(dear))
		}
		counted.Flavors[i].Interruptions = 0
	}
	result := counted.supercargo()
	r.restorePrices(&result.Plan)
	result.LowerBoundMicroDollarsPerHour = int64(share * float64(result.LowerBoundMicroDollarsPerHour))
	result.Gap = Gap(result.MicroDollarsPerHour, result.LowerBoundMicroDollarsPerHour)
	return result
}

// AtExpectedCost returns the flavors at their expected cost while pods run on them:
//
//	cost = price · (1 + rate · setup + Σ weight · repeated / Σ weight)
//
// The second term is the time for which two machines are paid because the one that replaces an interrupted one starts. The
// third is the work that is repeated: see [capacity.Repeated]. It is 0 for pods that are moved with their state, and for
// services. The sum is over the pods that may run on the flavor by their exceptions; the weight of a pod is its CPU, of which
// 4 GiB of memory count as one core. A batch pod without a runtime counts with [MixOptions.Unbounded].
//
// Cost: O(pods + k·f) for k kinds of pods and f flavors that may be interrupted.
func AtExpectedCost(flavors []Flavor, pods []Pod, o MixOptions) []Flavor {
	kinds := kindsOfLoss(pods)
	flavors = slices.Clone(flavors)
	for i := range flavors {
		f := &flavors[i]
		if f.Interruptions <= 0 {
			continue
		}
		var waste, weight float64
		for k := range kinds {
			if kind := &kinds[k]; kind.excepted(f) == "" {
				waste += float64(kind.weight * float64(repeats(f, &kind.Pod, o))) // not fused, so that the plan is the same on any computer
				weight += kind.weight
			}
		}
		if weight > 0 {
			waste /= weight
		}
		f.MicroDollarsPerHour = capacity.WithWaste(f.MicroDollarsPerHour, int64(waste)+capacity.Paused(f.Interruptions, o.Setup))
	}
	return flavors
}

// repeats returns the share of a pod's work that is expected to be repeated on machines of a flavor, in millionths.
func repeats(f *Flavor, p *Pod, o MixOptions) int64 {
	if !p.Repeats {
		return 0
	}
	return capacity.Repeated(f.Interruptions, cmp.Or(max(p.Runtime, 0), max(o.Unbounded, 0), DefaultUnbounded))
}

// lossKind are the pods that lose the same, and that the same flavors take.
type lossKind struct {
	Pod
	weight float64
	pods   []int
}

// kindsOfLoss groups pods, in the order of their first.
func kindsOfLoss(pods []Pod) []lossKind {
	type key struct {
		demands *constraint.Pod
		except  *Exceptions
		arch    string
		runtime time.Duration
		repeats bool
		gpus    bool
	}
	var kinds []lossKind
	at := map[key]int{}
	for i := range pods {
		p := &pods[i]
		k := key{p.Demands, p.Except, p.Arch, 0, p.Repeats, p.Size.Extended != (packing.Extended{})}
		if p.Repeats {
			k.runtime = p.Runtime
		}
		if _, known := at[k]; !known {
			at[k] = len(kinds)
			kinds = append(kinds, lossKind{Pod: *p})
		}
		kind := &kinds[at[k]]
		kind.weight += float64(1 + max(p.Size.MilliCPU, 0) + max(p.Size.MemoryBytes, 0)/(4<<30/1000))
		kind.pods = append(kind.pods, i)
	}
	return kinds
}

// keptFromLosses returns the pods of a request with exceptions for the flavors on which they are expected to lose more than
// they save: another flavor that is not interrupted, is no smaller, takes the pod, in the same zone, and has enough machines
// costs no more. Pods of a kind share the exceptions.
//
// Cost: O(pods + k·s·f) for k kinds of pods, s flavors that may be interrupted, and f others.
func (r *Request) keptFromLosses() []Pod {
	pods := slices.Clone(r.Pods)
	for _, kind := range kindsOfLoss(pods) {
		if !kind.Repeats {
			continue
		}
		except := Exceptions{Flavors: map[string]string{}}
		if kind.Except != nil {
			maps.Copy(except.Flavors, kind.Except.Flavors)
		}
		known := len(except.Flavors)
		for i := range r.Flavors {
			f := &r.Flavors[i]
			cost := capacity.WithWaste(f.MicroDollarsPerHour, repeats(f, &kind.Pod, r.Options)+capacity.Paused(f.Interruptions, r.Options.Setup))
			if f.Interruptions > 0 && slices.ContainsFunc(r.Flavors, func(o Flavor) bool { return steadier(&o, f, cost) && kind.admittedBy(&o) == "" }) {
				except.Flavors[f.Name] = losesMore
			}
		}
		if len(except.Flavors) == known {
			continue
		}
		for _, at := range kind.pods {
			pods[at].Except = &except
		}
	}
	return pods
}

// losesMore is why a flavor is not bought for a pod.
const losesMore = "it may be interrupted, and the work that the pod is expected to repeat costs more than it saves"

// steadier reports whether a flavor is bought instead of another that may be interrupted and has an expected cost.
func steadier(f, other *Flavor, cost int64) bool {
	return f.Interruptions <= 0 && f.Most == nil && f.MicroDollarsPerHour <= cost && other.Size.Fits(f.Size) && f.Arch == other.Arch &&
		zoneOf(f.Host) == zoneOf(other.Host)
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
