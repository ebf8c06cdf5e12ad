package decide

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/packing"
)

// Limits bound all machines of a fleet together. What is nil is not bounded.
type Limits struct {
	Machines, MilliCPU, MemoryBytes, MicroDollarsPerHour *int64
}

// leftOf is what is left of a limit; nothing is -1, since 0 stands for no limit.
func leftOf(limit *int64, used int64) int64 {
	switch {
	case limit == nil:
		return 0
	case *limit <= used:
		return -1
	}
	return *limit - used
}

// left is what the limits still allow for. Machines that have been asked to go count until
// they are no longer paid for.
func (r *round) left() planner.Limits {
	var used planner.Limits
	add := func(f *Flavor, n int) {
		used.Machines += n
		used.MilliCPU += int64(n) * f.Size.MilliCPU
		used.MemoryBytes += int64(n) * f.Size.MemoryBytes
		used.MicroDollarsPerHour += int64(n) * f.MicroDollarsPerHour
	}
	for i := range r.o.Flavors {
		add(&r.o.Flavors[i], r.o.Flavors[i].Ordered)
	}
	for _, m := range r.all {
		if m.Leaving {
			add(r.flavors[m.Flavor], 1)
		}
	}
	return planner.Limits{
		Machines:            int(leftOf(r.c.Limits.Machines, int64(used.Machines))),
		MilliCPU:            leftOf(r.c.Limits.MilliCPU, used.MilliCPU),
		MemoryBytes:         leftOf(r.c.Limits.MemoryBytes, used.MemoryBytes),
		MicroDollarsPerHour: leftOf(r.c.Limits.MicroDollarsPerHour, used.MicroDollarsPerHour),
	}
}

// exhausted says which limit allows for nothing more, or returns "".
func exhausted(left planner.Limits) string {
	for _, l := range []struct {
		name string
		left int64
	}{
		{"machines", int64(left.Machines)}, {"cpu", left.MilliCPU}, {"memory", left.MemoryBytes}, {"dollarsPerHour", left.MicroDollarsPerHour},
	} {
		if l.left < 0 {
			return "the limit spec.limits." + l.name + " is reached"
		}
	}
	return ""
}

// Quota is what a seller still allows for. What is negative is not bounded.
type Quota struct {
	Machines              int
	MilliCPU, MemoryBytes int64
}

// take takes one machine of that size off the quota and reports whether it allowed for it; if
// not, it stays as it was. A nil Quota allows for all.
func (q *Quota) take(sold packing.Size) bool {
	if q == nil {
		return true
	}
	left := Quota{Machines: q.Machines - 1, MilliCPU: q.MilliCPU - sold.MilliCPU, MemoryBytes: q.MemoryBytes - sold.MemoryBytes}
	for _, bound := range []struct{ was, left int64 }{
		{int64(q.Machines), int64(left.Machines)}, {q.MilliCPU, left.MilliCPU}, {q.MemoryBytes, left.MemoryBytes},
	} {
		if bound.was >= 0 && bound.left < 0 {
			return false
		}
	}
	*q = left
	return true
}

// lower lowers limits to a quota. Plans count what pods can use of machines, which is less
// than what counts against the quota: orders look at that again.
func (q *Quota) lower(left planner.Limits) planner.Limits {
	if q == nil {
		return left
	}
	left.Machines = int(lower(int64(left.Machines), int64(q.Machines)))
	left.MilliCPU, left.MemoryBytes = lower(left.MilliCPU, q.MilliCPU), lower(left.MemoryBytes, q.MemoryBytes)
	return left
}

// lower returns the lesser of a limit, of which 0 is none, and a quota, of which less than 0
// is none.
func lower(limit, quota int64) int64 {
	switch {
	case quota < 0:
		return limit
	case quota == 0:
		return -1
	case limit == 0:
		return quota
	}
	return min(limit, quota)
}

// exhausted says what of a quota is used up, or returns "".
func (q *Quota) exhausted() string {
	switch {
	case q == nil:
	case q.Machines == 0:
		return "the limit of the cloud project on machines is reached"
	case q.MilliCPU == 0:
		return "the limit of the cloud project on CPUs is reached"
	case q.MemoryBytes == 0:
		return "the limit of the cloud project on memory is reached"
	}
	return ""
}

// Leaving is how many machines are on their way out: those that have been asked to go, and
// those whose nodes the fleet drains.
func (o *Observation) Leaving() int {
	n := len(o.Drains)
	for i := range o.Machines {
		if o.Machines[i].Leaving {
			n++
		}
	}
	return n
}

// budget is how many more machines may be sent on their way out.
func (r *round) budget() int {
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

// spare is how many machines of each flavor there are above its least number, without those
// that this round abandons.
func (r *round) spare() map[string]int {
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

// order decides how many machines of each flavor to order. The plan counts what DaemonSets
// leave of machines, limits are about all of it: machines that would exceed one are left
// out, and an exchange is made as a whole or not at all.
func (r *round) order() {
	d := &r.actions.Fleet
	left, quota := r.left(), r.o.Quota.clone()
	var orders []Order
	ordered := 0
	take := func(flavor string) {
		f := r.flavors[flavor]
		at := slices.IndexFunc(orders, func(o Order) bool { return o.Flavor == flavor })
		if at < 0 && r.c.MaxFlavors > 0 && len(orders)+r.fewer() >= r.c.MaxFlavors {
			return // its pods are still pending in the next round
		}
		if !within(&left, f) || !quota.take(f.Sold) {
			return
		}
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

// fewer is of how many flavors this round wants fewer machines.
func (r *round) fewer() int {
	n := 0
	for i := range r.actions.Abandoned {
		if r.actions.Abandoned[i].Fewer > 0 {
			n++
		}
	}
	return n
}

func (q *Quota) clone() *Quota {
	if q == nil {
		return nil
	}
	c := *q
	return &c
}

// within takes a machine off what may still be ordered, and reports whether that allowed for
// it: the last look before money is spent. 0 is no limit.
func within(left *planner.Limits, f *Flavor) bool {
	machines := int64(left.Machines)
	amounts := []struct {
		left *int64
		of   int64
	}{{&machines, 1}, {&left.MilliCPU, f.Size.MilliCPU}, {&left.MemoryBytes, f.Size.MemoryBytes}, {&left.MicroDollarsPerHour, f.MicroDollarsPerHour}}
	for _, a := range amounts {
		if *a.left != 0 && *a.left < a.of {
			return false
		}
	}
	for _, a := range amounts {
		if *a.left == 0 {
			continue
		}
		if *a.left -= a.of; *a.left == 0 {
			*a.left = -1 // used up, and not without a limit
		}
	}
	left.Machines = int(machines)
	return true
}
