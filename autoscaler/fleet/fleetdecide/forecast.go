package fleetdecide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/heap"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// forecast simulates the near future of a cluster: batch pods end as expected, machines on order become ready, the pods
// that arrived within the last acquisition lag arrive again and again, and pending pods take the room that becomes free
// (compare HTA, algorithm 1, which has no arrivals). A batch pod of which only a default runtime is known is not
// expected to end.
//
// Cost: O(e·(log e + n + w)) for e pods that end or arrive, n nodes and w pending pods.
type forecast struct {
	nodes   []future
	waiting []waiter     // in scheduling order
	least   packing.Size // no pending pod requests less of CPU or memory
	floor   packing.Size // no pending or arriving pod requests less of either
	roomy   []int        // indices of the open nodes with room for the floor, in no order
	events  *heap.Heap[coming]
	noted   int           // number of events so far
	ahead   time.Duration // the length of the forecast
	cycle   time.Duration
	atOnce  []placed // pods that find room on a ready node at once
	// note is called for each pod that takes room, with the node and the time; may be nil.
	note func(node int, p *cluster.Pod, at time.Duration)
	// elsewhere are the names of the pods that find room on a machine ordered by another fleet.
	elsewhere map[string]bool
}

// placed is a pod and the node on which it finds room.
type placed struct {
	pod  *cluster.Pod
	node *cluster.Node
}

// smaller returns the smaller CPU and memory, without extended resources: most pods request none.
func smaller(a, b packing.Size) packing.Size {
	return packing.Size{MilliCPU: min(a.MilliCPU, b.MilliCPU), MemoryBytes: min(a.MemoryBytes, b.MemoryBytes)}
}

// waiter is a pending pod in a forecast.
type waiter struct {
	pod *cluster.Pod
	// since is when the pod is expected to arrive; 0 if it is already pending.
	since time.Duration
}

func chooses(a, b waiter) int {
	if a.pod.Nominated != b.pod.Nominated {
		if a.pod.Nominated {
			return -1
		}
		return 1
	}
	return cmp.Or(cluster.Scheduled(*a.pod, *b.pod), cmp.Compare(a.since, b.since))
}

// future is the expected state of a node.
type future struct {
	packing.Node
	node  *cluster.Node
	pods  int
	open  bool          // it accepts pods
	last  time.Duration // when its last pod is expected to end
	place int           // index in roomy, -1 if it is not there
	// attached is what its pods take of it.
	attached constraint.Attached
}

// coming is an event expected at a time from now.
type coming struct {
	at       time.Duration
	sequence int             // order of creation, the last tie-break
	ready    bool            // the node becomes ready
	node     int             // the node with free room or that becomes ready; -1 for an arrival
	free     packing.Size    // the room that becomes free
	demands  *constraint.Pod // the constraints of the pod that ends
	pod      *cluster.Pod    // the pod that arrives
}

// newForecast returns a forecast of the given length. It leaves out the nodes in gone and their pods.
func newForecast(s *cluster.State, ahead time.Duration, gone map[string]bool) *forecast {
	f := &forecast{
		events:  heap.New(happensBefore, nil),
		waiting: make([]waiter, len(s.Pending)), ahead: ahead, cycle: s.ScalingInterval,
		least: packing.Size{MilliCPU: math.MaxInt64, MemoryBytes: math.MaxInt64}, elsewhere: map[string]bool{},
	}
	for i := range s.Pending {
		f.waiting[i] = waiter{pod: &s.Pending[i]}
		f.least = smaller(f.least, s.Pending[i].Size)
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Phase == cluster.Leaving || gone[n.Name] {
			continue
		}
		at := len(f.nodes)
		f.nodes = append(f.nodes, future{
			Node: packing.Node{Name: n.Name, Free: n.Free()}, node: n, pods: len(n.Pods), open: n.Phase == cluster.Ready, attached: n.Attached(),
		})
		to := &f.nodes[at]
		if n.Has(class.Service) {
			to.last = packing.Endless
		} else {
			to.last = n.Remaining()
		}
		if n.Phase == cluster.Ordered && n.Due <= ahead {
			f.expect(coming{at: n.Due, node: at, ready: true})
		}
		f.ends(at, n)
	}
	f.arrivals(s)
	slices.SortStableFunc(f.waiting, chooses)
	f.floor = f.least
	for i := range s.Recent {
		f.floor = smaller(f.floor, s.Recent[i].Size)
	}
	for i := range f.nodes {
		f.nodes[i].place = -1
		f.file(i)
	}
	return f
}

