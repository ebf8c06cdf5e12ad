package fleetdecide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/text/plural"
)

// drainPoll is the time after which refused evictions are retried.
const drainPoll = 5 * time.Second

// unscheduled is how long a drained node is kept for a pod that the scheduler may be binding to it. After that time the
// pod seems to have no scheduler.
const unscheduled = 2 * time.Minute

// Draining is a node that the fleet drains.
type Draining struct {
	// Node is the name of the node, which is the key of its machine.
	Node string
	// Since is when the node was cordoned. Until is when its last pod was expected to have left; zero if it had no
	// pods.
	Since, Until time.Time
	// Joined reports that pods could be bound to the node if it were uncordoned.
	Joined bool
	// Pods are the pods on the node, without expendable ones, those of DaemonSets and those that ended with the node.
	Pods []LeavingPod
	// Expendable is the number of expendable pods on the node, and Ending is how many of them are being deleted.
	Expendable, Ending int
	// Notice is what announces that the machine is about to be taken, for people; empty if nothing does.
	Notice string
	// Needed is a pending pod that needs this node and for which no machine is ordered; empty if there is none.
	Needed string
}

// LeavingPod is a pod on a node that is drained.
type LeavingPod struct {
	Name  string
	Class class.Class
	// Going reports that the pod is being deleted.
	Going bool
	// Resided is how long the pod has been on the node.
	Resided time.Duration
	// Stays is why the pod will not leave; empty if it leaves or ends.
	Stays string
	// Controller identifies the controller that replaces the pod, as in [cluster.Pod]. Evicted reports that the pod leaves
	// by an eviction.
	Controller string
	Evicted    bool
}

// stays returns why a pod will not leave its node, which has been cordoned for the time closed, or "".
//
// An evicted pod of a service is restarted at once. If it tolerates cordoned nodes, it may come back to this one. It
// then stays, and so does the node, because it would be evicted again and again.
func (r *planning) stays(p *LeavingPod, closed time.Duration) string {
	if p.Evicted && !p.Going && r.staysLike(p.Controller) {
		return noRoomAgain
	}
	if p.Class != class.Service || p.Going || p.Stays != "" {
		return p.Stays
	}
	switch {
	case !r.c.MoveServices:
		return "services are not moved"
	case p.Resided < closed:
		return "it was bound after the node was cordoned"
	case p.Resided < r.c.PodResidence:
		return fmt.Sprintf("it has been on its node for %v and may not be moved before %v", p.Resided.Round(time.Second), r.c.PodResidence)
	}
	return ""
}

// kept is a node that could not be drained.
type kept struct {
	times int
	until time.Time
	why   string
	// used reports that there have been pods on the node since.
	used bool
}

// drains continues the drains: it has pods leave, uncordons nodes that cannot be drained, and releases the machines of
// empty ones.
func (r *planning) drains() {
	for _, node := range r.o.Foreign {
		r.uncordon(Uncordoning{Node: node})
	}
	claimed := map[string]bool{}
	var housing *housing
	for _, d := range r.drained {
		elapsed := r.now.Sub(d.Since)
		if d.Notice != "" && r.c.Act {
			r.hurry(d, elapsed)
			continue
		}
		switch why, pod := r.fails(d), r.wants(d, claimed); {
		case why != "":
			r.keep(d.Node, why)
		case pod != "":
			// Only that pod keeps the node open: see FleetDecision.unused.
			done := Event{false, v1alpha1.FleetReasonUncordoned, v1alpha1.ActionUncordon, fmt.Sprintf("uncordoned node %s: it has room for pending pod %s", d.Node, pod)}
			r.uncordon(Uncordoning{Node: d.Node, Cancel: true, Done: &done})
		case len(d.Pods) > 0:
			r.wake(drainPoll)
			if housing == nil {
				housing = newHousing(&r.state)
			}
			if len(housing.unhoused(d.Node)) == 0 { // else machines may be on order
				r.actions.Ask = append(r.actions.Ask, d.Node)
				r.asks(d)
			}
		case r.expends(d, elapsed):
			r.wake(time.Second)
		case elapsed < r.c.ReleaseDelay:
			r.wake(r.c.ReleaseDelay - elapsed)
		case r.binding(d.Since):
			r.wake(time.Second)
		default:
			r.releaseEmpty(d.Node)
		}
	}
}

