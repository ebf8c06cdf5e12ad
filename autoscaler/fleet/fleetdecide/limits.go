package fleetdecide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/disruption"
	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/text/plural"
)

// left returns what the limits still allow. Machines that are being released count until they are no longer billed.
func (r *planning) left() cluster.Limits {
	left := r.c.Limits
	for i := range r.o.Flavors {
		f := &r.o.Flavors[i]
		left = left.Less(f.Ordered, f.Size, f.MicroDollarsPerHour)
	}
	for _, m := range r.all {
		if m.Leaving {
			f := r.flavors[m.Flavor]
			left = left.Less(1, f.Size, f.MicroDollarsPerHour)
		}
	}
	return left
}

// exhausted returns which limit of the fleet or of the seller is used up, or "".
func exhausted(left, quota cluster.Limits) string {
	if name := exceeded(left, quota, &Flavor{}); name != "" {
		return name + " is reached"
	}
	return ""
}

// exceeded returns which limit of the fleet or of the seller one more machine of a flavor exceeds, or "". Limits count whole
// machines.
func exceeded(left, quota cluster.Limits, f *Flavor) string {
	for _, l := range []struct {
		name string
		left *int64
		more int64
	}{
		{"the limit spec.limits.machines", left.Machines, 1}, {"the limit spec.limits.cpu", left.MilliCPU, f.Size.MilliCPU},
		{"the limit spec.limits.memory", left.MemoryBytes, f.Size.MemoryBytes}, {"the limit spec.limits.dollarsPerHour", left.MicroDollarsPerHour, f.MicroDollarsPerHour},
		{"the limit of the cloud project on machines", quota.Machines, 1}, {"the limit of the cloud project on CPUs", quota.MilliCPU, f.Sold.MilliCPU},
		{"the limit of the cloud project on memory", quota.MemoryBytes, f.Sold.MemoryBytes},
	} {
		if l.left != nil && (*l.left <= 0 || l.more > *l.left) {
			return l.name
		}
	}
	return ""
}

// reachMinimum adds to the state, as machines on order, those that flavors lack of their minimum and that can be ordered now.
// It returns what the limits of the fleet and of the seller allow besides them, and unmet, which says which of them would
// exceed a limit; empty if none would. A flavor that is not for sale, or is in back-off, is left as it is.
func (r *planning) reachMinimum(s *cluster.State) (left, quota cluster.Limits, unmet string) {
	left, quota, r.lacking = r.left(), r.o.Quota, map[string]int{}
	for i := range s.Flavors {
		f, sold := &s.Flavors[i], r.flavors[s.Flavors[i].Name]
		for n := sold.Min - sold.Want; n > 0 && f.Sells(1); n-- {
			if name := exceeded(left, quota, sold); name != "" {
				unmet = cmp.Or(unmet, fmt.Sprintf("flavor %s has fewer machines than its minimum of %d: one more would exceed %s", f.Name, sold.Min, name))
				break
			}
			left, quota = left.Less(1, sold.Size, sold.MicroDollarsPerHour), quota.Less(1, sold.Sold, 0)
			r.lacking[f.Name]++
			s.Nodes = append(s.Nodes, cluster.Node{
				Name: fmt.Sprintf("machine %d of %s", sold.Want+r.lacking[f.Name], f.Name), Flavor: f.Name, Class: r.c.Class,
				Capacity: f.Size, MaxPods: f.MaxPods, Arch: f.Arch, Host: f.Host, MicroDollarsPerHour: f.MicroDollarsPerHour,
				Phase: cluster.Ordered, Due: sold.Lag,
			})
			if f.Most != nil {
				f.Most = new(*f.Most - 1)
			}
		}
	}
	if len(r.lacking) > 0 {
		slices.SortFunc(s.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.Name, b.Name) })
	}
	return left, quota, unmet
}

// withhold marks the flavors as sold out of which one more machine exceeds a limit, and returns the limits by flavor.
func withhold(s *cluster.State, flavors map[string]*Flavor, left, quota cluster.Limits) map[string]string {
	over := map[string]string{}
	for i := range s.Flavors {
		f := &s.Flavors[i]
		if name := exceeded(left, quota, flavors[f.Name]); name != "" {
			over[f.Name], f.Most = name, new(0)
		}
	}
	return over
}