// ends adds the expected ends of the pods of a node. An overdue pod is assumed to end half way through the forecast: it
// is only known not to have ended yet. A pod with a default runtime is not expected to end.
func (f *forecast) ends(at int, n *cluster.Node) {
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.Class != class.Batch || p.Guessed {
			continue
		}
		end := p.Runtime
		if end == 0 {
			end = f.ahead / 2
		}
		f.expect(coming{at: end, node: at, free: p.Size, demands: p.Demands})
	}
}

// mostRepeats bounds how often one pod arrives again in a forecast.
const mostRepeats = 1000

// arrivals repeats the pods that arrived within the last acquisition lag, in their order and distances, until the end
// of the forecast. The lag is the time after which a machine bought now helps; a longer window would respond to load
// that is long past. A window so short that pods would arrive mostRepeats times or more is ignored.
func (f *forecast) arrivals(s *cluster.State) {
	window := min(s.Observed, s.Lag)
	if window <= f.ahead/mostRepeats {
		return
	}
	for i := range s.Recent {
		p := &s.Recent[i]
		if p.Waited >= window {
			continue
		}
		for at := window - p.Waited; at <= f.ahead; at += window {
			f.expect(coming{at: at, node: -1, pod: p})
		}
	}
}

// expect adds an event, unless it is after the end of the forecast.
func (f *forecast) expect(c coming) {
	if c.at > f.ahead {
		return
	}
	c.sequence = f.noted
	f.noted++
	f.events.Push(c)
}

// happensBefore orders events.
func happensBefore(a, b coming) bool {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sequence, b.sequence)) < 0
}

// run processes all events and returns the pods that are still pending at the end.
func (f *forecast) run() []waiter {
	for i := range f.nodes {
		if f.nodes[i].open {
			f.fill(i, 0)
		}
	}
	for f.events.Len() > 0 {
		e := f.events.Pop()
		if e.node < 0 {
			f.arrive(e.pod, e.at)
			continue
		}
		n := &f.nodes[e.node]
		if e.ready {
			n.open = true
		} else {
			n.Free = n.Free.Plus(e.free)
			n.pods--
			n.attached.Remove(e.demands)
		}
		f.file(e.node)
		if n.open {
			f.fill(e.node, e.at)
		}
	}
	return f.waiting
}

// file adds a node to roomy or removes it, according to its free room.
func (f *forecast) file(at int) {
	n := &f.nodes[at]
	switch is := n.open && f.floor.Fits(n.Free); {
	case is && n.place < 0:
		n.place = len(f.roomy)
		f.roomy = append(f.roomy, at)
	case !is && n.place >= 0:
		last := f.roomy[len(f.roomy)-1]
		f.roomy[n.place], f.nodes[last].place = last, n.place
		f.roomy, n.place = f.roomy[:len(f.roomy)-1], -1
	}
}

// fill lets pending pods take the room of one node.
func (f *forecast) fill(at int, now time.Duration) {
	n, kept := &f.nodes[at], f.waiting[:0]
	for i, w := range f.waiting {
		if !f.least.Fits(n.Free) {
			kept = append(kept, f.waiting[i:]...)
			break
		}
		if n.holds(w.pod) {
			f.take(at, w.pod, now)
		} else {
			kept = append(kept, w)
		}
	}
	f.waiting = kept
}

// arrive places a pod on a node, or makes it pending.
func (f *forecast) arrive(p *cluster.Pod, now time.Duration) {
	best := -1
	for _, i := range f.roomy {
		if n := &f.nodes[i]; n.holds(p) && (best < 0 || f.prefers(p, i, best, now)) {
			best = i
		}
	}
	if best >= 0 {
		f.take(best, p, now)
		return
	}
	w := waiter{pod: p, since: now}
	at, _ := slices.BinarySearchFunc(f.waiting, w, chooses)
	f.waiting = slices.Insert(f.waiting, at, w)
	f.least = smaller(f.least, p.Size)
}

// prefers reports whether the pod prefers node a to node b.
func (f *forecast) prefers(p *cluster.Pod, a, b int, now time.Duration) bool {
	if p.Class == class.Service {
		return packing.CompareFit(f.nodes[a].Node, f.nodes[b].Node) < 0
	}
	return packing.CompareTimeBin(p.Runtime, f.cycle)(f.nodes[a].at(now), f.nodes[b].at(now)) < 0
}

// at returns the node as packing sees it at a time.
func (n *future) at(now time.Duration) packing.Node {
	seen := n.Node
	if seen.Remaining = n.last; n.last != packing.Endless {
		seen.Remaining = n.last - now
	}
	return seen
}

func (n *future) holds(p *cluster.Pod) bool {
	return p.Size.Fits(n.Free) && n.node.Suits(p) && n.node.Takes(n.pods+1) &&
		n.attached.Refuses(p.Demands, n.node.Host) == ""
}

