package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/world"
)

// decisionInput returns the input of the decision: the observation without API objects. wait is how much longer pods
// are gathered, leaving are the pods on the nodes that the fleet drains, by node.
func decisionInput(seen *observation, wait time.Duration, leaving map[string][]leaver) *fleetdecide.Observation {
	o := &fleetdecide.Observation{
		State: seen.state, Flavors: seen.inputFlavors(), Machines: seen.inputMachines(), Quota: seen.self.inventory.Quota,
		Gather: wait, Drains: seen.inputDrains(leaving), Foreign: seen.foreign(),
	}
	if intent := seen.self.fleet.Status.Intent; intent != nil {
		o.Interrupted = true
		for _, order := range intent.Orders {
			o.Unfinished = append(o.Unfinished, fleetdecide.Order{Flavor: order.Flavor, From: int(order.From), To: int(order.To)})
		}
	}
	o.Misfits, o.Runs = seen.world.Misfits(seen.now)
	for i := range seen.world.Pods {
		p := &seen.world.Pods[i]
		judged := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !judged {
			o.Unbound = append(o.Unbound, p.CreationTimestamp.Time)
		}
	}
	return o
}

// rowsOf returns what the status of a fleet contains about its flavors, by flavor name.
func rowsOf(fleet *v1alpha1.NodeFleet) map[string]*v1alpha1.FlavorStatus {
	rows := make(map[string]*v1alpha1.FlavorStatus, len(fleet.Status.Flavors))
	for i := range fleet.Status.Flavors {
		rows[fleet.Status.Flavors[i].Name] = &fleet.Status.Flavors[i]
	}
	return rows
}

// lagOf returns the expected start-up time of a machine of a flavor. row is what the status contains about it; nil if
// nothing.
func lagOf(fleet *v1alpha1.NodeFleet, row *v1alpha1.FlavorStatus) time.Duration {
	var learned *v1alpha1.LearnedTime
	if row != nil {
		learned = row.Lag
	}
	return fleetdecide.ExpectedLag(learned, fleet.Spec.Scaling.ExpectedLag.Duration)
}

// lagsOf returns a function that is [ReadyAfter] for the fleet, at the cost of a map lookup.
func lagsOf(fleet *v1alpha1.NodeFleet) func(flavor string) time.Duration {
	rows := rowsOf(fleet)
	return func(flavor string) time.Duration { return lagOf(fleet, rows[flavor]) }
}

func (o *observation) inputFlavors() []fleetdecide.Flavor {
	fleet, rows := o.self.fleet, rowsOf(o.self.fleet)
	all := make([]fleetdecide.Flavor, len(o.self.inventory.Flavors))
	for i := range all {
		f := &o.self.inventory.Flavors[i]
		row := rows[f.Name]
		all[i] = fleetdecide.Flavor{
			Name: f.Name, Size: f.Size, Sold: f.Sold, MicroDollarsPerHour: o.self.prices[f.Name].microDollars,
			Min: f.Min, Want: f.Want, Blocked: f.Blocked, Ordered: o.ordered[f.Name], Unusable: f.Problem != "", Kept: f.Kept != "",
			JoinTimeout: joinTimeout(fleet, f), Lag: lagOf(fleet, row),
		}
		if row == nil {
			continue
		}
		all[i].Learned = row.Lag != nil && row.Lag.Samples > 0
		if all[i].Failures = row.Failures; row.BackOffUntil != nil {
			all[i].AvoidUntil = row.BackOffUntil.Time
		}
	}
	return all
}

// inputMachines returns all machines of the fleet, by name.
func (o *observation) inputMachines() []fleetdecide.Machine {
	all := slices.AppendSeq(make([]fleetdecide.Machine, 0, len(o.self.inventory.Machines)), maps.Values(o.own))
	for i := range o.self.inventory.Machines {
		if m := &o.self.inventory.Machines[i]; m.Leaving && o.self.flavor(m.Flavor) != nil {
			all = append(all, fleetdecide.Machine{Machine: *m})
		}
	}
	slices.SortFunc(all, func(a, b fleetdecide.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// leaver is a pod that is to leave a node, and its next step.
type leaver struct {
	pod  *corev1.Pod
	step drain.Step
}

// leavers returns the pods on each node that the fleet drains. Every such node has an entry, except those whose flavor is
// kept. It leaves out pods that ended with the node: see ended.
func (o *observation) leavers(emptying *drain.Emptying) map[string][]leaver {
	all := map[string][]leaver{}
	for name, m := range o.own {
		node := o.world.Nodes[name]
		if node == nil {
			continue
		}
		mark, marked := drain.MarkOf(node)
		if f := o.self.flavor(m.Flavor); !marked || mark.Owner != o.self.fleet.Name || f != nil && f.Kept != "" {
			continue
		}
		dead := o.dead(m, node)
		all[name] = nil
		for _, pod := range o.podsOn[name] {
			if !dead || !o.ended(pod) {
				all[name] = append(all[name], leaver{pod, mark.Next(emptying.Leaver(pod), o.now)})
			}
		}
	}
	return all
}

// inputDrains returns the nodes that the fleet drains, by name.
func (o *observation) inputDrains(leaving map[string][]leaver) []fleetdecide.Draining {
	var all []fleetdecide.Draining
	for name, pods := range leaving {
		node := o.world.Nodes[name]
		mark, _ := drain.MarkOf(node)
		d := fleetdecide.Draining{Node: name, Since: mark.Since, Until: mark.Until, Joined: world.Joined(node), Needed: o.needed[name]}
		for _, l := range pods {
			kind, _ := class.OfPod(l.pod)
			p := fleetdecide.LeavingPod{Name: world.PodName(l.pod), Class: kind, Going: l.pod.DeletionTimestamp != nil, Controller: world.Controller(l.pod), Evicted: l.step.Do == drain.Evict}
			if start := l.pod.Status.StartTime; start != nil {
				p.Resided = max(0, o.now.Sub(start.Time))
			}
			if l.step.Do == drain.GiveUp {
				p.Stays = l.step.Why
			}
			d.Pods = append(d.Pods, p)
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b fleetdecide.Draining) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// foreign returns the nodes that this fleet has cordoned but that no longer belong to it, by name. Nodes of leaving
// machines stay cordoned.
func (o *observation) foreign() []string {
	var all []string
	for name, node := range o.world.Nodes {
		mark, marked := drain.MarkOf(node)
		if _, own := o.own[name]; marked && !own && mark.Owner == o.self.fleet.Name && !o.going[name] && node.DeletionTimestamp == nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
