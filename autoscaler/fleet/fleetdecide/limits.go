package fleetdecide

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
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

// withhold marks the flavors as sold out of which one more machine exceeds a limit, and returns the limits by flavor.
func (r *planning) withhold(s *cluster.State, left cluster.Limits) map[string]string {
	over := map[string]string{}
	for i := range s.Flavors {
		f := &s.Flavors[i]
		if name := exceeded(left, r.o.Quota, r.flavors[f.Name]); name != "" {
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

// budget returns how many more machines may be drained or released.
func (r *planning) budget() int {
	total, leaving := 0, r.o.Leaving()
	for i := range r.o.Flavors {
		total += r.o.Flavors[i].Ordered
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(&r.c.MaxUnavailable, total, true)
	if err != nil {
		return 0
	}
	for _, d := range r.drained {
		if r.uncordoned[d.Node] {
			leaving--
		}
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

// order decides how many machines of each flavor to order. The plan counts machines without what DaemonSets use, but
// limits count whole machines: machines that would exceed a limit are left out, and an exchange is made completely or
// not at all.
func (r *planning) order() {
	d := &r.actions.Fleet
	left, quota := r.left(), r.o.Quota
	var orders []Order
	ordered := 0
	take := func(flavor string) {
		f := r.flavors[flavor]
		at := slices.IndexFunc(orders, func(o Order) bool { return o.Flavor == flavor })
		if at < 0 && r.c.MaxFlavors > 0 && len(orders)+r.fewer() >= r.c.MaxFlavors {
			return // its pods are still pending in the next round
		}
		if over := exceeded(left, quota, f); over != "" { // the last check before money is spent
			d.Limit = cmp.Or(d.Limit, fmt.Sprintf("one more machine of flavor %s would exceed %s", flavor, over))
			return
		}
		left, quota = left.Less(1, f.Size, f.MicroDollarsPerHour), quota.Less(1, f.Sold, 0)
		if at < 0 {
			at = len(orders)
			orders = append(orders, Order{flavor, f.Want, f.Want})
		}
		orders[at].To++
		ordered++
	}
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
