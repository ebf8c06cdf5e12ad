package moves

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// drain plans the drain of a node and reserves the room that it needs.
func (r *planning) drain(n *cluster.Node) (cluster.Drain, bool) {
	if why := r.stays(n); why != "" {
		r.note(n, "%s", why)
		return cluster.Drain{}, false
	}
	if r.config.Worthwhile {
		return r.worthwhile(n)
	}
	if !r.budget.allows(len(n.Pods)) {
		r.note(n, "it has %d pods, and %s", len(n.Pods), r.budget)
		return cluster.Drain{}, false
	}
	t := r.try(n)
	t.fill(r.leavers(n), allOrNothing)
	if len(t.left) > 0 || !t.feasible() {
		t.noteNowhere(n)
		t.rollback()
		return r.replace(n)
	}
	d := cluster.Drain{Node: n.Name, Method: r.config.Method, Moves: t.plan(), Until: t.leave()}
	d.Reason = fmt.Sprintf("%.0f%% utilised, and %s", 100*r.config.Utilization(n), podsFit(len(d.Moves)))
	t.commit()
	r.budget.spend(len(d.Moves))
	return d, true
}

// replace plans a cheaper machine for all pods of a node.
func (r *planning) replace(n *cluster.Node) (cluster.Drain, bool) {
	if !r.config.Replace || r.spare <= 0 || !r.budget.allows(len(n.Pods)) || slices.ContainsFunc(n.Pods, func(p cluster.Pod) bool { return !r.movable(&p) }) {
		return cluster.Drain{}, false
	}
	used := asked(n)
	var best *cluster.Flavor
	for i := range r.state.Flavors {
		f := &r.state.Flavors[i]
		if f.Arch != n.Arch || !used.Fits(f.Size) || !f.ServesGPUs(used) || !f.Takes(len(n.Pods)) ||
			f.MicroDollarsPerHour >= n.MicroDollarsPerHour || !f.Sells(r.bought[f.Name]+1) {
			continue
		}
		if (best == nil || f.MicroDollarsPerHour < best.MicroDollarsPerHour) && r.rules.replaceable(n, f) {
			best = f
		}
	}
	if best == nil {
		return cluster.Drain{}, false
	}
	r.spare--
	r.bought[best.Name]++
	r.budget.spend(len(n.Pods))
	r.setLeaving(r.byName[n.Name], true)
	reason := fmt.Sprintf("%.0f%% utilised, and %s holds %s for less", 100*r.config.Utilization(n), best.Name, plural.Part(len(n.Pods), len(n.Pods), "pod"))
	return cluster.Drain{
		Node: n.Name, Method: r.config.Method, Reason: reason,
		Replacement: &cluster.Purchase{Flavor: best.Name, Class: n.Class, Pods: names(n.Pods), Reason: "replaces " + n.Name},
	}, true
}

// asked returns the total requests of the pods of a node on another node.
func asked(n *cluster.Node) (sum packing.Size) {
	for i := range n.Pods {
		sum = sum.Plus(n.Pods[i].Elsewhere().Size)
	}
	return sum
}

// choice is one way to drain a node: the first pods that a trial has moved leave by these methods, all others are
// waited for.
type choice struct {
	account
	methods []cluster.Method
	// leave is when the last pod has left.
	leave time.Duration
}

// drainPlan compares the ways to drain one node: see [Planner.Plan].
type drainPlan struct {
	*planning
	n *cluster.Node
	// stay is how long the node is needed if nothing is moved.
	stay time.Duration
	// must are the pods that have to move. may are those that may also be waited for, the one that ends last first.
	must, may []cluster.Pod
	// choices are those with the greatest gain for each number of moving pods.
	choices []choice
	// targets are those of must and of the first pods of may, in the order of the moves.
	targets []moved
}

// worthwhile plans the drain of a node if that saves enough.
func (r *planning) worthwhile(n *cluster.Node) (cluster.Drain, bool) {
	e := &drainPlan{planning: r, n: n, stay: r.needed(n)}
	if r.bill(n, e.stay) <= r.bill(n, 0) {
		r.note(n, "its pods end in %v, and the node is paid until then anyway", e.stay.Round(time.Second))
		return cluster.Drain{}, false
	}
	e.must = slices.DeleteFunc(r.leavers(n), func(p cluster.Pod) bool {
		waits := r.ways(&p).Has(cluster.Wait)
		if waits {
			e.may = append(e.may, p)
		}
		return waits
	})
	slices.SortFunc(e.may, func(a, b cluster.Pod) int {
		return cmp.Or(cmp.Compare(r.end(&b), r.end(&a)), cluster.Scheduled(a, b))
	})
	if !r.budget.allows(len(e.must)) {
		r.note(n, "%d of its pods have to move, and %s", len(e.must), r.budget)
		return cluster.Drain{}, false
	}
	if !e.weigh() {
		return r.replace(n)
	}
	return e.take()
}