// take gives a pod its room until it ends.
func (f *forecast) take(at int, p *cluster.Pod, now time.Duration) {
	n := &f.nodes[at]
	if f.note != nil {
		f.note(at, p, now)
	}
	if now == 0 && n.node.Phase == cluster.Ready {
		f.atOnce = append(f.atOnce, placed{p, n.node})
	}
	if foreignOrder(n.node) {
		f.elsewhere[p.Name] = true
	}
	if p.Class == class.Batch && !p.Guessed {
		f.expect(coming{at: now + p.Runtime, node: at, free: p.Size, demands: p.Demands})
	}
	n.Free = n.Free.Minus(p.Size)
	n.pods++
	n.attached.Add(p.Demands)
	if p.Class == class.Service {
		n.last = packing.Endless
	}
	n.last = max(n.last, now+p.Runtime)
	f.file(at)
}

// mostExpected bounds the number of expected pods in a plan.
const mostExpected = 500

// expectedPrefix begins the names of expected pods in a plan. No pod name contains a space.
const expectedPrefix = "expected "

// kindOfArrival groups pods whose arrivals are counted together. Their CPU and memory may differ: in a stream of diverse
// pods, hardly a size comes twice, but their sum hardly changes.
type kindOfArrival struct {
	class    class.Class
	arch     string
	demands  *constraint.Pod
	extended packing.Extended
}

// expected returns the pods that are expected to arrive and to be unschedulable before a machine bought now would be ready,
// where [forecast.arrivals] repeats the recent arrivals. Pods whose placement depends on other pods are left out.
//
// Batch pods that run for less than the lag follow each other in one room: of them, as many are returned as would run at
// the same time if they had not had to wait for the machine (see stays).
func expected(s *cluster.State, coupled map[*constraint.Pod]bool) []purchase.Pod {
	watched := *s
	watched.Recent = steady(s, coupled)
	if len(watched.Recent) == 0 {
		return nil
	}
	var pods []purchase.Pod
	rooms := 0.0
	for i, w := range newForecast(&watched, untilReady(s), nil).run() {
		if w.since == 0 || w.pod.Nominated {
			continue
		}
		before := math.Floor(rooms)
		if rooms += stays(w.pod, s.Lag); math.Floor(rooms) == before {
			continue
		}
		pod := purchase.PodOf(w.pod)
		pod.Name = fmt.Sprintf("%s%d", expectedPrefix, i)
		if pods = append(pods, pod); len(pods) == mostExpected {
			break
		}
	}
	return pods
}

// stays returns for which share of a lag a pod needs its room, at most 1. Pods that arrive throughout a lag use as many
// rooms at a time as the sum of these shares (Little's law).
func stays(p *cluster.Pod, lag time.Duration) float64 {
	if p.Class != class.Batch || p.Guessed || p.Runtime <= 0 || p.Runtime >= lag {
		return 1
	}
	return p.Runtime.Seconds() / lag.Seconds()
}

// parts is the number of equal parts into which the last lag is divided to measure how steadily pods arrive. With more
// parts, a Job that creates its pods over some time would look like a stream.
const parts = 8

// kindSeen are the pods of a kind, by their indices in the state, and how many of them arrived in each part. Pods that
// arrive at once, like those of one Job, may be split by the border of two parts, but not also by borders that are half a
// part later, so both divisions are counted.
type kindSeen struct {
	pods        []int
	parts, half [parts + 1]int
}

// counted returns the number of pods of a kind that are expected again: all but those of the part in which most arrived.
func (k *kindSeen) counted() int {
	return len(k.pods) - max(slices.Max(k.parts[:]), slices.Max(k.half[:]))
}

// partOf returns the part in which a pod of the window arrived. With later 0.5, all borders are half a part later.
func partOf(p *cluster.Pod, window time.Duration, later float64) int {
	return min(int(parts*p.Waited.Seconds()/window.Seconds()+later), parts)
}

// steady returns the pods of the last lag that are expected to arrive again within the next one, in their order: of each
// kind, all but as many as arrived in the part in which most did. Pods that arrived together once are therefore not
// expected again, and those that arrived together k times, k − 1 times. Of 8, 64 and 256 pods that arrive by chance at a
// steady rate, 5, 51 and 214 are expected on average: at least one standard deviation less than came, because room that
// stays unused costs more than a pod that waits. Pods with coupled demands are left out.
//
// Of a kind, the pods that arrived in the parts with the fewest pods are expected first, ties newest first: if a Job
// created many pods among a stream of others, the others are expected.
func steady(s *cluster.State, coupled map[*constraint.Pod]bool) []cluster.Pod {
	window := min(s.Observed, s.Lag)
	kinds := map[kindOfArrival]*kindSeen{}
	for i := range s.Recent {
		p := &s.Recent[i]
		if p.Waited < 0 || p.Waited >= window || coupled[p.Demands] {
			continue
		}
		kind := kindOfArrival{p.Class, p.Arch, p.Demands, p.Size.Extended}
		k := kinds[kind]
		if k == nil {
			k = &kindSeen{}
			kinds[kind] = k
		}
		k.pods = append(k.pods, i)
		k.parts[partOf(p, window, 0)]++
		k.half[partOf(p, window, 0.5)]++
	}
	again := make(map[*cluster.Pod]bool, len(s.Recent))
	for _, k := range kinds {
		among := func(i int) int { return k.parts[partOf(&s.Recent[i], window, 0)] }
		slices.SortStableFunc(k.pods, func(a, b int) int { return cmp.Compare(among(a), among(b)) })
		for _, i := range k.pods[:k.counted()] {
			again[&s.Recent[i]] = true
		}
	}
	return keep(s.Recent, func(p *cluster.Pod) bool { return again[p] })
}

