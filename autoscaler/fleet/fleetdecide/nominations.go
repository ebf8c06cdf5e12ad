package fleetdecide

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

// nominations are the pods for which machines on order were bought. Packing is not unique: without nominations, the
// next round could pack the same pods worse into the same machines, and order machines for those left over.
type nominations struct {
	orders []nomination // oldest first
	// known are the machines that have been observed, by name; nil before the first round.
	known map[string]bool
	// last is how long pods are nominated.
	last time.Duration
	// times is how often machines were ordered for a pending pod, by pod name.
	times map[string]int
	// planned are the orders that the last round was about to make, by flavor.
	planned map[string]nomination
	// A process before this one ordered machines for all pods that were pending at the time before. That applies until
	// the time until.
	before, until time.Time
}

// nomination is one order of machines of a flavor, with the pods that it is for. The pods are nominated until all its
// machines have come and the scheduler has had time to bind them, or has given their room to other pods, and no longer
// than until. The machines are alike, so none is for a particular pod.
type nomination struct {
	flavor   string
	count    int             // number of machines
	machines map[string]bool // those created so far, by name
	pods     map[string]bool
	until    time.Time
}

// binding is how long the scheduler has to bind pods to machines that have come.
const binding = 10 * time.Second

// end ends the nominations for machines of a flavor, and those of a process before this one: any of its orders may have
// been for that flavor.
func (n *nominations) end(flavor string) {
	n.orders = slices.DeleteFunc(slices.Clone(n.orders), func(o nomination) bool { return o.flavor == flavor })
	n.before, n.until = time.Time{}, time.Time{}
}

// add nominates the pods for which machines of a flavor were planned.
func (n *nominations) add(flavor string, now time.Time) {
	if o, is := n.planned[flavor]; is {
		o.machines, o.until = map[string]bool{}, now.Add(n.last)
		n.orders = append(n.orders, o)
		if n.times == nil {
			n.times = map[string]int{}
		}
		for pod := range o.pods {
			n.times[pod]++
		}
	}
}

// NominatedFor returns the maximum time for which pods are nominated, given the expected lag of their machines: twice
// the lag plus the time to bind them.
func NominatedFor(lag time.Duration) time.Duration { return 2*lag + binding }

// nominate marks the pending pods for which a machine is on order.
func (r *planning) nominate() {
	r.recognise()
	n := r.nominations
	var kept []nomination
	nominated := map[string]time.Time{}
	rooms := r.roomsByMachine()
	for _, o := range n.orders {
		o.until = earlier(o.until, r.now.Add(r.m.nominations.last)) // it is later if the clock was ahead
		come := !r.comes(&o)
		if grace := r.now.Add(binding); come {
			o.until = earlier(o.until, grace)
			o.pods = r.stillRoomFor(&o, rooms)
		} else if r.starts(&o) && grace.After(o.until) {
			o.until = grace // its node exists, but accepts pods later than expected
		}
		if !r.now.Before(o.until) {
			continue
		}
		kept = append(kept, o)
		for pod := range o.pods {
			if o.until.After(nominated[pod]) {
				nominated[pod] = o.until
			}
		}
	}
	n.orders = kept
	r.inherit()
	times := make(map[string]int, len(r.m.nominations.times))
	for i := range r.state.Pending {
		p := &r.state.Pending[i]
		if t := r.m.nominations.times[p.Name]; t > 0 {
			times[p.Name] = t
		}
		since := r.now.Add(-p.Waited)
		until, is := nominated[p.Name]
		if is {
			r.wake(until.Sub(r.now))
		}
		p.Nominated = is || !since.After(n.before)
	}
	r.m.nominations.times = times
}

// roomsByMachine returns the nodes by machine name.
func (r *planning) roomsByMachine() map[string]*cluster.Node {
	nodes := make(map[string]*cluster.Node, len(r.state.Nodes))
	for i := range r.state.Nodes {
		nodes[r.state.Nodes[i].Name] = &r.state.Nodes[i]
	}
	rooms := make(map[string]*cluster.Node, len(r.all))
	for _, m := range r.all {
		rooms[m.Name] = nodes[m.Key]
	}
	return rooms
}

