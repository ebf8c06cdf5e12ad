package moves

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/text/plural"
)

// offer is an exchange that pays.
type offer struct {
	account
	set  []*cluster.Node
	wait time.Duration
	// leave is when the last pod has left.
	leave    time.Duration
	waiting  []cluster.Pod // waited for until they end
	moved    []moved
	machines []machine
}

// answer is the result of a call of the buyer.
type answer struct {
	buy   []cluster.Purchase
	moves []cluster.Move
	ok    bool
}

// mostWaits is how many numbers of pods to wait for are tried.
const mostWaits = 4

// offer returns the best way to replace the machines, or nil if none pays.
func (x *exchanger) offer(set []*cluster.Node) *offer {
	var best *offer
	for _, waiting := range x.waitings(set) {
		if !x.budget.allows(podsOn(set) - len(waiting)) {
			continue
		}
		if o := x.offerWaiting(set, waiting); best == nil || o != nil && o.gain() > best.gain() {
			best = o
		}
	}
	return best
}

func podsOn(set []*cluster.Node) int {
	pods := 0
	for _, n := range set {
		pods += len(n.Pods)
	}
	return pods
}

// waitings returns the alternatives of pods to wait for: those that cannot leave otherwise; also all that end before
// new machines would be ready; and also up to three numbers of those that end next. It returns nil if a pod that cannot
// leave otherwise ends too late.
func (x *exchanger) waitings(set []*cluster.Node) [][]cluster.Pod {
	var must, may []cluster.Pod
	for _, n := range set {
		for i := range n.Pods {
			p := &n.Pods[i]
			switch {
			case !x.movable(p):
				if !x.patient(p) {
					return nil
				}
				must = append(must, *p)
			case x.ways(p).Has(cluster.Wait) && x.patient(p):
				may = append(may, *p)
			}
		}
	}
	all := [][]cluster.Pod{must}
	slices.SortFunc(may, func(a, b cluster.Pod) int {
		return cmp.Or(cmp.Compare(x.end(&a), x.end(&b)), cmp.Compare(a.Name, b.Name))
	})
	soon := 0
	for soon < len(may) && x.end(&may[soon]) <= x.state.Lag {
		soon++
	}
	later := len(may) - soon
	for i := range mostWaits {
		if n := soon + later*i/(mostWaits-1); n > len(all[len(all)-1])-len(must) {
			all = append(all, slices.Concat(must, may[:n]))
		}
	}
	return all
}

// patient reports whether the pod ends soon enough to cordon its machine until then.
func (x *exchanger) patient(p *cluster.Pod) bool {
	return x.c.Patience == 0 || x.end(p) <= x.c.Patience
}

// offerWaiting returns the better way to fill room on other nodes with the pods that are not waited for.
func (x *exchanger) offerWaiting(set []*cluster.Node, waiting []cluster.Pod) *offer {
	best, lengthened := x.offerFilling(set, waiting, partial)
	if !lengthened {
		return best
	}
	if other, _ := x.offerFilling(set, waiting, withinStay); best == nil || other != nil && other.gain() > best.gain() {
		return other
	}
	return best
}

// trySet begins a trial in which all pods of the machines move except waiting.
func (x *exchanger) trySet(set []*cluster.Node, waiting []cluster.Pod) *trial {
	if len(waiting) == 0 {
		return x.try(set...)
	}
	t := &trial{planning: x.planning, saved: map[int]room{}, waiting: waiting}
	for _, n := range set {
		from := x.byName[n.Name]
		x.setLeaving(from, true)
		t.from = append(t.from, from)
		for i := range n.Pods {
			if !t.waits(&n.Pods[i]) {
				x.rules.remove(&n.Pods[i], from.at)
			}
		}
	}
	return t
}

// offerFilling returns the offer for the machines if room on other nodes is filled in the given mode, and whether nodes
// are then needed longer.
func (x *exchanger) offerFilling(set []*cluster.Node, waiting []cluster.Pod, how fillMode) (o *offer, lengthened bool) {
	t := x.trySet(set, waiting)
	t.moved = x.moved[:0]
	defer func() { x.moved = t.moved }()
	defer t.rollback()
	x.moving = t.movingPods(x.moving[:0])
	t.fill(x.moving, how)
	for at, was := range t.saved {
		lengthened = lengthened || x.byName[x.state.Nodes[at].Name].stay > was.stay
	}
	var machines []machine
	if len(t.left) > 0 {
		t.wait = x.state.Lag
		if machines = x.purchase(t); machines == nil {
			return nil, lengthened
		}
	}
	if !t.feasible() || slices.ContainsFunc(machines, func(m machine) bool { return !x.rules.feasibleAll(m.pods, m.host) }) {
		return nil, lengthened
	}
	if len(machines) == 0 {
		t.wait = 0
	}
	a := t.account(machines)
	if !a.pays(x.c.Margin) {
		return nil, lengthened
	}
	x.futile = 0
	return &offer{account: a, set: set, wait: t.wait, leave: t.leave(), waiting: waiting, moved: slices.Clone(t.moved), machines: machines}, lengthened
}