// weigh fills in the choices. It returns false if pods that have to move have no place.
//
// The pods that are waited for are those that end first: if the node is paid until one of them has ended, those that
// end sooner cost nothing by waiting too. The moving pods are therefore must and the first pods of may. Each is placed
// as if the later ones did not move, so one search serves all choices.
func (e *drainPlan) weigh() bool {
	e.note(e.n, "its pods run for longer than %v, and not all can move", e.config.Patience)
	t := e.tryMoving(e.n, e.must)
	defer t.rollback()
	t.fill(e.must, allOrNothing)
	if len(t.left) > 0 || !t.feasible() {
		t.noteNowhere(e.n)
		return false
	}
	most := e.bill(e.n, e.stay) - e.bill(e.n, 0)
	for at := 0; ; at++ {
		if len(t.moved) > 0 && e.patient(at) {
			c, least := e.best(t, at)
			e.choices = append(e.choices, c)
			if least >= most { // further moves only increase the costs
				break
			}
		}
		if at == len(e.may) || !e.move(t, &e.may[at]) {
			break
		}
	}
	e.targets = t.moved // rollback does not change them
	return true
}

// patient reports whether the pods of may from index at on may be waited for.
func (e *drainPlan) patient(at int) bool {
	return at == len(e.may) || e.config.Patience == 0 || e.end(&e.may[at]) <= e.config.Patience
}

// move moves one more pod, if possible.
func (e *drainPlan) move(t *trial, p *cluster.Pod) bool {
	switch {
	case !e.movable(p):
		e.note(e.n, "pod %s %s", p.Name, e.whyFixed(p))
		return false
	case !e.budget.allows(len(t.moved) + 1):
		e.note(e.n, "%d of its pods would have to move, and %s", len(t.moved)+1, e.budget)
		return false
	}
	e.rules.remove(p, e.byName[e.n.Name].at)
	to, _ := t.target(p, allOrNothing)
	if to == nil {
		t.left = []cluster.Pod{*p}
		t.noteNowhere(e.n)
		return false
	}
	t.put(*p, to)
	return true
}

// best returns the best choice in which the pods that the trial has moved move, and those of may from index waiting on
// are waited for. Each pod leaves by its own best method. If the node is then paid for periods in which only migrations
// are in progress, evictions instead of the longest migrations are also tried. No choice with these moves costs less
// than least.
func (e *drainPlan) best(t *trial, waiting int) (best choice, least int64) {
	var ends time.Duration
	if waiting < len(e.may) {
		ends = e.end(&e.may[waiting])
	}
	methods := make([]cluster.Method, len(t.moved))
	for i := range methods {
		methods[i] = t.way(&t.moved[i].pod)
	}
	best = e.choice(t, methods, ends)
	least = best.costs
	for leave := best.leave; e.bill(e.n, leave) > e.bill(e.n, ends); {
		methods = slices.Clone(methods)
		for i := range methods {
			p := &t.moved[i].pod
			if methods[i] != cluster.Migrate || t.takes(p, cluster.Migrate) < leave {
				continue
			}
			if !e.ways(p).Has(cluster.Evict) {
				return best, least
			}
			methods[i] = cluster.Evict
		}
		other := e.choice(t, methods, ends)
		leave = other.leave
		if other.gain() > best.gain() {
			best = other
		}
	}
	return best, least
}

// choice calculates the result of moving pods by these methods if the others end by the given time.
func (e *drainPlan) choice(t *trial, methods []cluster.Method, ends time.Duration) choice {
	c := choice{methods: methods, leave: ends}
	for i, m := range methods {
		if m == cluster.Migrate {
			c.leave = max(c.leave, t.takes(&t.moved[i].pod, m))
		}
	}
	c.saves = e.bill(e.n, e.stay) - e.bill(e.n, c.leave)
	c.costs = t.costs(methods)
	c.paid = cluster.Bill(e.n.MicroDollarsPerHour, e.stay, 0)
	return c
}

// take carries out the best choice that pays and that the constraints between pods allow.
func (e *drainPlan) take() (cluster.Drain, bool) {
	if len(e.choices) == 0 {
		return cluster.Drain{}, false // weigh has recorded the reason
	}
	slices.SortStableFunc(e.choices, func(a, b choice) int { return cmp.Compare(b.gain(), a.gain()) })
	for i := range e.choices {
		c := &e.choices[i]
		if !c.pays(e.config.Margin) {
			break
		}
		if d, ok := e.apply(c); ok {
			return d, true
		}
	}
	best := &e.choices[0]
	if !best.pays(e.config.Margin) {
		e.notePrice(e.n, best)
	} else {
		e.note(e.n, "its pods fit on other nodes one by one, but not together")
	}
	return cluster.Drain{}, false
}

