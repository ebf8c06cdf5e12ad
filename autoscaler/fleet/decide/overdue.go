package decide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster"
)

// Abandonment is what to do about machines of one flavor that did not come.
type Abandonment struct {
	// Avoidance is of the flavor, if New is not 0.
	Avoidance
	// New is how many machines are found to be late in this round: Overdue by name, and
	// Missing that were never made.
	New     int
	Overdue []string
	Missing int
	// Why says why the first of them is late.
	Why string
	// Release are machines to release, by name, of Want that there are to be.
	Release []string
	Want    int
	// Fewer is how many machines fewer there are to be; 0 if any are released.
	Fewer int
	// Unseen are machines that were seen to have no node: see [Actions].
	Unseen []string
}

// changes reports whether the number of machines changes.
func (a *Abandonment) changes() bool { return len(a.Release) > 0 || a.Fewer > 0 }

// Unseen are the machines to look at again, past any cache, before any are abandoned: if one
// of them has a node by now, what was decided is out of date.
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

// abandon decides what to do about machines that did not come in time, or are known never to
// come: they are released, and their flavors avoided for a while. One that has a node after
// all is cordoned first, like one that is drained: its kubelet may come to life at any moment.
func (r *round) abandon() {
	if !r.c.Act {
		return
	}
	late, missing := r.overdue(), r.missing()
	ordering := 0
	for i := range r.o.Flavors {
		f := &r.o.Flavors[i]
		a := r.abandonment(f, late[f.Name], missing[f.Name])
		if len(a.Release) > 0 && !r.mayRelease(f.Name) || a.Fewer > 0 && r.c.MaxFlavors > 0 && ordering >= r.c.MaxFlavors {
			continue // the others are late in the next round, too
		}
		for _, l := range late[f.Name] {
			if l.Node != nil && f.Want > f.Min {
				r.actions.Cordon = append(r.actions.Cordon, Cordoning{Node: l.Node.Name})
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
		if a.New > 0 {
			a.Avoidance = r.avoid(f.Name)
			r.tell(Event{true, "MachineAbandoned", "Abandon", fmt.Sprintf(
				"%d machines of %s did not come (%s); it is in back-off until %s", a.New, f.Name, a.Why, a.Until.UTC().Format("15:04:05"))})
		}
		r.actions.Abandoned = append(r.actions.Abandoned, a)
		if a.changes() {
			r.withoutNominations(a.Flavor)
		}
	}
}

// mayRelease reports whether machines of a flavor may be released in this round.
func (r *round) mayRelease(flavor string) bool {
	if !r.releasing[flavor] && r.c.MaxFlavors > 0 && len(r.releasing) >= r.c.MaxFlavors {
		return false
	}
	r.releasing[flavor] = true
	return true
}

// unorder takes machines out of the state that were never made.
func (r *round) unorder(flavor string, n int) {
	r.state.Nodes = slices.DeleteFunc(r.state.Nodes, func(node cluster.Node) bool {
		if n == 0 || node.Flavor != flavor || node.Phase != cluster.Ordered || node.Kept || r.machines[node.Name] != nil {
			return false
		}
		n--
		return true
	})
}

// abandonment decides about one flavor. Machines that there must be at least are waited for.
func (r *round) abandonment(f *Flavor, late []overdue, missing int) Abandonment {
	a := Abandonment{
		Avoidance: Avoidance{Flavor: f.Name}, Missing: missing, Want: f.Want,
		Why: fmt.Sprintf("the MachineDeployment has made %d machines less than it is to have", missing),
	}
	most := max(0, f.Want-f.Min)
	for _, l := range late {
		told := r.m.overdue[l.Name]
		if !told {
			a.Overdue = append(a.Overdue, l.Name)
			a.Why = l.why
		}
		if l.Node != nil {
			continue
		}
		releases := len(a.Release) < most
		if releases {
			a.Release = append(a.Release, l.Name)
		}
		if releases || !told {
			a.Unseen = append(a.Unseen, l.Name)
		}
	}
	if len(a.Release) == 0 {
		a.Fewer = min(missing, most)
	}
	a.New = len(a.Overdue) + missing
	return a
}

// overdue returns the machines that did not come in time, by flavor and ordered by name.
func (r *round) overdue() map[string][]overdue {
	found := map[string][]overdue{}
	for _, m := range r.all {
		if m.Leaving {
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

// notAwaited is that a machine has come, or is on its way out already.
const notAwaited = time.Duration(math.MaxInt64)

// patience returns for how long a machine is still waited for, and notAwaited if it is not waited
// for. One whose node was ready before is abandoned after as long a time without being so,
// once nothing is lost with it. One whose node is not identified is not abandoned at all:
// there may be pods on it.
func (r *round) patience(m *Machine, timeout time.Duration) time.Duration {
	switch {
	case m.Unidentified:
		return notAwaited
	case m.Node == nil && m.Failed != "":
		return 0
	case m.Node == nil:
		return timeout - r.now.Sub(r.withoutNode(m))
	}
	delete(r.m.lost, m.Name)
	if m.Node.Ready || m.Node.Drained || m.Node.Deleted || m.Node.Remains.Lost != "" {
		return notAwaited
	}
	return max(m.Node.Remains.After, timeout-m.Unready(r.now))
}

// withoutNode returns since when a machine has had no node: since its order, or since that
// was first seen if it has had one. Somebody may have deleted the node to let its kubelet
// register again.
func (r *round) withoutNode(m *Machine) time.Time {
	if !m.HadNode {
		return m.Ordered
	}
	since, known := r.m.lost[m.Name]
	if !known {
		since = r.now
		r.m.lost[m.Name] = since
	}
	return since
}

// ceased reports whether the node has been ready before.
func (n *MachineNode) ceased() bool { return n.Changed.Sub(n.Created) > time.Second }

// Unready returns for how long the node of a machine has not been ready: since it ceased to
// be, or since the machine was ordered if it never was.
func (m *Machine) Unready(now time.Time) time.Duration {
	if m.Node.ceased() {
		return now.Sub(m.Node.Changed)
	}
	return now.Sub(m.Ordered)
}

// whyLate says why a machine is abandoned.
func (m *Machine) whyLate(timeout time.Duration) string {
	switch n := m.Node; {
	case m.Failed != "":
		return m.Failed
	case n != nil:
		why := fmt.Sprintf("node %s has not become ready within %v", n.Name, timeout)
		if n.ceased() {
			why = fmt.Sprintf("node %s has not been ready since %s", n.Name, n.Changed.UTC().Format(time.RFC3339))
		}
		if n.Remains.Pods > 0 {
			why += fmt.Sprintf(", and the grace periods of the %d pods on it, which are being deleted, are over", n.Remains.Pods)
		}
		return why
	case m.Waits != "":
		return fmt.Sprintf("no ready node within %v: %s", timeout, m.Waits)
	}
	return fmt.Sprintf("no ready node within %v", timeout)
}

// Dead returns why machines are kept whose nodes have not been ready for so long that they
// would be abandoned, ordered by node.
func (o *Observation) Dead(now time.Time) []string {
	flavors := make(map[string]*Flavor, len(o.Flavors))
	for i := range o.Flavors {
		flavors[o.Flavors[i].Name] = &o.Flavors[i]
	}
	var kept []string
	for i := range o.Machines {
		m := &o.Machines[i]
		n, f := m.Node, flavors[m.Flavor]
		if m.Leaving || n == nil || f == nil || m.Key != n.Name || m.Unidentified || n.Deleted || n.Ready || n.Drained || m.Unready(now) < f.JoinTimeout {
			continue
		}
		switch {
		case n.Remains.Lost != "":
			kept = append(kept, fmt.Sprintf("node %s is not ready and pod %s on it is not being deleted, so that it may still run: delete the pod, or set taint %s on the node if its machine is off",
				n.Name, n.Remains.Lost, corev1.TaintNodeOutOfService))
		case f.Want <= f.Min:
			kept = append(kept, fmt.Sprintf("node %s is not ready and its flavor %s has no more machines than it must have: replace the machine", n.Name, m.Flavor))
		}
	}
	slices.SortFunc(kept, strings.Compare)
	return kept
}

// missing returns how many machines of each flavor have not even been made: none was, for as
// long as one may take to come.
func (r *round) missing() map[string]int {
	found := map[string]int{}
	for i := range r.o.Flavors {
		f := &r.o.Flavors[i]
		made := r.made[f.Name]
		if made >= f.Want || f.Unusable {
			delete(r.m.missing, f.Name)
			continue
		}
		s := r.m.missing[f.Name].goesOn(r.now, made, f.Want-made)
		r.m.missing[f.Name] = s
		if r.now.Sub(s.since) >= f.JoinTimeout {
			found[f.Name] = s.lacks
		}
	}
	return found
}

// stall is a time in which a flavor has had fewer machines than it is to have, and none
// was made. Machines that come one after the other are waited for, however slowly: to
// want fewer of them while they are being made may take away one with pods on it.
type stall struct {
	since time.Time
	// made is how many machines there were at the last look, and lacks how many were
	// lacking at least.
	made, lacks int
}

// goesOn returns the stall as it is now: the same, or one that begins now if there is
// none yet or a machine has been made.
func (s *stall) goesOn(now time.Time, made, lacks int) *stall {
	if s == nil || made > s.made {
		return &stall{since: now, made: made, lacks: lacks}
	}
	s.made = made                 // fewer, if one has gone: its successor is one that was made
	s.lacks = min(s.lacks, lacks) // what is ordered meanwhile has its own time
	return s
}