// movingPods appends the pods that move.
func (t *trial) movingPods(all []cluster.Pod) []cluster.Pod {
	for _, from := range t.from {
		for i := range from.node.Pods {
			if p := &from.node.Pods[i]; !t.waits(p) {
				all = append(all, t.leaver(from.node, p))
			}
		}
	}
	return all
}

// purchase finds machines for the pods of a trial that have no room, and places those for which the buyer finds room on
// nodes after all. It returns nil if there are no such machines, or if none could pay.
func (x *exchanger) purchase(t *trial) []machine {
	if x.spare <= 0 {
		return nil
	}
	if x.sale == nil {
		x.sale = newOnSale(x.flavors())
	}
	if !x.mayPay(t) {
		return nil
	}
	a := x.ask(t, x.sale.flavors)
	if !a.ok {
		return nil
	}
	return x.check(t, a, x.sale.flavors)
}

// mayPay reports whether the trial could pay with some machines for the pods without room. If it could not, the search for
// them, which is the expensive part, is not needed.
func (x *exchanger) mayPay(t *trial) bool {
	without := t.account(nil)
	pays := func(least int64) bool {
		return account{saves: without.saves - least, costs: without.costs, paid: without.paid}.pays(x.c.Margin)
	}
	if !pays(t.leastShares(x.sale)) {
		return false
	}
	least, possible := t.leastMachine(x.sale)
	return possible && pays(least)
}

// flavors returns the flavors that can still be bought.
func (x *exchanger) flavors() []cluster.Flavor {
	var all []cluster.Flavor
	for _, f := range x.state.Flavors {
		bought := x.bought[f.Name]
		if !f.Sells(bought + 1) {
			continue
		}
		if f.Most != nil {
			f.Most = new(*f.Most - bought)
		}
		all = append(all, f)
	}
	return all
}

// ask calls the buyer, or returns its cached answer for the same pods if that is still within the limits.
func (x *exchanger) ask(t *trial, flavors []cluster.Flavor) answer {
	var key strings.Builder
	for i := range t.left {
		key.WriteString(t.left[i].Name + "\x00")
	}
	if a, ok := x.answers[key.String()]; ok && x.rules.tracker == nil && (!a.ok || x.within(a.buy, flavors)) {
		return a
	}
	if x.calls == 0 || x.futile == MostFutile {
		return answer{}
	}
	x.calls--
	x.futile++
	var a answer
	a.buy, a.moves, a.ok = x.buy(slices.Clone(t.left), x.view(t), slices.Clone(flavors), x.spare)
	x.answers[key.String()] = a
	return a
}

// within reports whether the purchases are within the limits.
func (x *exchanger) within(buy []cluster.Purchase, flavors []cluster.Flavor) bool {
	counts := map[string]int{}
	for _, p := range buy {
		counts[p.Flavor]++
	}
	for name, n := range counts {
		f := flavorNamed(flavors, name)
		if f == nil || !f.Sells(n) {
			return false
		}
	}
	return len(buy) <= x.spare
}

func flavorNamed(flavors []cluster.Flavor, name string) *cluster.Flavor {
	at := slices.IndexFunc(flavors, func(f cluster.Flavor) bool { return f.Name == name })
	if at < 0 {
		return nil
	}
	return &flavors[at]
}

// view returns the future nodes, including machines bought before. It returns nil if no pod's placement depends on
// others.
func (x *exchanger) view(t *trial) []cluster.Node {
	if x.rules.tracker == nil {
		return nil
	}
	nodes := slices.Clone(x.state.Nodes)
	for i := range nodes {
		n := &nodes[i]
		if room := x.byName[n.Name]; room != nil && !room.accepts() {
			n.Phase, n.Pods = cluster.Leaving, nil
		}
		n.Pods = append(slices.Clip(n.Pods), x.added[i]...)
	}
	for _, from := range t.from {
		for _, p := range from.node.Pods {
			if t.waits(&p) {
				nodes[from.at].Pods = append(slices.Clip(nodes[from.at].Pods), p)
			}
		}
	}
	for _, m := range t.moved {
		nodes[m.to.at].Pods = append(slices.Clip(nodes[m.to.at].Pods), m.pod)
	}
	for i, m := range x.machines {
		nodes = append(nodes, cluster.Node{
			Name: fmt.Sprintf("bought-%06d", i), Flavor: m.flavor.Name, Class: m.class, Capacity: m.flavor.Size, MaxPods: m.flavor.MaxPods,
			Arch: m.flavor.Arch, Host: m.flavor.Host, MicroDollarsPerHour: m.flavor.MicroDollarsPerHour, Phase: cluster.Ordered, Pods: m.pods,
		})
	}
	return nodes
}

