package openstack

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/world"
)

const mebibyte = 1 << 20

// offer is a flavor in a zone.
type offer struct {
	name string // FLAVOR, or FLAVOR@ZONE
	zone string // empty if the cloud chooses
	nova flavors.Flavor
	// problem is why none can be bought. named reports that the spec names what is wrong.
	problem string
	named   bool
}

// offerName returns the name of a flavor in a zone.
func offerName(flavor, zone string) string {
	if zone == "" {
		return flavor
	}
	return flavor + "@" + zone
}

// offers returns the offers of the fleet, including those of flavors that do not exist, which have a problem.
func (s *stock) offers(spec *v1alpha1.OpenStackServers) []offer {
	zones := spec.AvailabilityZones
	if len(zones) == 0 {
		zones = []string{""}
	}
	var all []offer
	for _, f := range s.flavors {
		for _, zone := range zones {
			all = append(all, offer{
				name: offerName(f.Name, zone), zone: zone, nova: f, problem: s.problem(&f, zone),
				named: len(spec.Flavors) > 0 || zone != "" && !s.zones[zone],
			})
		}
	}
	for _, name := range s.missing {
		for _, zone := range zones {
			all = append(all, offer{name: offerName(name, zone), zone: zone, nova: flavors.Flavor{Name: name}, named: true, problem: fmt.Sprintf(
				"spec.openStack.flavors: the project has access to no flavor %q: correct the name, or have the flavor created or shared", name)})
		}
	}
	return all
}

func (s *stock) find(spec *v1alpha1.OpenStackServers, name string) (offer, bool) {
	all := s.offers(spec)
	at := slices.IndexFunc(all, func(o offer) bool { return o.name == name })
	if at < 0 {
		return offer{}, false
	}
	return all[at], true
}

// problem describes why no server of a flavor can be created in a zone.
func (s *stock) problem(f *flavors.Flavor, zone string) string {
	if zone != "" {
		switch available, ok := s.zones[zone]; {
		case !ok:
			return fmt.Sprintf("spec.openStack.availabilityZones: the cloud has no zone %q", zone)
		case !available:
			return fmt.Sprintf("the cloud reports availability zone %q as not available", zone)
		}
	}
	switch {
	case f.Disk == 0:
		return fmt.Sprintf("flavor %s has no disk for the image: use a flavor with a disk", f.Name)
	case f.Disk < s.image.MinDiskGigabytes:
		return fmt.Sprintf("the disk of flavor %s has %d GB, but image %s needs %d", f.Name, f.Disk, s.image.Name, s.image.MinDiskGigabytes)
	case f.RAM < s.image.MinRAMMegabytes:
		return fmt.Sprintf("flavor %s has %d MiB of memory, but image %s needs %d", f.Name, f.RAM, s.image.Name, s.image.MinRAMMegabytes)
	}
	return ""
}

// flavor describes the nodes on servers of the offer: like an existing node, else as the spec states.
func (o *offer) flavor(fleet *v1alpha1.NodeFleet, spec *v1alpha1.OpenStackServers, s *stock, node *corev1.Node) provider.Flavor {
	f := provider.Flavor{
		Name: o.name, InstanceType: o.nova.Name, Problem: o.problem, Named: o.named, MaxPods: spec.MaxPods, Template: o.nova.ID + "/" + s.image.ID,
		Sold:   packing.Size{MilliCPU: int64(o.nova.VCPUs) * 1000, MemoryBytes: int64(o.nova.RAM) * mebibyte},
		Labels: o.labels(fleet, spec, s), Taints: slices.Clone(spec.NodeTaints), Stated: spec.NodeTaints,
	}
	f.Size = packing.Size{
		MilliCPU:    max(0, f.Sold.MilliCPU-spec.Reserved.CPU.MilliValue()),
		MemoryBytes: max(0, f.Sold.MemoryBytes-spec.Reserved.Memory.Value()),
	}
	o.presume(&f)
	if node != nil && started(node) {
		allocatable := node.Status.Allocatable
		f.Size = packing.Size{MilliCPU: allocatable.Cpu().MilliValue(), MemoryBytes: allocatable.Memory().Value()}
		f.MaxPods = allocatable.Pods().Value()
		setResources(&f, allocatable)
		maps.Copy(f.Labels, node.Labels)
		delete(f.Labels, corev1.LabelHostname)
		f.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), passing)
		f.Seen = true
	} else {
		constraint.AddFollowing(f.Labels)
	}
	if f.Problem == "" && (f.Size.MilliCPU <= 0 || f.Size.MemoryBytes <= 0) {
		f.Problem = fmt.Sprintf("spec.openStack.reserved leaves no room for pods on flavor %s", o.nova.Name)
	}
	return f
}

