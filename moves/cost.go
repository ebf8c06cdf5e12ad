package moves

import (
	"cmp"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// This file has what moves cost and save, in micro-dollars: for how long machines are needed, by how much a move delays
// a pod, the price of both, the accounts of a drain and of an exchange, and what machines cost at least. [Better] compares
// energy and time instead: see transfer.go.

// account is what a drain or an exchange saves and costs, in micro-dollars: see [Planner.Plan] and [Exchange].
type account struct {
	saves, costs int64
	// paid is what the old machines would still cost, without billing periods.
	paid int64
}

func (a account) gain() int64 { return a.saves - a.costs }

// pays reports whether the gain exceeds the margin, a fraction of what the old machines would still cost. With a margin of
// negative infinity, everything pays.
func (a account) pays(margin float64) bool {
	if math.IsInf(margin, -1) {
		return true
	}
	return a.gain() > 0 && float64(a.gain()) > margin*float64(a.paid)
}

// forever is longer than any time in a plan, and short enough for a bill.
const forever = 50 * 365 * 24 * time.Hour

// needed returns how long the pods of a node need it. Without a horizon, services do not count.
func (r *planning) needed(n *cluster.Node) time.Duration {
	var last time.Duration
	for i := range n.Pods {
		last = max(last, r.until(&n.Pods[i]))
	}
	return last
}

// stay returns how long a node is needed from now, up to the horizon. Without a horizon, a node with a service is
// needed forever.
func (r *planning) stay(n *cluster.Node) time.Duration {
	switch {
	case n.Kept && r.horizon > 0:
		return r.horizon
	case r.horizon == 0 && (n.Kept || n.Has(class.Service)):
		return forever
	default:
		return r.needed(n)
	}
}

// until returns how long a machine is needed for the pod if it is not moved: a batch pod ends, a service does not.
func (r *planning) until(pod *cluster.Pod) time.Duration { return r.cut(r.end(pod), pod) }

// cut returns end bounded by the horizon. Services end at the horizon.
func (r *planning) cut(end time.Duration, pod *cluster.Pod) time.Duration {
	switch {
	case pod.Class == class.Service:
		return r.horizon
	case r.horizon > 0:
		return min(r.horizon, end)
	default:
		return end
	}
}

// untilMoved returns how long a machine is needed for the pod if it is moved.
func (t *trial) untilMoved(pod *cluster.Pod) time.Duration { return t.cut(t.end(pod)+t.lost(pod), pod) }

// takes returns how long a migration freezes the pod, or how much work an eviction repeats. Until then the pod runs on
// for the wait of the trial.
func (t *trial) takes(p *cluster.Pod, m cluster.Method) time.Duration {
	switch {
	case m == cluster.Migrate:
		return t.state.Migration.Time(p.Size.MemoryBytes)
	case m == cluster.Evict && p.Class == class.Batch:
		return p.Ran + min(t.wait, t.end(p))
	default:
		return 0
	}
}

// delay returns how much later the pod is expected to end because it leaves by the given method. A failed migration
// repeats the work as an eviction does. Services do not end.
func (t *trial) delay(p *cluster.Pod, m cluster.Method) time.Duration {
	switch {
	case p.Class == class.Service || m == cluster.Wait:
		return 0
	case m == cluster.Evict:
		return t.takes(p, m)
	default:
		return t.takes(p, m) + time.Duration(t.risk*float64(t.takes(p, cluster.Evict)))
	}
}

// end returns the time until the batch pod is expected to end. An overdue pod is assumed to run on for as long as it
// has been overdue, because nothing indicates that it is about to end. A pod of unknown runtime is not expected to end
// before the horizon.
func (r *planning) end(p *cluster.Pod) time.Duration {
	if p.Guessed && r.horizon > 0 {
		return max(r.horizon, p.Runtime)
	}
	if p.Runtime > 0 {
		return p.Runtime
	}
	return p.Overdue
}

// lost returns how much later a pod is expected to end because it is moved.
func (t *trial) lost(pod *cluster.Pod) time.Duration { return t.delay(pod, t.way(pod)) }

// bill returns what a node costs that is needed for the given time from now.
func (r *planning) bill(n *cluster.Node, stay time.Duration) int64 {
	return cluster.Bill(n.MicroDollarsPerHour, n.Age+stay+r.state.Release, r.state.BillingPeriod)
}

// shareOf returns the price of a share of a node for a time. The share is the greatest of the shares of all resources.
func shareOf(n *cluster.Node, size packing.Size, d time.Duration) int64 {
	return int64(math.Ceil(dominantShare(size, n.Capacity) * float64(cluster.Bill(n.MicroDollarsPerHour, d, 0))))
}

// dominantShare returns the greatest share of a resource that is used.
func dominantShare(used, of packing.Size) float64 {
	most := max(share(used.MilliCPU, of.MilliCPU), share(used.MemoryBytes, of.MemoryBytes))
	if used.Extended.None() {
		return most
	}
	return max(most, extendedShare(used.Extended, of.Extended))
}

// use is how long a node is needed: before the moves, with moves that take no time, and with their actual time. shares
// is the price of the pods' shares for that time.
type use struct {
	node              *cluster.Node
	was, stay, needed time.Duration
	shares            int64
}

// newUse returns the use of a node that is needed for a time anyway.
func newUse(n *cluster.Node, stay time.Duration) use {
	return use{node: n, was: stay, stay: stay, needed: stay}
}

// add adds a pod whose end a move delays. The delay costs at least the pod's share of the node for that time, because
// others could have used it.
func (r *planning) add(u *use, p *cluster.Pod, delay time.Duration) {
	u.stay = max(u.stay, r.until(p))
	u.needed = max(u.needed, r.cut(r.end(p)+delay, p))
	u.shares += shareOf(u.node, p.Size, delay)
}

// price returns what a node costs as if the moves took no time, and the extra cost of that time.
func (r *planning) price(u *use) (bill, delays int64) {
	bill = r.bill(u.node, u.stay)
	return bill, max(r.bill(u.node, u.needed)-bill, u.shares)
}

// priceWith returns the price of a node that is needed for stay anyway and receives the pods, each by its best method.
func (t *trial) priceWith(n *cluster.Node, stay time.Duration, pods []cluster.Pod) (bill, delays int64) {
	u := newUse(n, stay)
	for i := range pods {
		t.add(&u, &pods[i], t.lost(&pods[i]))
	}
	return t.price(&u)
}

// pricesOfTargets returns what the targets cost as if no pod came to them, what they cost with the pods as if the moves took
// no time, and the extra cost of that time.
func (t *trial) pricesOfTargets() (before, bills, delays int64) {
	t.order = t.order[:0]
	for i := range t.moved {
		t.order = append(t.order, i)
	}
	slices.SortFunc(t.order, func(i, j int) int { return cmp.Compare(t.moved[i].to.at, t.moved[j].to.at) })
	for from := 0; from < len(t.order); {
		at := t.moved[t.order[from]].to.at
		was := t.saved[at]
		u := newUse(was.node, was.stay)
		for ; from < len(t.order) && t.moved[t.order[from]].to.at == at; from++ {
			p := &t.moved[t.order[from]].pod
			t.add(&u, p, t.lost(p))
		}
		bill, repeated := t.price(&u)
		before += t.bill(was.node, was.stay)
		bills, delays = bills+bill, delays+repeated
	}
	return before, bills, delays
}

// costs returns the cost of a drain if the moved pods leave by the given methods: their targets are needed longer, and
// the moves delay them.
func (t *trial) costs(methods []cluster.Method) int64 {
	t.uses = t.uses[:0]
	for i := range t.moved {
		m := &t.moved[i]
		at := slices.IndexFunc(t.uses, func(u use) bool { return u.node == m.to.node })
		if at < 0 {
			at = len(t.uses)
			t.uses = append(t.uses, newUse(m.to.node, t.saved[m.to.at].stay))
		}
		t.add(&t.uses[at], &m.pod, t.delay(&m.pod, methods[i]))
	}
	var sum int64
	for i := range t.uses {
		u := &t.uses[i]
		bill, delays := t.price(u)
		sum += bill - t.bill(u.node, u.was) + delays
	}
	return sum
}

// account calculates the result of an exchange if the given machines are bought: see [Exchange].
func (t *trial) account(machines []machine) account {
	var before, after, costs, paid int64
	left := t.leave()
	for _, from := range t.from {
		n := from.node
		given := t.bill(n, left)
		before += t.bill(n, from.stay)
		after += given
		costs += given - cluster.Bill(n.MicroDollarsPerHour, n.Age+left+t.state.Release, 0)
		paid += cluster.Bill(n.MicroDollarsPerHour, from.stay, 0)
	}
	for i := range machines {
		m := &machines[i]
		price := m.flavor.MicroDollarsPerHour
		bill, repeated := t.priceWith(&cluster.Node{MicroDollarsPerHour: price, Capacity: m.flavor.Size}, left, m.pods)
		after += bill + repeated
		costs += repeated + cluster.Bill(price, t.wait, 0)
	}
	was, bills, repeated := t.pricesOfTargets()
	before += was
	after += bills + repeated
	costs += repeated
	return account{saves: before - after + costs, costs: costs, paid: paid}
}

// leave returns when the last pod has left.
func (t *trial) leave() time.Duration {
	last := t.wait
	for i := range t.waiting {
		last = max(last, t.end(&t.waiting[i]))
	}
	for _, from := range t.from {
		for i := range from.node.Pods {
			p := &from.node.Pods[i]
			if t.way(p) == cluster.Migrate && !t.waits(p) {
				last = max(last, t.wait+t.takes(p, cluster.Migrate))
			}
		}
	}
	return last
}

// leastShares returns a lower bound in micro-dollars on the price of machines for the pods without room: all pods together
// pay for their requests, for as long as they run, and for the time by which the move delays them. Where pods depend on
// others, the buyer may find room on nodes for some, whose delay may be cheaper there: it is not counted.
func (t *trial) leastShares(s *onSale) int64 {
	if len(t.left) == 0 {
		return 0
	}
	var cpu, memory float64
	for i := range t.left {
		p := &t.left[i]
		paid := t.until(p)
		if t.rules.tracker == nil {
			paid += t.lost(p)
		}
		hours := paid.Hours()
		cpu += float64(float64(p.Size.MilliCPU) * hours)
		memory += float64(float64(p.Size.MemoryBytes) * hours)
	}
	return int64(s.worth(cpu, memory)*(1-1e-9)) - 1 // allows for rounding errors
}

// leastMachine returns a lower bound in micro-dollars on the price of machines for the pods without room: each pod needs
// a machine for as long as it runs. possible is false if a pod fits no flavor.
func (t *trial) leastMachine(s *onSale) (least int64, possible bool) {
	for i := range t.left {
		p := &t.left[i]
		cheapest, fits := s.cheapest(p)
		if !fits {
			return 0, false
		}
		least = max(least, cluster.Bill(cheapest, t.until(p)+t.state.Release, t.state.BillingPeriod))
	}
	return least, true
}

// onSale are the flavors that can still be bought, with what bounds the price of machines for pods.
type onSale struct {
	flavors []cluster.Flavor
	// cheapestFirst are the same flavors ordered by price.
	cheapestFirst []*cluster.Flavor
	valuations    []valuation
}

// valuation is a price of CPU and memory at which no flavor has more than it costs: pods cost at least their requests at
// this price, however they are spread over machines. Units are micro-dollars per hour, for a thousandth of a CPU and for a
// byte.
type valuation struct{ cpu, memory float64 }

func newOnSale(flavors []cluster.Flavor) *onSale {
	s := &onSale{flavors: flavors, valuations: valuationsOf(flavors)}
	for i := range flavors {
		s.cheapestFirst = append(s.cheapestFirst, &flavors[i])
	}
	slices.SortStableFunc(s.cheapestFirst, func(a, b *cluster.Flavor) int { return cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour) })
	return s
}