// limit marks the pods that some flavor could hold if more of it could be bought. over are the limits by flavor.
func (r *planning) limit(d *FleetDecision, over map[string]string) {
	for i := range d.Plan.Unplaceable {
		u := &d.Plan.Unplaceable[i]
		at := slices.IndexFunc(r.state.Pending, func(p cluster.Pod) bool { return p.Name == u.Pod })
		if u.Limited || at < 0 {
			continue
		}
		pod := purchase.PodOf(&r.state.Pending[at])
		pod.Except = r.m.lessons.Except(&r.state.Pending[at], r.now)
		for _, f := range r.state.Flavors {
			if f.Sells(1) || unsuited(&pod, []cluster.Flavor{f}) != "" {
				continue
			}
			if u.Limited = true; over[f.Name] != "" {
				u.Reason = fmt.Sprintf("one more machine of flavor %s would exceed %s", f.Name, over[f.Name])
			}
			break
		}
	}
}

// Leaving returns the number of machines that are being released or whose nodes the fleet drains.
func (o *Observation) Leaving() int {
	n := len(o.Drains)
	for i := range o.Machines {
		if o.Machines[i].Leaving {
			n++
		}
	}
	return n
}

// total returns the number of machines, without those that are being released.
func (r *planning) total() (machines int) {
	for i := range r.o.Flavors {
		machines += r.o.Flavors[i].Ordered
	}
	return machines
}

// leaving returns the number of machines that are being drained or released, and are not uncordoned in this round.
func (r *planning) leaving() int {
	leaving := r.o.Leaving()
	for _, d := range r.drained {
		if r.uncordoned[d.Node] {
			leaving--
		}
	}
	return leaving
}

// replacements returns the machines to replace, and says so if too many are unhealthy.
func (r *planning) replacements() []disruption.Replacement {
	var all []disruption.Machine
	for _, m := range r.all {
		if m.Leaving || m.OnOrder || m.NodeState == nil || !m.NodeState.Ready || m.NodeState.Deleted {
			continue
		}
		all = append(all, disruption.Machine{Node: m.Key, Age: r.now.Sub(m.Ordered), Drifted: m.Outdated && !m.RolledOut, Unhealthy: m.NodeState.Unhealthy})
	}
	due, held := r.c.Replace.Due(all)
	if held != "" {
		r.recordEvent(Event{true, v1alpha1.FleetReasonNodesUnhealthy, v1alpha1.ActionWait, held})
	}
	return due
}

// allowed returns how many more machines may be drained or released for each reason.
func (r *planning) allowed() map[v1alpha1.FleetBudgetReason]disruption.Allowance {
	if len(r.c.Budgets) == 0 {
		return nil
	}
	all := map[v1alpha1.FleetBudgetReason]disruption.Allowance{}
	for _, reason := range disruption.Reasons {
		a := disruption.Allowed(r.c.Budgets, reason, r.total(), r.now)
		a.Machines -= r.leaving()
		all[reason] = a
	}
	return all
}

// budget returns how many more machines may be drained or released.
func (r *planning) budget() int {
	total, leaving := r.total(), r.leaving()
	most, err := intstr.GetScaledValueFromIntOrPercent(&r.c.MaxUnavailable, total, true)
	if err != nil {
		return 0
	}
	return most - leaving
}

// spare returns the number of machines of each flavor above its minimum, without those that this round abandons.
func (r *planning) spare() map[string]int {
	spare := map[string]int{}
	for i := range r.o.Flavors {
		f := &r.o.Flavors[i]
		spare[f.Name] = f.Ordered - f.Min - r.gone[f.Name]
	}
	for _, d := range r.drained {
		if !r.uncordoned[d.Node] {
			spare[r.machines[d.Node].Flavor]--
		}
	}
	return spare
}

// least returns the minimum number of machines, by flavor.
func (r *planning) least() map[string]int {
	least := map[string]int{}
	for i := range r.o.Flavors {
		least[r.o.Flavors[i].Name] = r.o.Flavors[i].Min
	}
	return least
}

