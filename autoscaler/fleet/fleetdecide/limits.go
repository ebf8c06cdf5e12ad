package fleetdecide

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

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
	for _, l := range []struct {
		name string
		left *int64
	}{
		{"the limit spec.limits.machines", left.Machines}, {"the limit spec.limits.cpu", left.MilliCPU},
		{"the limit spec.limits.memory", left.MemoryBytes}, {"the limit spec.limits.dollarsPerHour", left.MicroDollarsPerHour},
		{"the limit of the cloud project on machines", quota.Machines}, {"the limit of the cloud project on CPUs", quota.MilliCPU},
		{"the limit of the cloud project on memory", quota.MemoryBytes},
	} {
		if l.left != nil && *l.left <= 0 {
			return l.name + " is reached"
		}
	}
	return ""
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
		if !left.Allows(f.Size, f.MicroDollarsPerHour) || !quota.Allows(f.Sold, 0) {
			return // the last check before money is spent
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
