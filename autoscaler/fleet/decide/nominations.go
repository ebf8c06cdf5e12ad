package decide

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

// nominations are the pods for which machines on their way were ordered. Packing is not
// unique: without them the next round could pack the same pods worse into the same machines,
// and order for those left over.
type nominations struct {
	orders []nomination // oldest first
	// known are the machines that have been looked at, by name; nil before the first round.
	known map[string]bool
	// last is for how long pods are nominated.
	last time.Duration
	// times is how often machines were ordered for a pod that waits, by its name.
	times map[string]int
	// planned is what the last round was about to order, by flavor.
	planned map[string]nomination
	// before are the pods that were pending already then: all of them were ordered for by a
	// process before this one. That holds until the other time.
	before, until time.Time
}

// nomination is one order of machines of a flavor, and the pods that it was for. They are
// nominated until all its machines have come and the scheduler has had time to bind them, or
// has given their room to others, and no longer than until another time. Which of the machines
// is for which pod is not known: they are alike.
type nomination struct {
	flavor   string
	count    int             // machines
	machines map[string]bool // those that have been made, by name
	pods     map[string]bool
	until    time.Time
}

// binding is how long the scheduler has to bind pods to machines that have come.
const binding = 10 * time.Second

// end ends the nominations for machines of a flavor, and those by a process before this one: any
// of its orders may have been of that flavor.
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

// NominatedFor is for how long pods are nominated at most whose machines are expected to take so
// long: until those should have come, with time to spare.
func NominatedFor(lag time.Duration) time.Duration { return 2*lag + binding }

// nominate marks the pods of the state that wait for a machine that is on its way.
func (r *round) nominate() {
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
			o.until = grace // its node is there, and takes pods later than expected
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

// roomsByMachine returns the nodes by the names of their machines.
func (r *round) roomsByMachine() map[string]*cluster.Node {
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

// stillRoomFor returns the pods of an order whose machines have all come for which one of them
// still has room: the scheduler has given the room of the others away. Of an order of which
// not all machines are known, nothing is known.
func (r *round) stillRoomFor(o *nomination, rooms map[string]*cluster.Node) map[string]bool {
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

// withoutNominations has the round go without those for machines of a flavor that it abandons. The
// memory keeps them until that is done.
func (r *round) withoutNominations(flavor string) {
	rest := *r.nominations
	rest.end(flavor)
	r.nominations = &rest
}

// inherit ends the nominations by a process before this one when machines have come, or should
// have.
func (r *round) inherit() {
	n := r.nominations
	n.until = earlier(n.until, r.now.Add(r.m.nominations.last)) // it is later if the clock was ahead
	grace := r.now.Add(binding)
	if len(r.m.startup) > 0 && grace.After(n.until) && !n.before.IsZero() {
		n.until = grace // its node is there, and takes pods later than expected
	}
	if !r.inFlight() {
		n.until = earlier(n.until, grace)
	}
	if !r.now.Before(n.until) {
		n.before = time.Time{}
	}
}

// recognise notes which machines are those of which order: what was made first is of the order
// that was first.
func (r *round) recognise() {
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

// comes reports whether a machine of an order may still come: it has yet to be made, or to take
// pods.
func (r *round) comes(o *nomination) bool {
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

// starts reports whether the node of a machine of an order is ready and has yet to lose a taint.
func (r *round) starts(o *nomination) bool {
	for name := range o.machines {
		if _, is := r.m.startup[name]; is {
			return true
		}
	}
	return false
}

// awaited reports whether a machine is on its way, be it late.
func (r *round) awaited(m *Machine) bool {
	return !m.Leaving && m.OnOrder && (!m.Unidentified || r.now.Sub(m.Ordered) < r.flavors[m.Flavor].JoinTimeout)
}

// inFlight reports whether a machine of the fleet is on its way, be it late.
func (r *round) inFlight() bool {
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

// remember keeps for which pods machines of each flavor are about to be ordered.
func (r *round) remember() {
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
