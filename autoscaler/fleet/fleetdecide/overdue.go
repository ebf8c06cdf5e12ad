package fleetdecide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Abandonment is what to do about the machines of one flavor that did not come.
type Abandonment struct {
	// Avoidance is the back-off of the flavor. It is set if New is not 0.
	Avoidance
	// New is the number of machines found late in this round: Overdue, by name, and Missing, which were never created.
	New     int
	Overdue []string
	Missing int
	// Why is why the first of them is late.
	Why string
	// Release are the names of machines to release; Want is the desired number before that.
	Release []string
	Want    int
	// Fewer is by how much to reduce the desired number; 0 if any machines are released.
	Fewer int
	// Unseen are machines that were observed without a node: see [Actions].
	Unseen []string
	// slow is how many of Release have not failed, but are late. later are the machines that later rounds release:
	// see mostAbandoned.
	slow  int
	later []*Machine
	// Kept reports that the flavor is kept: no pod waits for the machines any longer, but they stay ordered.
	Kept bool
	// Awaited is how many of the New machines are neither released nor cordoned, nor is the desired number reduced by
	// them: they are still awaited.
	Awaited int
	// Event reports the New machines, if there are any. It is recorded once it is certain that they are late.
	Event Event
}

// changes reports whether the desired number of machines changes.
func (a *Abandonment) changes() bool { return len(a.Release) > 0 || a.Fewer > 0 }

// frees reports whether pods stop waiting for machines of the flavor.
func (a *Abandonment) frees() bool { return a.changes() || len(a.later) > 0 || a.Kept && a.New > 0 }

// Unseen returns the machines to read again, without a cache, before any is abandoned. If one of them has a node by
// now, the decision is out of date.
func (a *Actions) Unseen() []string {
	var all []string
	for i := range a.Abandoned {
		all = append(all, a.Abandoned[i].Unseen...)
	}
	return all
}

// overdue is a machine that did not come in time.
type overdue struct {
	*Machine
	why string
}

// abandon decides what to do about machines that did not come in time, or will never come: they are released, and their
// flavors are avoided for a while. A machine that has a node after all is cordoned first, as for a drain, because its
// kubelet may start at any moment.
func (r *planning) abandon() {
	if !r.c.Act {
		return
	}
	late, missing := r.overdue(), r.missing()
	ordering, most := 0, r.mostAbandoned()
	for i := range r.o.Flavors {
		f := &r.o.Flavors[i]
		a := r.abandonment(f, late[f.Name], missing[f.Name], most)
		if len(a.Release) > 0 && !r.mayRelease(f.Name) || a.Fewer > 0 && r.c.MaxFlavors > 0 && ordering >= r.c.MaxFlavors {
			continue // the others are still late in the next round
		}
		r.await(a.later)
		most -= a.slow
		for _, l := range late[f.Name] {
			switch {
			case l.NodeState == nil || f.Want <= f.Min || f.Kept:
			case most > 0:
				r.actions.Cordon = append(r.actions.Cordon, Cordoning{Node: l.NodeState.Name})
				most--
			case !r.m.overdue[l.Name]:
				a.Awaited++
			}
		}
		if a.New == 0 && !a.changes() {
			continue
		}
		if a.Fewer > 0 {
			ordering++
		}
		r.gone[f.Name] += len(a.Release) + a.Fewer
		r.unorder(f.Name, a.Fewer)
		if f.Kept {
			r.unorder(f.Name, a.Missing)
		}
		if a.New > 0 {
			a.Avoidance = r.avoid(f.Name)
			a.Event = Event{true, v1alpha1.FleetReasonMachineAbandoned, v1alpha1.ActionAbandon, a.text()}
		}
		r.actions.Abandoned = append(r.actions.Abandoned, a)
		if a.frees() {
			r.withoutNominations(a.Flavor)
		}
	}
}

// mostAbandoned returns how many machines this round may release or cordon because they are late, without those that
// have failed. With those that are leaving already, at most half of all machines go at a time, rounded up, or two, but at
// least one in each round: if all machines seem to be late, then probably the API server or the cloud is slow, and some come
// before the next round. Pods wait for the others meanwhile.
func (r *planning) mostAbandoned() int {
	machines, leaving := 0, r.o.Leaving()
	for i := range r.o.Flavors {
		machines += r.o.Flavors[i].Ordered
	}
	for _, m := range r.all {
		if m.Leaving {
			machines++
		}
	}
	return max(1, max(2, (machines+1)/2)-leaving)
}