// labels returns the labels of nodes on servers of the offer, without the hostname.
func (o *offer) labels(fleet *v1alpha1.NodeFleet, spec *v1alpha1.OpenStackServers, s *stock) map[string]string {
	labels := map[string]string{
		corev1.LabelArchStable: o.arch(s), corev1.LabelOSStable: string(corev1.Linux),
		corev1.LabelInstanceTypeStable: o.nova.Name,
	}
	if o.zone != "" {
		labels[corev1.LabelTopologyZone] = o.zone
	}
	if spec.Region != "" {
		labels[corev1.LabelTopologyRegion] = spec.Region
	}
	maps.Copy(labels, o.givenLabels(fleet, spec))
	return labels
}

// givenLabels returns the labels that the kubelet must give its node. It sets those of kubernetes.io itself or may not
// set them.
func (o *offer) givenLabels(fleet *v1alpha1.NodeFleet, spec *v1alpha1.OpenStackServers) map[string]string {
	labels := map[string]string{v1alpha1.LabelFleet: fleet.Name}
	if labelValue(o.nova.Name) {
		labels[v1alpha1.LabelMachineType] = o.nova.Name
	}
	if fleet.Spec.Class != v1alpha1.FleetAny && fleet.Spec.Class != "" {
		labels[v1alpha1.LabelClass] = strings.ToLower(string(fleet.Spec.Class))
	}
	maps.Copy(labels, spec.NodeLabels)
	return labels
}

// archs maps OpenStack's names of architectures to those of Kubernetes.
var archs = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64"}

// arch returns the CPU architecture: the one that the flavor's extra specs require of the host, else the one that the
// image is for.
func (o *offer) arch(s *stock) string {
	demanded := strings.TrimPrefix(o.nova.ExtraSpecs["capabilities:cpu_info:arch"], "s== ")
	if arch, ok := archs[demanded]; ok {
		return arch
	}
	built, _ := s.image.Properties["hw_architecture"].(string)
	if built == "" {
		built, _ = s.image.Properties["architecture"].(string)
	}
	if arch, ok := archs[built]; ok {
		return arch
	}
	return "amd64"
}

// started reports whether a node is ready and has no taint of a controller that must still finish it.
func started(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if passing(t) && t.Key != corev1.TaintNodeUnschedulable {
			return false
		}
	}
	return !n.Status.Allocatable.Cpu().IsZero() && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// passing reports whether a taint describes a temporary condition of the node.
func passing(t corev1.Taint) bool {
	return strings.HasPrefix(t.Key, "node.kubernetes.io/") || strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/") ||
		strings.HasPrefix(t.Key, v1alpha1.GroupName+"/") || world.StartupTaint(t.Key)
}

// better returns the node that better represents new ones: one that has started, then the younger, then the first by
// name. a may be nil.
func better(a, b *corev1.Node) *corev1.Node {
	switch {
	case a == nil:
		return b
	case started(a) != started(b):
		if started(a) {
			return a
		}
		return b
	case !a.CreationTimestamp.Equal(&b.CreationTimestamp):
		if b.CreationTimestamp.Before(&a.CreationTimestamp) {
			return a
		}
		return b
	case a.Name < b.Name:
		return a
	}
	return b
}
