package fleetobserve

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/extended"
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
	// attaches is as in [constraint.Host]: what the nodes of the flavor can attach or, if there are none, other nodes of
	// its instance type.
	attaches map[string]int64
	// published are the extended resources that nodes of the flavor have. settled reports that one of them is older than its
	// join timeout: it has what it will ever have.
	published map[corev1.ResourceName]int64
	settled   bool
}

// keep returns the taints without those that nodes have only while they start.
func (t *traits) keep(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return world.HasTaint(t.passing, &taint) })
}

// publish adds the extended resources of a node: of each, the most.
func (t *traits) publish(node *corev1.Node) {
	for name, amount := range extended.Amounts(node.Status.Allocatable) {
		if t.published == nil {
			t.published = map[corev1.ResourceName]int64{}
		}
		t.published[name] = max(t.published[name], amount)
	}
}

// readTraits reads the traits of all flavors of a fleet.
func (o *observer) readTraits(s *Stock) {
	s.traits = map[string]traits{}
	nodes := map[string][]provider.Machine{}
	for _, m := range s.Inventory.Machines {
		if o.View.Nodes[m.Node] != nil && !m.Leaving {
			nodes[m.Flavor] = append(nodes[m.Flavor], m)
		}
	}
	alike := o.byInstanceType()
	for i := range s.Inventory.Flavors {
		f := &s.Inventory.Flavors[i]
		t := traits{taints: slices.Clone(f.Stated)}
		var names []string
		for _, m := range nodes[f.Name] {
			names = append(names, m.Node)
			t.publish(o.View.Nodes[m.Node])
			if o.Now.Sub(m.Ordered) >= joinTimeout(s.Fleet, f) {
				t.taints, t.settled = append(t.taints, o.View.Nodes[m.Node].Spec.Taints...), true
			}
		}
		for _, name := range names {
			t.passing = append(t.passing, world.Starting(o.View.Nodes[name], t.taints)...)
		}
		t.static, t.statics = o.View.Static(names)
		if t.attaches = o.World.Attaches(names); t.attaches == nil {
			t.attaches = o.World.Attaches(alike[f.Labels[corev1.LabelInstanceTypeStable]])
		}
		s.traits[f.Name] = t
	}
}

// withMissing returns amounts with those of other resources that they lack. It changes neither.
func withMissing(amounts, others map[corev1.ResourceName]int64) map[corev1.ResourceName]int64 {
	if len(others) == 0 {
		return amounts
	}
	all := maps.Clone(others)
	maps.Copy(all, amounts)
	return all
}

// byInstanceType returns the nodes of each instance type, without those of none.
func (o *observer) byInstanceType() map[string][]string {
	all := map[string][]string{}
	for name, node := range o.World.Nodes {
		if of := node.Labels[corev1.LabelInstanceTypeStable]; of != "" {
			all[of] = append(all[of], name)
		}
	}
	return all
}

// startingNode returns a node that has a startup taint or lacks a resource, and which. If the node is ready, it is a machine on
// order, minus what the pods already on it use. n is the machine as expected, which it is otherwise, lacking nothing.
func (o *observer) startingNode(node *corev1.Node, lacks string, n cluster.Node) (as cluster.Node, startup string) {
	if _, ready := world.Ready(node); !ready || node.Status.Allocatable.Cpu().IsZero() {
		return n, ""
	}
	as = o.View.Node(node, n)
	as.Phase, as.Due, as.Host = n.Phase, n.Due, n.Host
	as.Capacity.Extended, as.GPUs = as.Capacity.Extended.Most(n.Capacity.Extended), n.GPUs
	return as, lacks
}

// unpublished returns an extended resource that machines of a flavor should have and that the node does not have, or "": the
// driver of a device publishes it some time after the node is ready. Only resources that pods request count.
func (o *observer) unpublished(node *corev1.Node, f *provider.Flavor) corev1.ResourceName {
	names := o.View.Extended()
	has := names.Capacity(extended.Amounts(node.Status.Allocatable))
	for slot, amount := range names.Capacity(f.Extended).BySlot() {
		if amount > 0 && has.At(slot) == 0 {
			return names[slot]
		}
	}
	return ""
}

// limitToSeen limits the size of flavors to what the last machine of the same template held, or sets it if no size is
// stated. Of extended resources it only adds those that are not stated and that a new node may not have published yet.
// Without the limit, once that machine is gone, a pod that fits only the stated size would have a machine bought, found
// to be too small, released and bought again, without end.
//
// A flavor all of whose machines are leaving counts as unseen: its nodes may already have lost their static pods. While
// machines of an older template exist, the record may be of one of them, and is ignored: the status of the fleet then
// drops it.
func limitToSeen(fleet *v1alpha1.NodeFleet, inventory *provider.Inventory) {
	for i := range inventory.Flavors {
		f := &inventory.Flavors[i]
		stays := func(m provider.Machine) bool { return m.Flavor == f.Name && m.Node != "" && !m.Leaving }
		f.Seen = f.Seen && slices.ContainsFunc(inventory.Machines, stays)
		at := slices.IndexFunc(fleet.Status.Flavors, func(s v1alpha1.FlavorStatus) bool { return s.Name == f.Name })
		if inventory.Mixed(f.Name) || at < 0 {
			continue
		}
		seen := fleet.Status.Flavors[at].Seen
		if seen == nil || seen.Template != f.Template {
			continue
		}
		f.Extended = withMissing(f.Extended, extended.Amounts(seen.ExtendedResources))
		if f.Seen {
			continue
		}
		held := packing.Size{MilliCPU: seen.CPU.MilliValue(), MemoryBytes: seen.Memory.Value()}
		if f.Unsized && held.MilliCPU > 0 && held.MemoryBytes > 0 {
			f.Size, f.Unsized, f.Problem = held, false, f.Held
		}
		f.Size = packing.Size{MilliCPU: min(f.Size.MilliCPU, held.MilliCPU), MemoryBytes: min(f.Size.MemoryBytes, held.MemoryBytes)}
		f.MaxPods = min(f.MaxPods, seen.MaxPods)
	}
}