// respectNotices cordons the nodes whose machines are about to be taken, however many may be drained at a time, so that their pods
// are asked to leave in the next round. It emits an event for each, with what is lost. A node without such a notice, or that
// is gone, being deleted, or drained already, is left as it is, as are flavors that are kept.
func (r *planning) respectNotices() {
	if !r.c.Act {
		return
	}
	for _, m := range r.all {
		n := m.NodeState
		if m.Leaving || n == nil || n.Notice == "" || n.Drained || n.Deleted || m.Unidentified != "" || r.flavors[m.Flavor].Kept {
			continue
		}
		r.actions.Cordon = append(r.actions.Cordon, Cordoning{Node: n.Name})
		r.wake(time.Second)
		text := fmt.Sprintf("the machine of node %s is about to be taken: it has %s. Its pods leave", n.Name, n.Notice)
		if at := slices.IndexFunc(r.state.Nodes, func(s cluster.Node) bool { return s.Name == m.Key }); at >= 0 {
			text += lostWith(&r.state.Nodes[at])
		}
		r.recordEvent(Event{true, v1alpha1.FleetReasonMachineInterrupted, v1alpha1.ActionDrain, text})
	}
}

// lostWith describes the work that is lost when the machine of a node is taken: that of batch pods which cannot be moved with
// their state. It names the one that loses the most, the first by name of several. It is empty if nothing is lost.
func lostWith(n *cluster.Node) string {
	var most *cluster.Pod
	lost, total := 0, time.Duration(0)
	for i := range n.Pods {
		p := &n.Pods[i]
		if !p.Repeats && p.Class != class.Batch || p.Ways.Has(cluster.Migrate) || p.Expendable {
			continue
		}
		lost, total = lost+1, sum(total, p.Ran)
		if most == nil || p.Ran > most.Ran {
			most = p
		}
	}
	if most == nil {
		return ""
	}
	text := fmt.Sprintf("; %s cannot be moved with %s state: %v of work is lost unless %s within the notice, %v of it in pod %s", plural.Count(lost, "pod"),
		plural.Form(lost, "its", "their"), total.Round(time.Second), plural.Form(lost, "it ends", "they end"), most.Ran.Round(time.Second), most.Name)
	if most.Held != "" {
		text += " (" + most.Held + ")"
	}
	return text
}

// hurry continues the drain of a node whose machine is about to be taken. Its pods are asked to leave whether or not they have
// room elsewhere: machines are bought for those that are then pending, and a Migration freezes nothing before its pod has a
// place. Pods that may not leave run on until they end or the machine is taken. The node is never uncordoned, and its machine
// is released when it is empty, even below the minimum of its flavor, which another machine then reaches.
func (r *planning) hurry(d *Draining, elapsed time.Duration) {
	switch {
	case len(d.Pods) > 0:
		r.actions.Ask = append(r.actions.Ask, d.Node)
		r.wake(drainPoll)
	case r.expends(d, elapsed), r.binding(d.Since):
		r.wake(time.Second)
	case elapsed < r.c.ReleaseDelay:
		r.wake(r.c.ReleaseDelay - elapsed)
	case r.mayRelease(r.machines[d.Node].Flavor):
		r.empty[r.machines[d.Node].Flavor]++
		r.actions.Release = append(r.actions.Release, d.Node)
	default:
		r.wake(time.Second)
	}
}

// expends reports whether a node that has only expendable pods is kept for a moment, so that they end as others do: they are
// evicted, and those that are being deleted have up to DrainTimeout since the cordon. A refused eviction keeps no node.
func (r *planning) expends(d *Draining, elapsed time.Duration) bool {
	if d.Expendable == 0 || elapsed >= r.c.DrainTimeout {
		return false
	}
	if d.Expendable > d.Ending {
		r.actions.Ask = append(r.actions.Ask, d.Node)
	}
	return d.Ending > 0 || elapsed < drainPoll
}