// order decides how many machines of each flavor to order, those that flavors lack of their minimum first. The plan counts
// machines without what DaemonSets use, but limits count whole machines: machines that would exceed a limit are left out, and
// an exchange is made completely or not at all.
func (r *planning) order() {
	d := &r.actions.Fleet
	left, quota := r.left(), r.o.Quota
	var orders []Order
	ordered := 0
	take := func(flavor string) (taken bool) {
		f := r.flavors[flavor]
		at := slices.IndexFunc(orders, func(o Order) bool { return o.Flavor == flavor })
		if at < 0 && r.c.MaxFlavors > 0 && len(orders)+r.fewer() >= r.c.MaxFlavors {
			return false // its pods are still pending in the next round
		}
		if over := exceeded(left, quota, f); over != "" { // the last check before money is spent
			d.Limit = cmp.Or(d.Limit, fmt.Sprintf("one more machine of flavor %s would exceed %s", flavor, over))
			return false
		}
		left, quota = left.Less(1, f.Size, f.MicroDollarsPerHour), quota.Less(1, f.Sold, 0)
		if at < 0 {
			at = len(orders)
			orders = append(orders, Order{flavor, f.Want, f.Want})
		}
		orders[at].To++
		ordered++
		return true
	}
	d.ToMinimum = map[string]int{}
	for _, flavor := range slices.Sorted(maps.Keys(r.lacking)) {
		for n := r.lacking[flavor]; n > 0 && take(flavor); n-- {
			d.ToMinimum[flavor]++
		}
	}
	ordered = 0
	for i := range d.Plan.Machines {
		take(d.Plan.Machines[i].Flavor)
	}
	if d.Exchange != nil {
		for i := range d.Exchange.Buy {
			take(d.Exchange.Buy[i].Flavor)
		}
		if ordered < len(d.Exchange.Buy) {
			d.Exchange, orders = nil, nil
		}
	}
	slices.SortFunc(orders, func(a, b Order) int { return cmp.Compare(a.Flavor, b.Flavor) })
	r.actions.Orders = orders
	r.remember()
}

// fewer returns the number of flavors of which this round wants fewer machines.
func (r *planning) fewer() int {
	n := 0
	for i := range r.actions.Abandoned {
		if r.actions.Abandoned[i].Fewer > 0 {
			n++
		}
	}
	return n
}

// moreMachines is how many more machines may be on order than all waiting pods would need if they had come at once.
// Instead, they may cost half as much more per hour: [need.allows].
const moreMachines = 2

// need is a number of machines and their price per hour.
type need struct {
	machines            int
	microDollarsPerHour int64
}

// add adds a machine. A free one gets a price, so that the number of free machines is bounded too.
func (n *need) add(microDollarsPerHour int64) {
	n.machines++
	n.microDollarsPerHour = sum(n.microDollarsPerHour, max(microDollarsPerHour, 1))
}

// allows reports whether so much may be on order if n would be enough: at most moreMachines more machines, or half as
// many more, or machines at one and a half times the price. The latter allows several small machines where one large
// one would be enough.
func (n need) allows(ordered need) bool {
	return ordered.machines <= n.machines+max(moreMachines, n.machines/2) ||
		ordered.microDollarsPerHour <= sum(n.microDollarsPerHour, n.microDollarsPerHour/2)
}

// bound limits the machines that are on order for the waiting pods, regardless of forecasts. Forecasts depend on measured
// times. If the API server is slow, these are long, so that more pods are expected, and pods seem to wait without
// success. Without a bound, more machines would be bought, which makes the API server slower.
type bound struct {
	// ordered are the machines of the fleet on order that could hold a waiting pod, without those of the minimum.
	ordered need
	// needed returns what all waiting pods would need if they had come at once. It takes a plan.
	needed func() need
}

// newBound returns the bound for the pending pods of a state.
func newBound(s *cluster.State, o FleetOptions, flavors []cluster.Flavor, coupled map[*constraint.Pod]bool, now time.Time) *bound {
	nodes := onOrder(s, o.Least)
	b := &bound{needed: sync.OnceValue(func() need { return needOf(s, o, nodes, flavors, coupled, now) })}
	for _, n := range nodes {
		b.ordered.add(n.MicroDollarsPerHour)
	}
	return b
}

// allows reports whether the machines may be bought.
func (b *bound) allows(machines []purchase.Machine) bool {
	ordered := b.ordered
	for i := range machines {
		ordered.add(machines[i].MicroDollarsPerHour)
	}
	return ordered.machines <= 1+moreMachines || b.needed().allows(ordered) // the pods of a plan need one machine at least
}

// onOrder returns the machines of the fleet on order that could hold one of the pending pods. It leaves out as many of
// each flavor as its minimum lacks: these are not ordered for the pods.
func onOrder(s *cluster.State, least map[string]int) []*cluster.Node {
	lacks, classes := maps.Clone(least), map[class.Class]bool{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Phase == cluster.Ready && lacks[n.Flavor] > 0 {
			lacks[n.Flavor]--
		}
	}
	for i := range s.Pending {
		classes[s.Pending[i].Class] = true
	}
	var all []*cluster.Node
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch {
		case n.Phase != cluster.Ordered || foreignOrder(n) || !takesAll(n, classes):
		case lacks[n.Flavor] > 0:
			lacks[n.Flavor]--
		case wanted(n, s.Pending):
			all = append(all, n)
		}
	}
	return all
}

