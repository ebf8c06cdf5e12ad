package audit

import (
	"maps"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// mix is the cluster on machines bought for its pods.
type mix struct {
	bill    Bill
	bound   dollars.Amount
	staying []Stay
	stays   map[int]string // why nodes stay, by index
}

// buy plans machines for the pods of all nodes that do not stay; the others keep their nodes.
// demands replaces the demands of the pods that it names.
//
// If no machine for sale fits a pod, its node stays and the rest is planned again. Each iteration
// adds a staying node, so it terminates.
func (c *scene) buy(demands map[string]*constraint.Pod) mix {
	stays := map[int]string{}
	for i := range c.nodes {
		if n := &c.nodes[i]; n.Stays != "" {
			stays[i] = n.Stays
		}
	}
	for {
		r := purchase.Supercargo(c.request(stays, demands))
		if len(r.Unplaceable) == 0 {
			return c.mixOf(r, stays)
		}
		for _, u := range r.Unplaceable {
			if at := c.at[u.Pod]; stays[at] == "" {
				stays[at] = "no machine for sale holds pod " + u.Pod + ": " + plain(u.Reason)
			}
		}
	}
}

// request returns a request for machines for all pods of nodes that do not stay.
func (c *scene) request(stays map[int]string, demands map[string]*constraint.Pod) purchase.Request {
	r := purchase.Request{Stop: c.in.Stop}
	of := func(p *cluster.Pod) *constraint.Pod {
		if d, lifted := demands[p.Name]; lifted {
			return d
		}
		return p.Demands
	}
	for i := range c.nodes {
		if stays[i] != "" {
			r.Nodes = append(r.Nodes, existing(&c.nodes[i], of))
		}
	}
	r.Pods = make([]purchase.Pod, 0, len(c.largest))
	for _, p := range c.largest {
		if stays[p.at] != "" {
			continue
		}
		pod := purchase.PodOf(p.Pod)
		pod.Demands = of(p.Pod)
		pod.Runtime, pod.Arrival = 0, 0 // a price per hour does not depend on runtimes
		r.Pods = append(r.Pods, pod)
	}
	for i := range c.others { // for affinity between their pods and others
		n := existing(&c.others[i], of)
		n.Places = new(int64(0))
		r.Nodes = append(r.Nodes, n)
	}
	for i := range c.in.Flavors {
		r.Flavors = append(r.Flavors, c.in.Flavors[i].Flavor)
	}
	return r
}

// existing returns a node that stays, with its free room.
func existing(n *Node, of func(*cluster.Pod) *constraint.Pod) purchase.ExistingNode {
	e := purchase.NodeOf(&n.Node, n.Free(), len(n.Pods))
	if n.Phase != cluster.Ready || n.Class != class.Any {
		e.Places = new(int64(0))
	}
	for i := range n.Pods {
		e.Pods[i] = of(&n.Pods[i])
	}
	return e
}

func (c *scene) mixOf(r purchase.Result, stays map[int]string) mix {
	m := mix{stays: stays}
	for _, i := range slices.Sorted(maps.Keys(stays)) {
		n := &c.nodes[i]
		m.bill.addNode(n)
		m.staying = append(m.staying, Stay{n.Name, n.InstanceType, stays[i]})
	}
	m.bound = m.bill.PerHour + dollars.Amount(r.LowerBoundMicroDollarsPerHour)
	flavors := make(map[string]*Flavor, len(c.in.Flavors))
	for i := range c.in.Flavors {
		flavors[c.in.Flavors[i].Name] = &c.in.Flavors[i]
	}
	for i := range r.Machines {
		f := flavors[r.Machines[i].Flavor]
		m.bill.add(Count{InstanceType: f.InstanceType, Arch: f.Arch, CapacityType: f.CapacityType}, f.MicroDollarsPerHour, f.Size.MilliCPU)
	}
	m.bill = m.bill.sorted()
	return m
}