// releaseEmpty releases the machine of an empty node, unless its flavor would fall below its minimum.
func (r *planning) releaseEmpty(node string) {
	f := r.flavors[r.machines[node].Flavor]
	if f.Ordered-r.gone[f.Name]-r.empty[f.Name] <= f.Min {
		r.keep(node, fmt.Sprintf("flavor %s must keep at least %s", f.Name, plural.Count(f.Min, "machine")))
		return
	}
	if !r.mayRelease(f.Name) {
		r.wake(time.Second)
		return
	}
	r.empty[f.Name]++
	r.actions.Release = append(r.actions.Release, node)
}

func (r *planning) uncordon(re Uncordoning) {
	r.uncordoned[re.Node] = true
	r.actions.Uncordon = append(r.actions.Uncordon, re)
}

// binding reports whether a pod, created no later than ReleaseDelay after a node was cordoned, has been neither bound
// nor found unschedulable: the scheduler may be binding it to that node.
func (r *planning) binding(closed time.Time) bool {
	return r.now.Sub(closed) <= unscheduled &&
		slices.ContainsFunc(r.o.Unbound, func(created time.Time) bool { return created.Before(closed.Add(r.c.ReleaseDelay)) })
}

// keep uncordons a node that could not be drained, and does not drain it again for a back-off that doubles each time.
// Without it, every round would try again.
func (r *planning) keep(node, why string) {
	r.uncordon(Uncordoning{Node: node, Cancel: true})
	r.recordEvent(Event{true, v1alpha1.FleetReasonDrainCancelled, v1alpha1.ActionUncordon, fmt.Sprintf("node %s is kept: %s", node, why)})
	if !r.c.Act {
		return
	}
	k := r.m.kept[node]
	k.until = r.now.Add(r.keptFor() << min(k.times, mostDoublings))
	k.times++
	k.why = why
	r.m.kept[node] = k
}

// keptFor returns the back-off of a node that could not be drained for the first time.
func (r *planning) keptFor() time.Duration { return max(r.c.Residence, r.c.DrainTimeout) }

// keeps reports whether a node is in back-off because it could not be drained. The back-off ends early if all pods have
// left since: what prevented the drain has left with them. A clock that was ahead does not prolong it.
func (r *planning) keeps(node *cluster.Node) bool {
	k, is := r.m.kept[node.Name]
	if !is {
		return false
	}
	if len(node.Pods) == 0 && k.used {
		delete(r.m.kept, node.Name)
		return false
	}
	k.used = len(node.Pods) > 0
	r.m.kept[node.Name] = k
	left := k.until.Sub(r.now)
	return left > 0 && left <= r.keptFor()<<mostDoublings
}

// fails returns why a drain is cancelled, or "". No pod is late within the time that the pods are expected to take.
func (r *planning) fails(d *Draining) string {
	if !r.c.Act {
		return "the fleet may not act: it is in mode Observe, or Supercargo is paused"
	}
	for i := range d.Pods {
		if why := r.stays(&d.Pods[i], r.now.Sub(d.Since)); why != "" {
			return fmt.Sprintf("pod %s must not be moved: %s", d.Pods[i].Name, why)
		}
	}
	begun := d.Since
	if d.Until.After(begun) {
		begun = d.Until
	}
	timeout := r.c.DrainTimeout
	if late := r.now.Sub(begun); len(d.Pods) > 0 && late > timeout && late > timeout+r.untilRoom(d.Node) {
		return fmt.Sprintf("%s %s not left within %v", plural.Count(len(d.Pods), "pod"), plural.Form(len(d.Pods), "has", "have"), timeout)
	}
	return ""
}

// untilRoom returns how much longer the pods on a node may take to leave because the room for them is still on order:
// the join timeout, if they have no room on the existing nodes but have room on those and the machines on order
// together. It returns 0 if machines on order do not help them.
func (r *planning) untilRoom(node string) time.Duration {
	with := r.state
	with.Nodes = slices.Clone(with.Nodes)
	var longest time.Duration
	for i := range with.Nodes {
		n := &with.Nodes[i]
		f := r.flavors[n.Flavor]
		if n.Phase != cluster.Ordered || n.Kept || f == nil {
			continue
		}
		n.Phase = cluster.Ready
		longest = max(longest, f.JoinTimeout)
	}
	if longest == 0 || len(Unhoused(&r.state, node)) == 0 || len(Unhoused(&with, node)) > 0 {
		return 0
	}
	return longest
}

