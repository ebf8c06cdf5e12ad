package purchase

import (
	"slices"
	"time"
)

// Larger returns the plan that would be the cheapest if each machine cost overhead micro-dollars per hour more: fewer and
// larger machines than those of [Supercargo]. Prices, reasons and the sum of the plan are without the overhead. A limit in
// dollars counts it, so the plan may leave out pods that [Supercargo] has machines for.
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
		r.Flavors[i].MicroDollarsPerHour += max(overhead, 0)
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