// stillRoomFor returns, for an order whose machines have all come, the pods for which one of the machines still has
// room. The scheduler gave the room of the others away. If not all machines of the order are known, it returns all pods
// of the order.
func (r *planning) stillRoomFor(o *nomination, rooms map[string]*cluster.Node) map[string]bool {
	if len(o.machines) < o.count {
		return o.pods
	}
	still := make(map[string]bool, len(o.pods))
	for i := range r.state.Pending {
		p := r.state.Pending[i : i+1]
		if !o.pods[p[0].Name] {
			continue
		}
		for machine := range o.machines {
			if n := rooms[machine]; n == nil || wanted(n, p) {
				still[p[0].Name] = true
				break
			}
		}
	}
	return still
}

// withoutNominations ignores, for this round, the nominations for machines of a flavor that it abandons. The memory
// keeps them until the machines are abandoned.
func (r *planning) withoutNominations(flavor string) {
	rest := *r.nominations
	rest.end(flavor)
	r.nominations = &rest
}

// inherit ends the nominations of a process before this one once the machines have come or should have come.
func (r *planning) inherit() {
	n := r.nominations
	n.until = earlier(n.until, r.now.Add(r.m.nominations.last)) // it is later if the clock was ahead
	grace := r.now.Add(binding)
	if len(r.m.startup) > 0 && grace.After(n.until) && !n.before.IsZero() {
		n.until = grace // its node exists, but accepts pods later than expected
	}
	if !r.inFlight() {
		n.until = earlier(n.until, grace)
	}
	if !r.now.Before(n.until) {
		n.before = time.Time{}
	}
}

// recognise matches machines to orders: the oldest machine belongs to the oldest order.
func (r *planning) recognise() {
	m := &r.m.nominations
	known := make(map[string]bool, len(r.all))
	var made []*Machine
	for _, machine := range r.all {
		known[machine.Name] = true
		if m.known != nil && !m.known[machine.Name] {
			made = append(made, machine)
		}
	}
	m.known = known
	slices.SortStableFunc(made, func(a, b *Machine) int { return a.Ordered.Compare(b.Ordered) })
	for _, machine := range made {
		for i := range m.orders {
			if o := &m.orders[i]; o.flavor == machine.Flavor && len(o.machines) < o.count {
				o.machines[machine.Name] = true
				break
			}
		}
	}
}

// comes reports whether a machine of an order is still expected: it is not yet created, or does not accept pods yet.
func (r *planning) comes(o *nomination) bool {
	f := r.flavors[o.flavor]
	if f == nil {
		return false
	}
	if len(o.machines) < o.count && f.Ordered > r.made[o.flavor] {
		return true
	}
	return slices.ContainsFunc(r.all, func(m *Machine) bool {
		return o.machines[m.Name] && r.awaited(m) && !r.m.overdue[m.Name]
	})
}

// starts reports whether the ready node of a machine of an order still has a startup taint.
func (r *planning) starts(o *nomination) bool {
	for name := range o.machines {
		if _, is := r.m.startup[name]; is {
			return true
		}
	}
	return false
}

// awaited reports whether a machine is on order, even if it is late.
func (r *planning) awaited(m *Machine) bool {
	return !m.Leaving && m.OnOrder && (m.Unidentified == "" || r.now.Sub(m.Ordered) < r.flavors[m.Flavor].JoinTimeout)
}

// inFlight reports whether any machine of the fleet is on order, even if it is late.
func (r *planning) inFlight() bool {
	if slices.ContainsFunc(r.all, r.awaited) {
		return true
	}
	for i := range r.o.Flavors {
		if f := &r.o.Flavors[i]; f.Ordered > r.made[f.Name] {
			return true
		}
	}
	return false
}

// remember records the pods for which machines of each flavor are about to be ordered.
func (r *planning) remember() {
	planned := map[string]nomination{}
	for _, o := range r.actions.Orders {
		planned[o.Flavor] = nomination{flavor: o.Flavor, count: o.To - o.From, pods: map[string]bool{}}
	}
	machines := r.actions.Fleet.Plan.Machines
	for i := range machines {
		for _, pod := range machines[i].Pods {
			if o, is := planned[machines[i].Flavor]; is {
				o.pods[pod] = true
			}
		}
	}
	r.m.nominations.planned = planned
}
