package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// mostTypes is the maximum number of instance types for which machines are planned.
const mostTypes = 4

// homogeneous returns the cheapest bill found if all machines that are bought are of one instance
// type: what the default scheduler and an autoscaler with one node group need if they pack as well
// as the planner. found is false if no type holds all pods that the mix holds. Nodes that stay in
// the mix stay here too.
//
// It plans at most [mostTypes] types. Types whose machines hold any one of the pods come first, then
// those with the lowest bounds, then those with the lowest estimates, ties by name. It leaves out
// types that cannot be cheaper. Cost: one plan of [purchase.Supercargo] for each, with the flavors of
// one type, several at a time.
//
// missing says, as sentences, why none was found; empty if one was, if there is no type, or if the audit was stopped.
func (c *scene) homogeneous(m *mix) (best Bill, found bool, missing string) {
	types := c.types(m)
	all := len(types)
	types = types[:min(len(types), mostTypes)]
	var mu sync.Mutex
	at := 0 // of the best
	var lacking purchase.Unplaceable
	each(len(types), func(i int) {
		mu.Lock()
		costlier := found && types[i].bound > best.PerHour
		mu.Unlock()
		if costlier || c.stopped() {
			return
		}
		one := *c
		one.in.Flavors = types[i].flavors
		bill, unplaceable := one.hold(m)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case len(unplaceable) > 0 && i == 0:
			lacking = unplaceable[0]
			return
		case len(unplaceable) > 0:
			return
		}
		if !found || cmp.Or(cmp.Compare(bill.PerHour, best.PerHour), cmp.Compare(i, at)) < 0 {
			best, found, at = bill, true, i
		}
	})
	switch {
	case c.stopped() || all == 0:
		return best, false, ""
	case !found:
		return best, false, noType(all, len(types), types[0].name, lacking)
	}
	return best, true, ""
}

// noType says that no type holds all pods, and why the first one does not.
func noType(types, planned int, first string, lacking purchase.Unplaceable) string {
	none := fmt.Sprintf("none of the %s for sale", plural.Count(types, "type"))
	if planned < types {
		none = fmt.Sprintf("none of the %d types that were planned, of %d for sale,", planned, types)
	}
	return fmt.Sprintf("There is no cost on machines of one type, because %s holds all pods: %s does not hold pod %s, for example: %s.",
		none, first, lacking.Pod, strings.TrimSuffix(plain(lacking.Reason), "."))
}

// hold plans machines for the pods that the mix holds, and returns those that fit on none.
func (c *scene) hold(m *mix) (Bill, []purchase.Unplaceable) {
	r := purchase.Supercargo(c.request(m.stays, nil))
	if len(r.Unplaceable) > 0 {
		return Bill{}, r.Unplaceable
	}
	return c.mixOf(r, m.stays).bill, nil
}

// instanceType is an instance type for sale.
type instanceType struct {
	name    string
	flavors []Flavor
	// bound is a lower bound of the bill if all machines that are bought are of this type. estimate is
	// the same without the free room of the nodes that stay, which may admit none of the pods.
	bound, estimate dollars.Amount
	// small is whether some pod is larger than its machines, or needs another architecture.
	small bool
}

// types returns the instance types for sale, in the order in which they are planned. Cost: O(p·f) for
// p pods and f flavors.
func (c *scene) types(m *mix) []instanceType {
	var all []instanceType
	at := map[string]int{}
	for _, f := range c.in.Flavors {
		i, known := at[f.InstanceType]
		if !known {
			i, at[f.InstanceType] = len(all), len(all)
			all = append(all, instanceType{name: f.InstanceType})
		}
		all[i].flavors = append(all[i].flavors, f)
	}
	l := c.lacking(m)
	for i := range all {
		t := &all[i]
		t.bound, t.estimate = dollars.Amount(l.standing+t.least(l.size, l.pods)), dollars.Amount(l.standing+t.least(l.allSize, l.allPods))
		t.small = c.outgrows(m, t.flavors)
	}
	slices.SortFunc(all, func(a, b instanceType) int {
		switch {
		case a.small && !b.small:
			return 1
		case b.small && !a.small:
			return -1
		}
		return cmp.Or(cmp.Compare(a.bound, b.bound), cmp.Compare(a.estimate, b.estimate), cmp.Compare(a.name, b.name))
	})
	return all
}

// outgrows reports whether a pod that is planned fits none of the flavors, by size and architecture.
func (c *scene) outgrows(m *mix, flavors []Flavor) bool {
	for i := range c.nodes {
		if m.stays[i] != "" {
			continue
		}
		for j := range c.nodes[i].Pods {
			p := &c.nodes[i].Pods[j]
			if !slices.ContainsFunc(flavors, func(f Flavor) bool { return p.Elsewhere().Size.Fits(f.Size) && (p.Arch == "" || p.Arch == f.Arch) }) {
				return true
			}
		}
	}
	return false
}

// lack is the room that machines must provide, with the nodes that stay in the mix.
type lack struct {
	// standing is the price of the nodes that stay.
	standing int64
	// allSize and allPods are the room of the pods of the other nodes, and size and pods at least how
	// much of it is left if they use the free room of those that stay.
	size, allSize packing.Size
	pods, allPods int64
}

// lacking returns the room that machines must provide.
func (c *scene) lacking(m *mix) (l lack) {
	var free packing.Size
	places := int64(0)
	for i := range c.nodes {
		n := &c.nodes[i]
		if m.stays[i] == "" {
			l.allSize, l.allPods = plus(l.allSize, n.Used()), l.allPods+int64(len(n.Pods))
			continue
		}
		l.standing += n.MicroDollarsPerHour
		f := n.Free()
		free = plus(free, packing.Size{MilliCPU: max(0, f.MilliCPU), MemoryBytes: max(0, f.MemoryBytes)})
		places += max(0, ptr.Deref(n.MaxPods, math.MaxInt32)-int64(len(n.Pods)))
	}
	l.size, l.pods = l.allSize.Minus(free), l.allPods-places
	return l
}

// price returns the price of its cheapest machine.
func (t *instanceType) price() int64 {
	price := int64(math.MaxInt64)
	for i := range t.flavors {
		price = min(price, t.flavors[i].MicroDollarsPerHour)
	}
	return price
}

// least returns the price of the fewest machines of the type that could have the room.
func (t *instanceType) least(size packing.Size, pods int64) int64 {
	var most packing.Size
	places := int64(0)
	for i := range t.flavors {
		f := &t.flavors[i]
		most.MilliCPU, most.MemoryBytes = max(most.MilliCPU, f.Size.MilliCPU), max(most.MemoryBytes, f.Size.MemoryBytes)
		places = max(places, ptr.Deref(f.MaxPods, math.MaxInt32))
	}
	return t.price() * max(quotient(size.MilliCPU, most.MilliCPU), quotient(size.MemoryBytes, most.MemoryBytes), quotient(pods, places), 0)
}

// quotient returns part divided by whole, rounded up; 0 if whole is not positive.
func quotient(part, whole int64) int64 {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return (part + whole - 1) / whole
}