// text says what is done about the machines, and why.
func (a *Abandonment) text() string {
	verb, n, more := "abandoned", a.New-a.Awaited, ""
	switch {
	case a.Kept:
		verb, n = "stopped waiting for", a.New
	case n == 0:
		verb, n = "still waits for", a.New
	case a.Awaited > 0:
		more = fmt.Sprintf(", and still waits for %d", a.Awaited)
	}
	return fmt.Sprintf("%s %s of flavor %s%s: %s; the flavor is in back-off until %s", verb, plural.Count(n, "machine"), a.Flavor, more, a.Why, a.Until.UTC().Format(time.RFC3339))
}

// mayRelease reports whether machines of a flavor may be released in this round.
func (r *planning) mayRelease(flavor string) bool {
	if !r.releasing[flavor] && r.c.MaxFlavors > 0 && len(r.releasing) >= r.c.MaxFlavors {
		return false
	}
	r.releasing[flavor] = true
	return true
}

// await makes late machines of the state machines on order again, so that those that replace them do not come on top of
// them.
func (r *planning) await(machines []*Machine) {
	for _, m := range machines {
		at := slices.IndexFunc(r.state.Nodes, func(n cluster.Node) bool { return n.Name == m.Key })
		if at >= 0 {
			r.state.Nodes[at].Phase = cluster.Ordered
		}
	}
}

// unorder removes machines from the state that were never created.
func (r *planning) unorder(flavor string, n int) {
	r.state.Nodes = slices.DeleteFunc(r.state.Nodes, func(node cluster.Node) bool {
		if n == 0 || node.Flavor != flavor || node.Phase != cluster.Ordered || node.Kept || r.machines[node.Name] != nil {
			return false
		}
		n--
		return true
	})
}

// abandonment decides about one flavor, of which at most slow machines may be released that have not failed. Machines
// within the minimum number are awaited, and those of a kept flavor are only reported: more machines are bought of it,
// so it needs its back-off.
func (r *planning) abandonment(f *Flavor, late []overdue, missing, slow int) Abandonment {
	a := Abandonment{
		Avoidance: Avoidance{Flavor: f.Name}, Missing: missing, Want: f.Want, Kept: f.Kept,
		Why: fmt.Sprintf("it has %s fewer than desired", plural.Count(missing, "machine")),
	}
	most := max(0, f.Want-f.Min)
	if f.Kept {
		most = 0
	}
	for _, l := range late {
		reported := r.m.overdue[l.Name]
		if !reported {
			a.Overdue = append(a.Overdue, l.Name)
			a.Why = l.why
		}
		if l.NodeState != nil {
			if !reported && f.Want <= f.Min {
				a.Awaited++
			}
			continue
		}
		releases := a.release(l.Machine, most, slow)
		if !reported && !releases {
			a.Awaited++
		}
		if releases || !reported {
			a.Unseen = append(a.Unseen, l.Name)
		}
	}
	if len(a.Release) == 0 {
		a.Fewer = min(missing, most)
	}
	a.New = len(a.Overdue) + missing
	a.Awaited += missing - a.Fewer
	return a
}

// release adds a machine to those to release, at most so many, or to those that later rounds release. It reports whether
// the machine is released now. slow is as for abandonment.
func (a *Abandonment) release(m *Machine, most, slow int) bool {
	switch {
	case len(a.Release)+len(a.later) >= most:
		return false
	case m.Failed == "" && a.slow >= slow:
		a.later = append(a.later, m)
		return false
	case m.Failed == "":
		a.slow++
	}
	a.Release = append(a.Release, m.Name)
	return true
}

// overdue returns the machines that did not come in time, by flavor, ordered by name.
func (r *planning) overdue() map[string][]overdue {
	found := map[string][]overdue{}
	for _, m := range r.all {
		if f := r.flavors[m.Flavor]; m.Leaving || f.Kept && f.Unusable {
			continue
		}
		timeout := r.flavors[m.Flavor].JoinTimeout
		switch wait := r.patience(m, timeout); {
		case wait <= 0:
			found[m.Flavor] = append(found[m.Flavor], overdue{m, m.whyLate(timeout)})
		case wait != notAwaited:
			r.wake(wait)
		}
	}
	for _, machines := range found {
		slices.SortFunc(machines, func(a, b overdue) int { return cmp.Compare(a.Name, b.Name) })
	}
	return found
}

// notAwaited means that a machine has come, or is already leaving.
const notAwaited = time.Duration(math.MaxInt64)

// patience returns how much longer to wait for a machine, or notAwaited. A machine whose node was ready before is
// abandoned once the node has been unready for the same timeout and nothing is lost with it. A machine whose node is
// not identified is never abandoned: pods may run on it.
func (r *planning) patience(m *Machine, timeout time.Duration) time.Duration {
	switch {
	case m.Unidentified != "":
		return notAwaited
	case m.NodeState == nil && m.Failed != "":
		return 0
	case m.NodeState == nil:
		return timeout - r.now.Sub(r.withoutNode(m))
	}
	delete(r.m.lost, m.Name)
	if m.NodeState.Ready || m.NodeState.Drained || m.NodeState.Deleted || m.NodeState.Remains.Lost != "" {
		return notAwaited
	}
	return max(m.NodeState.Remains.After, timeout-m.Unready(r.now))
}

