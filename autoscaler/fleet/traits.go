package fleet

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/world"
)

// traits are observed properties of the machines of a flavor that are not stated anywhere.
type traits struct {
	// static is what static pods use of one machine, and statics their number.
	static  packing.Size
	statics int64
	// taints are the permanent taints of the flavor: the stated ones, and those that a node still has after its join
	// timeout. passing are the other taints, which younger nodes have.
	taints, passing []corev1.Taint
}

// keep returns the taints without those that nodes have only while they start.
func (t *traits) keep(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return world.HasTaint(t.passing, &taint) })
}

// readTraits reads the traits of all flavors of a fleet.
func (o *observer) readTraits(s *stock) {
	s.traits = map[string]traits{}
	nodes := map[string][]provider.Machine{}
	for _, m := range s.inventory.Machines {
		if o.view.Nodes[m.Node] != nil && !m.Leaving {
			nodes[m.Flavor] = append(nodes[m.Flavor], m)
		}
	}
	for i := range s.inventory.Flavors {
		f := &s.inventory.Flavors[i]
		t := traits{taints: slices.Clone(f.Stated)}
		var names []string
		for _, m := range nodes[f.Name] {
			names = append(names, m.Node)
			if o.now.Sub(m.Ordered) >= joinTimeout(s.fleet, f) {
				t.taints = append(t.taints, o.view.Nodes[m.Node].Spec.Taints...)
			}
		}
		for _, name := range names {
			t.passing = append(t.passing, world.Starting(o.view.Nodes[name], t.taints)...)
		}
		t.static, t.statics = o.view.Static(names)
		s.traits[f.Name] = t
	}
}

// startingNode returns a node that has a startup taint. If the node is ready, it is a machine on order, minus what the
// pods already on it use. n is the machine as expected.
func (o *observer) startingNode(own bool, machine string, node *corev1.Node, taint corev1.Taint, n cluster.Node) cluster.Node {
	if _, ready := world.Ready(node); !ready || node.Status.Allocatable.Cpu().IsZero() {
		return n
	}
	if own {
		o.starting[machine] = taint
	}
	phase, due, host := n.Phase, n.Due, n.Host
	n = o.view.Node(node, n)
	n.Phase, n.Due, n.Host = phase, due, host
	return n
}