// cheapest returns the price per hour of the cheapest flavor that takes the pod, or false if none does.
func (s *onSale) cheapest(p *cluster.Pod) (int64, bool) {
	for _, f := range s.cheapestFirst {
		n := cluster.Node{Class: class.Any, Arch: f.Arch, Host: f.Host}
		if p.Size.Fits(f.Size) && f.ServesGPUs(p.Size) && n.Suits(p) {
			return f.MicroDollarsPerHour, true
		}
	}
	return 0, false
}

// worth returns the least price of machines that have the given CPU-hours, in thousandths of a CPU, and byte-hours.
func (s *onSale) worth(cpuHours, byteHours float64) (most float64) {
	for _, v := range s.valuations {
		most = max(most, float64(v.cpu*cpuHours)+float64(v.memory*byteHours))
	}
	return most
}

// valuationsOf returns the valuations of which, for any pods, one is the greatest: the corners of the set of all of them.
// They are the edges of the convex hull of what the flavors have for one micro-dollar. There are none if a machine costs
// nothing.
//
// Cost: O(n log n) for n flavors.
func valuationsOf(flavors []cluster.Flavor) []valuation {
	var points [][2]float64 // CPU and memory for a micro-dollar
	for i := range flavors {
		f := &flavors[i]
		if f.MicroDollarsPerHour <= 0 {
			return nil
		}
		price := float64(f.MicroDollarsPerHour)
		points = append(points, [2]float64{float64(f.Size.MilliCPU) / price, float64(f.Size.MemoryBytes) / price})
	}
	hull := upperHull(points)
	if len(hull) == 0 || hull[0][0] <= 0 || hull[len(hull)-1][1] <= 0 {
		return nil
	}
	all := []valuation{{cpu: 1 / hull[0][0]}}
	for i := 1; i < len(hull); i++ {
		a, b := hull[i-1], hull[i]
		det := float64(a[0]*b[1]) - float64(b[0]*a[1])
		all = append(all, valuation{cpu: (b[1] - a[1]) / det, memory: (a[0] - b[0]) / det})
	}
	return append(all, valuation{memory: 1 / hull[len(hull)-1][1]})
}

// upperHull returns the corners of the convex hull of points from the one with the greatest first coordinate to the one
// with the greatest second coordinate. Neither coordinate may be negative.
func upperHull(points [][2]float64) (hull [][2]float64) {
	slices.SortFunc(points, func(a, b [2]float64) int { return cmp.Or(cmp.Compare(b[0], a[0]), cmp.Compare(b[1], a[1])) })
	for _, p := range points {
		if n := len(hull); n > 0 && p[1] <= hull[n-1][1] {
			continue // another point has as much of both
		}
		for n := len(hull); n > 1 && !turnsLeft(hull[n-2], hull[n-1], p); n-- {
			hull = hull[:n-1]
		}
		hull = append(hull, p)
	}
	return hull
}

func turnsLeft(a, b, c [2]float64) bool {
	return float64((b[0]-a[0])*(c[1]-b[1])) > float64((b[1]-a[1])*(c[0]-b[0]))
}
