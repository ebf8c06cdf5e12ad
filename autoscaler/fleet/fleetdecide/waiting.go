package fleetdecide

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
)

// waiting returns the pending pods that will run on machines of this fleet or on existing nodes: those for which a
// machine is bought or on order, and those for which there is room or room becomes free. It leaves out pods that fit no
// machine, pods that stay pending although a node has room (see patience), and pods for which another fleet has ordered
// a machine.
//
// While pods are gathered there is no plan, so it returns all pods that a machine of the fleet or a node could hold.
func (d *FleetDecision) waiting(s *cluster.State, o FleetOptions, now time.Time) []cluster.Pod {
	if !o.Buy {
		return keep(s.Pending, func(p *cluster.Pod) bool { return holdable(s, o, p, now) })
	}
	not := map[string]bool{}
	for _, u := range slices.Concat(d.Plan.Unplaceable, d.Unexplained) {
		not[u.Pod] = true
	}
	return keep(s.Pending, func(p *cluster.Pod) bool { return !not[p.Name] && !d.elsewhere[p.Name] })
}

func keep(pods []cluster.Pod, kept func(*cluster.Pod) bool) []cluster.Pod {
	var all []cluster.Pod
	for i := range pods {
		if kept(&pods[i]) {
			all = append(all, pods[i])
		}
	}
	return all
}

// holdable reports whether a machine that may be bought could hold a pod, or a node of the cluster once its pods have
// ended. Machines that other fleets have ordered do not count.
func holdable(s *cluster.State, o FleetOptions, p *cluster.Pod, now time.Time) bool {
	pod := purchase.PodOf(p)
	pod.Except = o.Lessons.Except(p, now)
	for i := range s.Flavors {
		if o.Exhausted == "" && pod.RefusedBy(&s.Flavors[i]) == "" {
			return true
		}
	}
	return slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool {
		return n.Phase != cluster.Leaving && !foreignOrder(&n) && p.Size.Fits(n.Capacity) && n.Suits(p)
	})
}

// foreignOrder reports whether a node is a machine on order by another fleet.
func foreignOrder(n *cluster.Node) bool { return n.Phase == cluster.Ordered && n.Kept }

// wanted reports whether a node has room for one of the pods now.
func wanted(n *cluster.Node, pods []cluster.Pod) bool {
	return slices.ContainsFunc(pods, func(p cluster.Pod) bool {
		return n.HasRoom(&p)
	})
}

// limited reports whether pods stay pending because no more machines may be bought.
func (d *FleetDecision) limited() bool {
	return slices.ContainsFunc(d.Plan.Unplaceable, func(u purchase.Unplaceable) bool { return u.Limited })
}

// assignedElsewhere records the pods that the plan assigns to machines ordered by other fleets.
func (d *FleetDecision) assignedElsewhere(s *cluster.State) {
	foreign := map[string]bool{}
	for i := range s.Nodes {
		foreign[s.Nodes[i].Name] = foreignOrder(&s.Nodes[i])
	}
	for _, a := range d.Plan.Assignments {
		if a.Waits && foreign[a.Machine] {
			d.elsewhere[a.Pod] = true
		}
	}
}

// Gather returns how long to wait for more pods before buying machines for the pending ones: until no pod has arrived
// for idle, but no longer than most after the first. waited holds the times since which the pods have been pending.
func Gather(now time.Time, waited []time.Time, idle, most time.Duration) time.Duration {
	return max(0, GatherEnd(waited, idle, most).Sub(now))
}

// GatherEnd returns the time at which gathering ends; the zero time if no pod is pending.
func GatherEnd(waited []time.Time, idle, most time.Duration) time.Time {
	if len(waited) == 0 {
		return time.Time{}
	}
	first, last := waited[0], waited[0]
	for _, t := range waited[1:] {
		if t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	until := last.Add(idle)
	if end := first.Add(most); end.Before(until) {
		until = end
	}
	return until
}