// wants returns the name of a pending pod that would have room on an empty drained node, or "". Pods claimed for other
// nodes and unexplained ones do not count; all others that have room on this one are claimed for it.
func (r *planning) wants(d *Draining, claimed map[string]bool) (first string) {
	at := slices.IndexFunc(r.state.Nodes, func(n cluster.Node) bool { return n.Name == d.Node })
	if !d.Joined || len(d.Pods) > 0 || at < 0 { // its machine is abandoned, or pods are leaving it
		return ""
	}
	n := r.state.Nodes[at]
	open(&n)
	for i := range r.state.Pending {
		p := &r.state.Pending[i]
		if !claimed[p.Name] && wanted(&n, r.state.Pending[i:i+1]) && !r.unexplained(p, r.now.Sub(d.Since)) {
			claimed[p.Name] = true
			n.Pods = append(slices.Clip(n.Pods), *p)
			first = cmp.Or(first, p.Name)
		}
	}
	return cmp.Or(d.Needed, first)
}

// unexplained reports whether a pod had already stayed pending although there was room for it (see patience) when a node was
// cordoned, the given time ago. Such a pod does not keep an empty node from being released, so it does not have the node
// uncordoned either: the next round would cordon it again.
func (r *planning) unexplained(p *cluster.Pod, ago time.Duration) bool {
	return p.Waited >= patience+ago && slices.ContainsFunc(r.state.Nodes, func(n cluster.Node) bool {
		return n.Phase == cluster.Ready && n.HasRoom(p)
	})
}

// evicted is the outcome of the evictions of a controller's pods.
type evicted struct {
	// asked is when an eviction was first requested whose result is not known yet; zero if there is none.
	asked time.Time
	// until is how long no further pod of the controller is evicted, because the pod that replaced an evicted one found no
	// room. times is how often that has happened in a row.
	until time.Time
	times int
}

// asks records that pods on a drained node are asked to leave.
func (r *planning) asks(d *Draining) {
	for i := range d.Pods {
		p := &d.Pods[i]
		if p.Controller == "" || !p.Evicted {
			continue
		}
		e := r.m.evicted[p.Controller]
		if e.asked.IsZero() {
			e.asked = r.now
		}
		r.m.evicted[p.Controller] = e
	}
}

// learnSuccessors learns which controllers create pods that found no room in place of evicted ones. The pods that they
// create request more than is known: for example, all are resized after their start, or a webhook that adds a container
// was installed after the evicted pod was created. Without a back-off, the next pod would be evicted as soon as it may be.
func (r *planning) learnSuccessors() {
	for i := range r.state.Pending {
		p := &r.state.Pending[i]
		e, is := r.m.evicted[p.Controller]
		if !is || e.asked.IsZero() || r.now.Add(-p.Waited).Before(e.asked) {
			continue
		}
		e.until = r.now.Add(r.keptFor() << min(e.times, mostDoublings))
		e.asked = time.Time{}
		e.times++
		r.m.evicted[p.Controller] = e
		r.recordEvent(Event{true, v1alpha1.FleetReasonDrainCancelled, v1alpha1.ActionUncordon, fmt.Sprintf(
			"pods of %s are kept for %v: pod %s was created after an eviction of one of them was requested, and found no room", p.Controller, e.until.Sub(r.now), p.Name)})
	}
	maps.DeleteFunc(r.m.evicted, func(_ string, e evicted) bool {
		fits := !e.asked.IsZero() && r.now.Sub(e.asked) > r.c.DrainTimeout // what replaced the pod has been scheduled
		return fits || e.asked.IsZero() && r.now.Sub(e.until) > r.keptFor()<<min(e.times, mostDoublings)
	})
	for i := range r.state.Nodes {
		n := &r.state.Nodes[i]
		owned := false
		for j := range n.Pods {
			if !r.staysLike(n.Pods[j].Controller) {
				continue
			}
			if !owned {
				owned, n.Pods = true, slices.Clone(n.Pods)
			}
			n.Pods[j].Fixed, n.Pods[j].Held = true, noRoomAgain
		}
	}
}

