package fleetobserve

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/world"
)

// Input returns the input of the decision: the observation without API objects. wait is how much longer pods are gathered,
// leaving are the pods on the nodes that the fleet drains, by node: see [Observation.Leavers].
func (o *Observation) Input(wait time.Duration, leaving map[string][]Leaver) *fleetdecide.Observation {
	in := &fleetdecide.Observation{
		State: o.State, Flavors: o.inputFlavors(), Machines: o.inputMachines(), Quota: o.Self.Inventory.Quota,
		Gather: wait, Drains: o.inputDrains(leaving), Foreign: o.foreign(),
	}
	if intent := o.Self.Fleet.Status.Intent; intent != nil {
		in.Interrupted = true
		for _, order := range intent.Orders {
			in.Unfinished = append(in.Unfinished, fleetdecide.Order{Flavor: order.Flavor, From: int(order.From), To: int(order.To)})
		}
	}
	in.Misfits, in.Runs = o.World.Misfits(o.Now)
	for _, p := range o.World.Pods {
		judged := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !judged {
			in.Unbound = append(in.Unbound, p.CreationTimestamp.Time)
		}
	}
	return in
}

func (o *Observation) inputFlavors() []fleetdecide.Flavor {
	fleet, rows := o.Self.Fleet, RowsOf(o.Self.Fleet)
	all := make([]fleetdecide.Flavor, len(o.Self.Inventory.Flavors))
	for i := range all {
		f := &o.Self.Inventory.Flavors[i]
		row := rows[f.Name]
		all[i] = fleetdecide.Flavor{
			Name: f.Name, Size: f.Size, Sold: f.Sold, MicroDollarsPerHour: o.Self.Prices[f.Name].MicroDollars,
			Min: f.Min, Want: f.Want, Blocked: f.Blocked, Ordered: o.Ordered[f.Name], Unusable: f.Problem != "", Kept: f.Kept != "",
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
func (o *Observation) inputMachines() []fleetdecide.Machine {
	all := slices.AppendSeq(make([]fleetdecide.Machine, 0, len(o.Self.Inventory.Machines)), maps.Values(o.Own))
	for i := range o.Self.Inventory.Machines {
		if m := &o.Self.Inventory.Machines[i]; m.Leaving && o.Self.Flavor(m.Flavor) != nil {
			all = append(all, fleetdecide.Machine{Machine: *m})
		}
	}
	slices.SortFunc(all, func(a, b fleetdecide.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Leaver is a pod that is to leave a node, and its next step.
type Leaver struct {
	Pod  *corev1.Pod
	Step drain.Step
}

// Leavers returns the pods on each node that the fleet drains. Every such node has an entry, except those whose flavor is
// kept. It leaves out pods that ended with the node: see Ended. Expendable pods are evicted, regardless of what they declare.
func (o *Observation) Leavers(emptying *drain.Emptying) map[string][]Leaver {
	all := map[string][]Leaver{}
	for name, m := range o.Own {
		node := o.World.Nodes[name]
		if node == nil {
			continue
		}
		mark, marked := drain.MarkOf(node)
		if f := o.Self.Flavor(m.Flavor); !marked || mark.Owner != o.Self.Fleet.Name || f != nil && f.Kept != "" {
			continue
		}
		dead := o.Dead(m, node)
		all[name] = nil
		pods := o.podsOn[name]
		if capacity.Notice(node) != "" {
			pods = mostToLoseFirst(pods)
		}
		for _, pod := range pods {
			switch {
			case dead && o.Ended(pod):
			case !o.View.Expendable(pod):
				all[name] = append(all[name], Leaver{pod, mark.Next(emptying.Leaver(pod), o.Now)})
			case pod.DeletionTimestamp == nil:
				all[name] = append(all[name], Leaver{pod, drain.Step{Do: drain.Evict}})
			default:
				all[name] = append(all[name], Leaver{pod, drain.Step{Do: drain.Stay}})
			}
		}
	}
	return all
}

// mostToLoseFirst returns pods in the order in which they leave a machine that is about to be taken: those that have run for the
// longest first, batch pods before services, ties by name.
func mostToLoseFirst(pods []*corev1.Pod) []*corev1.Pod {
	pods = slices.Clone(pods)
	service := func(p *corev1.Pod) int {
		if kind, _ := class.OfPod(p); kind == class.Batch {
			return 0
		}
		return 1
	}
	began := func(p *corev1.Pod) int64 {
		if p.Status.StartTime == nil {
			return math.MaxInt64
		}
		return p.Status.StartTime.UnixNano()
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(service(a), service(b)), cmp.Compare(began(a), began(b)), cmp.Compare(world.PodName(a), world.PodName(b)))
	})
	return pods
}

// inputDrains returns the nodes that the fleet drains, by name.
func (o *Observation) inputDrains(leaving map[string][]Leaver) []fleetdecide.Draining {
	var all []fleetdecide.Draining
	for name, pods := range leaving {
		node := o.World.Nodes[name]
		mark, _ := drain.MarkOf(node)
		d := fleetdecide.Draining{Node: name, Since: mark.Since, Until: mark.Until, Joined: world.Joined(node), Needed: o.needed[name], Notice: capacity.Notice(node)}
		for _, l := range pods {
			if o.View.Expendable(l.Pod) {
				d.Expendable++
				if l.Pod.DeletionTimestamp != nil {
					d.Ending++
				}
				continue
			}
			kind, _ := class.OfPod(l.Pod)
			p := fleetdecide.LeavingPod{Name: world.PodName(l.Pod), Class: kind, Going: l.Pod.DeletionTimestamp != nil, Controller: world.Controller(l.Pod), Evicted: l.Step.Do == drain.Evict}
			if start := l.Pod.Status.StartTime; start != nil {
				p.Resided = max(0, o.Now.Sub(start.Time))
			}
			if l.Step.Do == drain.GiveUp {
				p.Stays = l.Step.Why
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
func (o *Observation) foreign() []string {
	var all []string
	for name, node := range o.World.Nodes {
		mark, marked := drain.MarkOf(node)
		if _, own := o.Own[name]; marked && !own && mark.Owner == o.Self.Fleet.Name && !o.going[name] && node.DeletionTimestamp == nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
