package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/world"
)

// config returns the configuration for the decision.
func (r *round) config() fleetdecide.Config {
	c, began := fleetdecide.ConfigOf(&r.fleet.Spec), r.Clock.Now()
	c.Act, c.SkipDrains = r.mayAct(), r.DryRun
	c.Stop = func() bool { return r.Clock.Since(began) > planningTime }
	return c
}

// planningTime is how long planning may take before the best plan so far is used.
const planningTime = 20 * time.Second

// plain returns the input of the decision: the observation without API objects.
func (r *round) plain() *fleetdecide.Observation {
	o := &fleetdecide.Observation{
		State: r.seen.state, Flavors: r.plainFlavors(), Machines: r.plainMachines(), Quota: r.self.inventory.Quota,
		Gather: r.gather(), Drains: r.plainDrains(), Foreign: r.foreign(),
	}
	if intent := r.fleet.Status.Intent; intent != nil {
		o.Interrupted = true
		for _, order := range intent.Orders {
			o.Unfinished = append(o.Unfinished, fleetdecide.Order{Flavor: order.Flavor, From: int(order.From), To: int(order.To)})
		}
	}
	o.Misfits, o.Runs = r.world.Misfits(r.now)
	for i := range r.world.Pods {
		p := &r.world.Pods[i]
		judged := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !judged {
			o.Unbound = append(o.Unbound, p.CreationTimestamp.Time)
		}
	}
	return o
}

func (r *round) plainFlavors() []fleetdecide.Flavor {
	all := make([]fleetdecide.Flavor, len(r.self.inventory.Flavors))
	for i := range all {
		f := &r.self.inventory.Flavors[i]
		all[i] = fleetdecide.Flavor{
			Name: f.Name, Size: f.Size, Sold: f.Sold, MicroDollarsPerHour: r.self.prices[f.Name].microDollars,
			Min: f.Min, Want: f.Want, Ordered: r.seen.ordered[f.Name], Unusable: f.Problem != "",
			JoinTimeout: joinTimeout(r.fleet, f), Lag: r.lag(f.Name),
		}
		s := r.status(f.Name)
		all[i].Learned = s.Lag != nil && s.Lag.Samples > 0
		if all[i].Failures = s.Failures; s.BackOffUntil != nil {
			all[i].AvoidUntil = s.BackOffUntil.Time
		}
	}
	return all
}

func (r *round) plainMachines() []fleetdecide.Machine {
	all := make([]fleetdecide.Machine, 0, len(r.self.inventory.Machines))
	for key, m := range r.seen.own {
		p := plainMachine(&m)
		p.Key, p.OnOrder = key, strings.HasPrefix(key, machinePrefix)
		if taint, is := r.seen.starting[m.Name]; is {
			p.Startup = taintText(&taint)
		}
		if node := r.world.Nodes[m.Node]; node != nil {
			p.Node = r.plainNode(node, key)
		}
		all = append(all, p)
	}
	for i := range r.self.inventory.Machines {
		if m := &r.self.inventory.Machines[i]; m.Leaving && r.flavor(m.Flavor) != nil {
			all = append(all, plainMachine(m))
		}
	}
	slices.SortFunc(all, func(a, b fleetdecide.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func plainMachine(m *provider.Machine) fleetdecide.Machine {
	return fleetdecide.Machine{
		Name: m.Name, Flavor: m.Flavor, Ordered: m.Ordered, Leaving: m.Leaving, Unidentified: m.Unidentified != "", Failed: m.Failed, Waits: m.Waits, HadNode: m.Node != "",
	}
}

// taintText identifies a taint.
func taintText(t *corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

// plainNode returns the node of a machine. Its pods are read by key, which must be the node's name.
func (r *round) plainNode(node *corev1.Node, key string) *fleetdecide.MachineNode {
	c, is := world.Ready(node)
	_, drained := drain.MarkOf(node)
	n := &fleetdecide.MachineNode{
		Name: node.Name, Created: node.CreationTimestamp.Time, Changed: c.LastTransitionTime.Time, Ready: is, Deleted: node.DeletionTimestamp != nil, Drained: drained,
	}
	for i := range node.Spec.Taints {
		n.Taints = append(n.Taints, taintText(&node.Spec.Taints[i]))
	}
	if !is {
		n.Remains = r.remains(key)
	}
	return n
}

// plainDrains returns the nodes that the fleet drains, by name. It also records the next step of each of their pods.
func (r *round) plainDrains() []fleetdecide.Draining {
	var all []fleetdecide.Draining
	for name, m := range r.seen.own {
		node := r.world.Nodes[name]
		if node == nil {
			continue
		}
		mark, marked := drain.MarkOf(node)
		if !marked || mark.Owner != r.fleet.Name {
			continue
		}
		d := fleetdecide.Draining{Node: name, Since: mark.Since, Until: mark.Until, Joined: world.Joined(node), Needed: r.seen.needed[name]}
		for _, l := range r.leavers(name, &m, mark) {
			kind, _ := class.OfPod(l.pod)
			p := fleetdecide.LeavingPod{Name: world.PodName(l.pod), Class: kind, Going: l.pod.DeletionTimestamp != nil}
			if start := l.pod.Status.StartTime; start != nil {
				p.Resided = max(0, r.now.Sub(start.Time))
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
func (r *round) foreign() []string {
	var all []string
	for name, node := range r.world.Nodes {
		mark, marked := drain.MarkOf(node)
		if _, own := r.seen.own[name]; marked && !own && mark.Owner == r.fleet.Name && !r.seen.going[name] && node.DeletionTimestamp == nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