// noRoomAgain is why a pod stays although it may be evicted.
const noRoomAgain = "after an eviction of another pod of its controller, a new one found no room"

// staysLike reports whether the pods of a controller are not evicted now. A clock that was ahead does not prolong that.
func (r *planning) staysLike(controller string) bool {
	e, is := r.m.evicted[controller]
	left := e.until.Sub(r.now)
	return is && left > 0 && left <= r.keptFor()<<mostDoublings
}

// retire decides how the machines of a fleet that is being deleted are released. Machines without a node are released at
// once. Nodes are cordoned, at most as many with pods at a time as are drained otherwise, but at least one, those with the
// fewest pods first; ties by name. Their pods are asked to leave whether or not they have room elsewhere: for pods that are
// then pending, other fleets buy machines. Pods that do not leave are awaited until they end. A node that another program
// drains, and one that is not identified, is left until that has changed; flavors that are kept are left as they are.
//
// Cost: O(machines + pods).
func (r *planning) retire() {
	r.wake(drainPoll)
	if !r.c.Act || r.c.SkipDrains {
		return
	}
	r.retireUnmade()
	for _, d := range r.drained {
		elapsed := r.now.Sub(d.Since)
		switch {
		case len(d.Pods) > 0:
			r.actions.Ask = append(r.actions.Ask, d.Node)
		case r.expends(d, elapsed), r.binding(d.Since):
			r.wake(time.Second)
		case elapsed < r.c.ReleaseDelay:
			r.wake(r.c.ReleaseDelay - elapsed)
		case r.mayRelease(r.machines[d.Node].Flavor):
			r.actions.Release = append(r.actions.Release, d.Node)
		}
	}
	r.retireNodes()
	r.release()
}

// retireUnmade releases the machines without a node, and lowers the desired number by those that are not made.
func (r *planning) retireUnmade() {
	for i := range r.o.Flavors {
		f := &r.o.Flavors[i]
		a := Abandonment{Avoidance: Avoidance{Flavor: f.Name}, Want: f.Want}
		for _, m := range r.all {
			if m.Flavor == f.Name && !m.Leaving && m.NodeState == nil && m.Unidentified == "" {
				a.Release = append(a.Release, m.Name)
			}
		}
		if len(a.Release) == 0 {
			a.Fewer = max(0, f.Want-r.made[f.Name])
		}
		if f.Kept || !a.changes() || len(a.Release) > 0 && !r.mayRelease(f.Name) {
			continue
		}
		a.Unseen = a.Release
		r.actions.Abandoned = append(r.actions.Abandoned, a)
	}
}

// retireNodes cordons nodes of the fleet.
func (r *planning) retireNodes() {
	var nodes []cluster.Node
	for _, n := range cluster.WithoutExpendable(r.state.Nodes) {
		m := r.machines[n.Name]
		if m != nil && m.NodeState != nil && !m.NodeState.Drained && !m.NodeState.Deleted && m.Unidentified == "" && !r.flavors[m.Flavor].Kept {
			n.Name = m.NodeState.Name // it may not accept pods yet
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b cluster.Node) int {
		return cmp.Or(cmp.Compare(len(a.Pods), len(b.Pods)), cmp.Compare(a.Name, b.Name))
	})
	budget := r.budget()
	if r.o.Leaving() == 0 {
		budget = max(budget, 1)
	}
	for i := range nodes {
		if n := &nodes[i]; len(n.Pods) == 0 || budget > 0 {
			r.actions.Cordon = append(r.actions.Cordon, Cordoning{Node: n.Name})
			budget -= min(len(n.Pods), 1)
		}
	}
	if len(r.actions.Cordon) > 0 {
		r.wake(r.c.ReleaseDelay)
	}
}

// Stays names the first machine, by node, whose pods do not leave although the fleet drains it, and why; empty if there is
// none.
func (o *Observation) Stays() string {
	for i := range o.Drains {
		for j := range o.Drains[i].Pods {
			if p := &o.Drains[i].Pods[j]; p.Stays != "" {
				return fmt.Sprintf("node %s has pod %s, which does not leave: %s", o.Drains[i].Node, p.Name, p.Stays)
			}
		}
	}
	return ""
}