// apply applies the choice to the round, unless constraints between pods prevent it.
func (e *drainPlan) apply(c *choice) (cluster.Drain, bool) {
	gone := e.targets[:len(c.methods)]
	pods := make([]cluster.Pod, len(gone))
	for i := range gone {
		pods[i] = gone[i].pod
	}
	t := e.tryMoving(e.n, pods)
	for i := range gone {
		t.put(gone[i].pod, gone[i].to)
	}
	if !t.feasible() {
		t.rollback()
		return cluster.Drain{}, false
	}
	d := cluster.Drain{Node: e.n.Name, Method: e.config.Method, Until: c.leave, Saves: c.saves, Costs: c.costs, Moves: e.movesOf(t, c)}
	for i, m := range t.moved {
		m.to.stay = max(m.to.stay, t.cut(t.end(&m.pod)+t.delay(&m.pod, c.methods[i]), &m.pod))
	}
	t.commit()
	e.budget.spend(len(gone))
	d.Reason = fmt.Sprintf("%.0f%% utilised, and %s; saves $%.6f for $%.6f", 100*e.config.Utilization(e.n), e.what(len(gone), c.leave),
		float64(d.Saves)/1e6, float64(d.Costs)/1e6)
	return d, true
}

// podsFit describes that all pods of a node can move.
func podsFit(pods int) string {
	if pods == 1 {
		return "its only pod fits on another node"
	}
	return fmt.Sprintf("its %d pods fit on other nodes", pods)
}

// what describes what happens to the pods of the node if gone of them move.
func (e *drainPlan) what(gone int, leave time.Duration) string {
	pods := len(e.n.Pods)
	end := fmt.Sprintf("%s %s within %v", plural.Part(pods-gone, pods, "pod"), plural.Form(pods-gone, "ends", "end"), leave.Round(time.Second))
	switch gone {
	case pods:
		return podsFit(gone)
	case 0:
		return end
	case 1:
		return end + " and the other fits on another node"
	}
	return end + " and the others fit on other nodes"
}

// whyMoved compares the methods for a pod that moves.
func (e *drainPlan) whyMoved(t *trial, m *moved, c *choice, chosen cluster.Method) string {
	if e.why == nil {
		return ""
	}
	all := []string{e.price(t, m, chosen)}
	for _, other := range []cluster.Method{cluster.Migrate, cluster.Evict} {
		if w := e.ways(&m.pod); other != chosen && w.Has(other) {
			all = append(all, "to "+e.price(t, m, other))
		}
	}
	if e.ways(&m.pod).Has(cluster.Wait) {
		all = append(all, e.keeping(&m.pod, c))
	}
	return strings.Join(all, "; ")
}

// price describes the cost of a pod that leaves by the given method.
func (e *drainPlan) price(t *trial, m *moved, way cluster.Method) string {
	costs := dollars(shareOf(m.to.node, m.pod.Size, t.delay(&m.pod, way)), 6)
	took := t.takes(&m.pod, way).Round(time.Millisecond)
	if way == cluster.Evict {
		return fmt.Sprintf("evict costs %s (%v of repeated work)", costs, took)
	}
	return fmt.Sprintf("migrate costs %s (freezes the pod for %v, and may lose %v of work)", costs, took, t.takes(&m.pod, cluster.Evict).Round(time.Second))
}

// keeping describes what the node costs beyond the choice if it is kept until the pod ends.
func (e *drainPlan) keeping(p *cluster.Pod, c *choice) string {
	end := max(c.leave, e.until(p))
	return fmt.Sprintf("waiting for %v costs %s of the node", e.end(p).Round(time.Second), dollars(e.bill(e.n, end)-e.bill(e.n, c.leave), 6))
}

// whyWaits returns the reason why a pod is waited for.
func (e *drainPlan) whyWaits(p *cluster.Pod) string {
	if e.why == nil {
		return ""
	}
	return fmt.Sprintf("ends in %v, and the node is paid until then", e.end(p).Round(time.Second))
}

// movesOf returns what happens to each pod, sorted by name.
func (e *drainPlan) movesOf(t *trial, c *choice) []cluster.Move {
	all := make([]cluster.Move, 0, len(e.n.Pods))
	for i := range t.moved {
		p, to := &t.moved[i].pod, t.moved[i].to
		all = append(all, cluster.Move{
			Pod: p.Name, Target: to.Name, Method: c.methods[i], Takes: t.takes(p, c.methods[i]),
			Costs: shareOf(to.node, p.Size, t.delay(p, c.methods[i])), Reason: e.whyMoved(t, &t.moved[i], c, c.methods[i]),
		})
	}
	for i := len(t.moved) - len(e.must); i < len(e.may); i++ {
		all = append(all, cluster.Move{Pod: e.may[i].Name, Method: cluster.Wait, Reason: e.whyWaits(&e.may[i])})
	}
	slices.SortFunc(all, byPod)
	return all
}