// grow plans again with the expected pods added, and of that plan buys the machines that hold a pending pod. So nothing
// is bought before a pod needs it, and what is bought has room for the pods that arrive meanwhile. The price of each machine
// includes the room that it is expected to leave unused (see halfAPod). The first plan stays if pods depend on each other,
// if no pods are expected, or if the limits or the bound do not allow more.
func (d *FleetDecision) grow(s *cluster.State, o FleetOptions, asking []purchase.Pod, flavors []cluster.Flavor, coupled map[*constraint.Pod]bool, b *bound) {
	if len(d.Plan.Machines) == 0 || slices.ContainsFunc(asking, func(p purchase.Pod) bool { return coupled[p.Demands] }) {
		return
	}
	more := expected(s, coupled)
	if len(more) == 0 {
		return
	}
	housed := map[string]bool{} // on machines of the plan
	for _, m := range d.Plan.Machines {
		for _, pod := range m.Pods {
			housed[pod] = true
		}
	}
	for _, p := range asking {
		if housed[p.Name] {
			more = append(more, p)
		}
	}
	larger := purchase.Larger(o.request(s, more, nil, flavors, mixOptions(s)), d.halfAPod())
	if slices.ContainsFunc(larger.Unplaceable, func(u purchase.Unplaceable) bool { return !isExpected(u.Pod) }) {
		return
	}
	machines := slices.DeleteFunc(larger.Machines, func(m purchase.Machine) bool { return !slices.ContainsFunc(m.Pods, isPending) })
	if b.allows(machines) {
		d.take(machines, s.Lag)
	}
}

// halfAPod returns half of what the plan costs per pod, in micro-dollars per hour. While pods come and go, the free room of
// a machine is, on average, too small for the next pod by half a pod: room for that is paid on each machine and never used.
// Fewer and larger machines leave less of it.
func (d *FleetDecision) halfAPod() int64 {
	pods := int64(0)
	for i := range d.Plan.Machines {
		pods += int64(len(d.Plan.Machines[i].Pods))
	}
	return d.Plan.MicroDollarsPerHour / (2 * max(pods, 1))
}

// take replaces the machines of the plan by those of a plan with expected pods, each of which holds a pending pod.
func (d *FleetDecision) take(machines []purchase.Machine, lag time.Duration) {
	d.Plan.Machines, d.Plan.MicroDollarsPerHour = nil, 0
	assigned := slices.DeleteFunc(d.Plan.Assignments, func(a purchase.Assignment) bool { return !a.Waits })
	numbers := map[string]int{}
	for _, m := range machines {
		waiting := slices.DeleteFunc(slices.Clone(m.Pods), isExpected)
		if n := len(m.Pods) - len(waiting); n > 0 {
			d.Expected += n
			m.Reason += fmt.Sprintf("; %d of them %s expected within %v", n, plural.Form(n, "is", "are"), lag.Round(time.Second))
		}
		m.Pods = waiting
		m.Name = fmt.Sprintf("%s-%d", m.Flavor, numbers[m.Flavor])
		numbers[m.Flavor]++
		for _, pod := range waiting {
			assigned = append(assigned, purchase.Assignment{Pod: pod, Machine: m.Name})
		}
		d.Plan.Machines = append(d.Plan.Machines, m)
		d.Plan.MicroDollarsPerHour += m.MicroDollarsPerHour
	}
	slices.SortFunc(assigned, func(a, b purchase.Assignment) int { return strings.Compare(a.Pod, b.Pod) })
	d.Plan.Assignments = assigned
	d.Plan.Gap = purchase.Gap(d.Plan.MicroDollarsPerHour, d.Plan.LowerBoundMicroDollarsPerHour)
}

func isPending(pod string) bool { return !isExpected(pod) }

func isExpected(pod string) bool { return strings.HasPrefix(pod, expectedPrefix) }