// needOf returns what all pending pods would need if they had come at once: those of the ordered machines that would
// hold some of them, and the machines that would be bought for the others.
//
// Cost: that of a plan of little effort.
func needOf(s *cluster.State, o FleetOptions, ordered []*cluster.Node, flavors []cluster.Flavor, coupled map[*constraint.Pod]bool, now time.Time) need {
	pods := make([]purchase.Pod, len(s.Pending))
	for i := range s.Pending {
		pods[i] = purchase.PodOf(&s.Pending[i])
		pods[i].Except = o.Lessons.Except(&s.Pending[i], now)
		pods[i].OnlyBought = pods[i].Except != nil // a machine on order may be of such a flavor
	}
	prices := make(map[string]int64, len(ordered))
	nodes := make([]purchase.ExistingNode, 0, len(ordered))
	for _, n := range ordered {
		prices[n.Name] = n.MicroDollarsPerHour
		nodes = append(nodes, purchase.NodeOf(n, n.Free(), len(n.Pods)))
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; len(coupled) > 0 && n.Phase != cluster.Leaving && !slices.Contains(ordered, n) {
			other := purchase.NodeOf(n, n.Free(), len(n.Pods))
			other.Places = new(int64(0)) // it counts only for the pods on it
			nodes = append(nodes, other)
		}
	}
	options := mixOptions(s)
	options.Effort = waitEffort
	plan := purchase.Supercargo(o.request(s, pods, nodes, flavors, options))
	var n need
	for _, a := range plan.Assignments {
		if price, is := prices[a.Machine]; is && a.Waits {
			n.add(price)
			delete(prices, a.Machine)
		}
	}
	for i := range plan.Machines {
		n.add(plan.Machines[i].MicroDollarsPerHour)
	}
	return n
}

// Withheld are planned machines that are not bought, because enough are on order.
type Withheld struct {
	// Pods are the names of the pods that they were planned for, ordered.
	Pods []string
	// Machines is their number.
	Machines int
	// OnOrder is the number of machines that are on order or bought now for the waiting pods. Needed is the number that
	// all waiting pods would need if they had come at once.
	OnOrder, Needed int
}

// Reason describes why they are not bought.
func (w *Withheld) Reason() string {
	return fmt.Sprintf("no machine is bought for %s: %s on order, and %d would be enough for all waiting pods if they had come at once",
		plural.Count(len(w.Pods), "pod"), plural.Form(w.OnOrder, "1 machine is", fmt.Sprintf("%d machines are", w.OnOrder)), w.Needed)
}

// withhold removes the machines from the plan that the bound does not allow: those for the fewest pods, of ties the
// later ones in the plan.
func (d *FleetDecision) withhold(b *bound, asking []purchase.Pod, flavors []cluster.Flavor) {
	if b.ordered.machines == 0 || b.allows(d.Plan.Machines) {
		return // if nothing is on order, the plan is what its pods need
	}
	order := slices.Clone(d.Plan.Machines)
	slices.SortStableFunc(order, func(x, y purchase.Machine) int { return cmp.Compare(len(y.Pods), len(x.Pods)) })
	for len(order) > 0 && !b.allows(order) {
		order = order[:len(order)-1]
	}
	bought, pods := make(map[string]bool, len(order)), map[string]bool{}
	for i := range order {
		bought[order[i].Name] = true
		for _, pod := range order[i].Pods {
			pods[pod] = true
		}
	}
	w := &Withheld{OnOrder: b.ordered.machines + len(order), Needed: b.needed().machines}
	kept := make([]purchase.Machine, 0, len(order))
	for _, m := range d.Plan.Machines {
		if bought[m.Name] {
			kept = append(kept, m)
			continue
		}
		w.Machines++
		w.Pods = append(w.Pods, m.Pods...)
		d.Plan.MicroDollarsPerHour -= m.MicroDollarsPerHour
	}
	slices.Sort(w.Pods)
	d.Plan.Machines = kept
	d.Plan.Assignments = slices.DeleteFunc(d.Plan.Assignments, func(a purchase.Assignment) bool { return !a.Waits && !bought[a.Machine] })
	of := slices.DeleteFunc(slices.Clone(asking), func(p purchase.Pod) bool { return !pods[p.Name] })
	d.Plan.LowerBoundMicroDollarsPerHour, _ = purchase.LowerBound(of, flavors)
	d.Plan.Gap = purchase.Gap(d.Plan.MicroDollarsPerHour, d.Plan.LowerBoundMicroDollarsPerHour)
	d.Asked -= len(w.Pods)
	d.Withheld = w
}
