package karpenter

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/world"
)

// defaultMaxPods is the maximum number of pods on a node of which nothing else is known.
const defaultMaxPods = 110

// example is what shows how machines of a flavor are: a NodeClaim that Karpenter has launched, and its node if that has
// started.
type example struct {
	claim *claim
	node  *corev1.Node
}

// examples returns the best example of each flavor: one with a node that has started, of these the newest, ties by name.
// Machines of an older template are none.
func (p *Provider) examples(all []claim) map[string]example {
	found, on := map[string]example{}, nodesOf(all, p.nodes)
	for i := range all {
		c := &all[i]
		if len(c.Status.Allocatable) == 0 || !p.isCurrent(c) {
			continue
		}
		e := example{claim: c}
		if n := on[c.Name]; n != nil && p.started(n) {
			e.node = n
		}
		if best, is := found[c.flavor()]; !is || e.better(best) {
			found[c.flavor()] = e
		}
	}
	return found
}

// better reports whether e is preferred to other.
func (e example) better(other example) bool {
	if (e.node != nil) != (other.node != nil) {
		return e.node != nil
	}
	return cmp.Or(other.claim.CreationTimestamp.Compare(e.claim.CreationTimestamp.Time), cmp.Compare(e.claim.Name, other.claim.Name)) < 0
}

// flavor describes the machines of an offer: like the example's node, else like its NodeClaim, else as the pricing states.
func (p *Provider) flavor(o *offer, e example) provider.Flavor {
	f := provider.Flavor{
		Name: o.name, InstanceType: o.of.Name, PricedAs: o.pricedAs, Max: provider.Unlimited, Template: p.template, Sold: o.of.Size,
		Size: o.of.Size, MaxPods: defaultMaxPods, Labels: o.labels(p.fleet, p.spec), Taints: slices.Clone(p.spec.Taints), Stated: p.spec.Taints,
	}
	if o.of.MaxPods != nil {
		f.MaxPods = *o.of.MaxPods
	}
	f.Extended, f.EphemeralStorage = maps.Clone(o.of.Extended), o.of.EphemeralStorage
	if e.claim != nil {
		setSize(&f, e.claim.Status.Allocatable)
		maps.Copy(f.Labels, e.claim.Labels)
	}
	if e.node != nil {
		setSize(&f, e.node.Status.Allocatable)
		maps.Copy(f.Labels, e.node.Labels)
		f.Taints = slices.DeleteFunc(slices.Clone(e.node.Spec.Taints), p.passing)
		f.Seen = true
	} else {
		constraint.AddFollowing(f.Labels)
	}
	delete(f.Labels, corev1.LabelHostname)
	return f
}

// setSize sets what pods can use of a machine, as far as it is stated.
func setSize(f *provider.Flavor, allocatable corev1.ResourceList) {
	if cpu, memory := allocatable.Cpu(), allocatable.Memory(); !cpu.IsZero() && !memory.IsZero() {
		f.Size = packing.Size{MilliCPU: cpu.MilliValue(), MemoryBytes: memory.Value()}
	}
	if pods := allocatable.Pods(); !pods.IsZero() {
		f.MaxPods = pods.Value()
	}
	if disk, stated := allocatable[corev1.ResourceEphemeralStorage]; stated {
		f.EphemeralStorage = new(disk.Value())
	}
	for name, amount := range extended.Amounts(allocatable) {
		if f.Extended == nil {
			f.Extended = map[corev1.ResourceName]int64{}
		}
		f.Extended[name] = amount
	}
}

// labels returns the labels of the nodes of an offer, without the hostname.
func (o *offer) labels(fleet *v1alpha1.NodeFleet, spec *v1alpha1.KarpenterNodes) map[string]string {
	labels := o.givenLabels(fleet, spec)
	for _, r := range o.requirements(spec) {
		if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	return labels
}

// givenLabels returns the labels of the NodeClaim, which Karpenter sets on the node.
func (o *offer) givenLabels(fleet *v1alpha1.NodeFleet, spec *v1alpha1.KarpenterNodes) map[string]string {
	labels := map[string]string{}
	if o.of.MachineType != "" {
		labels[v1alpha1.LabelMachineType] = o.of.MachineType
	}
	if fleet.Spec.Class != v1alpha1.FleetAny && fleet.Spec.Class != "" {
		labels[v1alpha1.LabelClass] = strings.ToLower(string(fleet.Spec.Class))
	}
	maps.Copy(labels, spec.Labels)
	labels[v1alpha1.LabelFleet] = fleet.Name
	return labels
}

// isCurrent reports whether a NodeClaim is like new ones of its flavor.
func (p *Provider) isCurrent(c *claim) bool {
	o := p.named[c.flavor()]
	if o == nil {
		return false
	}
	for key, value := range o.givenLabels(p.fleet, p.spec) {
		if c.Labels[key] != value {
			return false
		}
	}
	want := o.claim(c.Name, p.fleet, p.spec).Spec
	return want.NodeClassRef == c.Spec.NodeClassRef && equality.Semantic.DeepEqual(want.Requirements, c.Spec.Requirements) &&
		equality.Semantic.DeepEqual(want.Taints, c.Spec.Taints) && equality.Semantic.DeepEqual(want.StartupTaints, c.Spec.StartupTaints)
}

// templateOf identifies what the machines of a flavor are made from, apart from the flavor.
func templateOf(spec *v1alpha1.KarpenterNodes) string {
	text, err := json.Marshal([]any{spec.NodeClassRef, spec.Requirements, spec.Taints, spec.StartupTaints, spec.Labels})
	if err != nil {
		return "" // which cannot happen: all fields can be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// started reports whether a node is ready and has no taint of a controller that must still finish it.
func (p *Provider) started(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if p.passing(t) && t.Key != corev1.TaintNodeUnschedulable {
			return false
		}
	}
	_, ready := world.Ready(n)
	return ready && !n.Status.Allocatable.Cpu().IsZero()
}

// passing reports whether a taint describes a temporary condition of the node.
func (p *Provider) passing(t corev1.Taint) bool {
	return world.StateTaint(t.Key) || world.StartupTaint(t.Key) || strings.HasPrefix(t.Key, "karpenter.sh/") || world.HasTaint(p.spec.StartupTaints, &t)
}