// withoutNode returns since when a machine has had no node: since its order, or, if it had one, since its absence was
// first observed. The node may have been deleted so that its kubelet registers again.
func (r *planning) withoutNode(m *Machine) time.Time {
	if m.Node == "" {
		return m.Ordered
	}
	since, known := r.m.lost[m.Name]
	if !known {
		since = r.now
		r.m.lost[m.Name] = since
	}
	return since
}

// ceased reports whether the node was ready before.
func (n *NodeState) ceased() bool { return n.Changed.Sub(n.Created) > time.Second }

// Unready returns how long the node of a machine has been unready: since it stopped being ready, or since the order of
// the machine if it never was ready.
func (m *Machine) Unready(now time.Time) time.Duration {
	if m.NodeState.ceased() {
		return now.Sub(m.NodeState.Changed)
	}
	return now.Sub(m.Ordered)
}

// whyLate returns why a machine is abandoned.
func (m *Machine) whyLate(timeout time.Duration) string {
	switch n := m.NodeState; {
	case m.Failed != "":
		return m.Failed
	case n != nil:
		why := fmt.Sprintf("node %s has not become ready within %v", n.Name, timeout)
		if n.ceased() {
			why = fmt.Sprintf("node %s has not been ready since %s", n.Name, n.Changed.UTC().Format(time.RFC3339))
		}
		if n.Remains.Pods > 0 {
			why += plural.Form(n.Remains.Pods, ", and the grace period of the terminating pod on it is over", fmt.Sprintf(", and the grace periods of the %d terminating pods on it are over", n.Remains.Pods))
		}
		return why
	case m.Waits != "":
		return fmt.Sprintf("no ready node within %v: %s", timeout, m.Waits)
	}
	return fmt.Sprintf("no ready node within %v", timeout)
}

// Dead describes the machines that are kept although their nodes have been unready for longer than the timeout, ordered
// by node.
func (o *Observation) Dead(now time.Time) []string {
	flavors := make(map[string]*Flavor, len(o.Flavors))
	for i := range o.Flavors {
		flavors[o.Flavors[i].Name] = &o.Flavors[i]
	}
	var kept []string
	for i := range o.Machines {
		m := &o.Machines[i]
		n, f := m.NodeState, flavors[m.Flavor]
		if m.Leaving || n == nil || f == nil || m.Key != n.Name || m.Unidentified != "" || n.Deleted || n.Ready || n.Drained || m.Unready(now) < f.JoinTimeout {
			continue
		}
		switch {
		case n.Remains.Lost != "":
			kept = append(kept, fmt.Sprintf("node %s is not ready, and pod %s on it is not being deleted and may still run: delete the pod, or set taint %s on the node if its machine is off",
				n.Name, n.Remains.Lost, corev1.TaintNodeOutOfService))
		case f.Want <= f.Min:
			kept = append(kept, fmt.Sprintf("node %s is not ready, and its flavor %s has its minimum number of machines: replace the machine", n.Name, m.Flavor))
		}
	}
	slices.SortFunc(kept, strings.Compare)
	return kept
}

// missing returns, by flavor, how many desired machines were never created, if none was created for as long as a
// machine may take to come.
func (r *planning) missing() map[string]int {
	found := map[string]int{}
	for i := range r.o.Flavors {
		f := &r.o.Flavors[i]
		made := r.made[f.Name] + f.Blocked // the latter are late for a known reason
		if made >= f.Want || f.Unusable {
			delete(r.m.missing, f.Name)
			continue
		}
		s := r.m.missing[f.Name].continues(r.now, made, f.Want-made)
		r.m.missing[f.Name] = s
		if r.now.Sub(s.since) >= f.JoinTimeout {
			found[f.Name] = s.lacks
		}
	}
	return found
}

// stall is a time in which a flavor has fewer machines than desired and none is created. Machines that arrive one after
// the other are awaited, however slowly they come: reducing the desired number while they are being created may remove
// one with pods on it.
type stall struct {
	since time.Time
	// made is the number of machines at the last observation, and lacks the least number that was lacking since the
	// stall began.
	made, lacks int
}

// continues returns the current stall: the same one, or a new one if there is none yet or a machine has been created.
func (s *stall) continues(now time.Time, made, lacks int) *stall {
	if s == nil || made > s.made {
		return &stall{since: now, made: made, lacks: lacks}
	}
	s.made = made                 // fewer, if one is gone: its successor counts as created
	s.lacks = min(s.lacks, lacks) // later orders have their own stall
	return s
}