// check applies an answer to the trial. It returns nil unless every remaining pod has exactly one place, with room and
// allowed by the constraints on the node, within all limits.
func (x *exchanger) check(t *trial, a answer, flavors []cluster.Flavor) []machine {
	if !x.within(a.buy, flavors) {
		return nil
	}
	left := make(map[string]cluster.Pod, len(t.left))
	for _, p := range t.left {
		left[p.Name] = p
	}
	take := func(name string) (cluster.Pod, bool) {
		p, ok := left[name]
		delete(left, name)
		return p, ok
	}
	for _, m := range a.moves {
		to := x.byName[m.Target]
		pod, ok := take(m.Pod)
		if !ok || to == nil || !to.accepts() || !to.holds(&pod) || !x.rules.suits(&pod, to) {
			return nil
		}
		t.put(pod, to)
	}
	machines := make([]machine, 0, len(a.buy))
	for _, p := range a.buy {
		m := machine{flavor: flavorNamed(x.state.Flavors, p.Flavor), class: p.Class, reason: p.Reason}
		for _, name := range p.Pods {
			pod, ok := take(name)
			if !ok {
				return nil
			}
			m.pods = append(m.pods, pod)
		}
		if len(m.pods) == 0 || !m.holds() {
			return nil
		}
		t.addMachine(&m)
		machines = append(machines, m)
	}
	if len(left) > 0 {
		return nil
	}
	return machines
}

// holds reports whether the machine has room for its pods and each of them may run there as far as other pods do not
// matter.
func (m *machine) holds() bool {
	n := cluster.Node{Class: m.class, Capacity: m.flavor.Size, Arch: m.flavor.Arch, Host: m.flavor.Host, Pods: m.pods}
	if used := n.Used(); !used.Fits(m.flavor.Size) || !m.flavor.Takes(len(m.pods)) {
		return false
	}
	return !slices.ContainsFunc(m.pods, func(p cluster.Pod) bool { return !n.Suits(&p) })
}

// addMachine places the pods of a machine to buy in the tracker.
func (t *trial) addMachine(m *machine) {
	if t.rules.tracker == nil {
		return
	}
	m.host = t.rules.addMachine(m.flavor)
	t.rules.placeAll(m.pods, m.host)
}

// exchange returns an offer in the form for the caller.
func (x *exchanger) exchange(o *offer) cluster.Exchange {
	t := &trial{planning: x.planning, wait: o.wait, moved: o.moved}
	e := cluster.Exchange{Method: x.c.Method, Saves: o.saves, Costs: o.costs, Until: o.leave}
	for _, n := range o.set {
		e.Nodes = append(e.Nodes, n.Name)
		e.SavesPerHour += n.MicroDollarsPerHour
	}
	slices.Sort(e.Nodes)
	for _, m := range o.machines {
		reason := cmp.Or(m.reason, "replaces "+strings.Join(e.Nodes, ", "))
		e.Buy = append(e.Buy, cluster.Purchase{Flavor: m.flavor.Name, Class: m.class, Pods: names(m.pods), Reason: reason})
		e.SavesPerHour -= m.flavor.MicroDollarsPerHour
	}
	e.Moves = t.plan()
	for i := range o.waiting {
		e.Moves = append(e.Moves, cluster.Move{Pod: o.waiting[i].Name, Method: cluster.Wait})
	}
	slices.SortFunc(e.Moves, byPod)
	e.Leave = t.leaveFor(o.machines)
	e.Reason = fmt.Sprintf("%s: saves %s an hour, and until %v from now %s for %s",
		o.what(), dollars(e.SavesPerHour, 4), x.c.Horizon, dollars(o.saves, 4), dollars(o.costs, 4))
	return e
}

// leaveFor returns how the pods of new machines leave, sorted by name.
func (t *trial) leaveFor(machines []machine) []cluster.Move {
	var all []cluster.Move
	for i := range machines {
		for j := range machines[i].pods {
			p := &machines[i].pods[j]
			way := t.way(p)
			all = append(all, cluster.Move{
				Pod: p.Name, Method: way, Takes: t.takes(p, way),
				Costs: shareOf(&cluster.Node{MicroDollarsPerHour: machines[i].flavor.MicroDollarsPerHour, Capacity: machines[i].flavor.Size}, p.Size, t.delay(p, way)),
			})
		}
	}
	slices.SortFunc(all, byPod)
	return all
}

// what describes the exchange.
func (o *offer) what() string {
	var all []string
	if len(o.machines) > 0 {
		all = append(all, fmt.Sprintf("%s for %d", plural.Count(len(o.machines), "machine"), len(o.set)))
	} else {
		all = append(all, "no machine for "+plural.Count(len(o.set), "machine"))
	}
	if n := len(o.moved); n > 0 {
		all = append(all, "room on other nodes for "+plural.Count(n, "pod"))
	}
	if n := len(o.waiting); n > 0 {
		all = append(all, fmt.Sprintf("%s %s within %v", plural.Count(n, "pod"), plural.Form(n, "ends", "end"), o.leave.Round(time.Second)))
	}
	if last := len(all) - 1; last > 0 {
		all[last] = "and " + all[last]
	}
	return strings.Join(all, ", ")
}
