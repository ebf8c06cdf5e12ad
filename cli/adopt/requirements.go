package adopt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

const (
	labelCapacityType = "karpenter.sh/capacity-type"
	requirementsField = "spec.template.spec.requirements"
)

// onDemand is the capacity type of which there are list prices.
const onDemand = "on-demand"

// capacityTypes are those that are bought if a NodePool lists none. Reserved machines have no price by the hour.
var capacityTypes = []string{onDemand, "spot"}

// defaultArchitecture is the one of a fleet that states none.
const defaultArchitecture = "amd64"

// architectures are those of the instance types in lists of prices.
var architectures = []string{defaultArchitecture, "arm64"}

// mostRequirements is the maximum number of requirements of a NodeFleet.
const mostRequirements = 50

// restricting reports whether a label in the template of a NodePool restricts which machines Karpenter launches.
func restricting(key string) bool {
	if name, old := aliases[key]; old {
		key = name
	}
	return slices.Contains([]string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, corev1.LabelArchStable, corev1.LabelOSStable, labelCapacityType}, key)
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// requirements converts the requirements, and adds what they say about zones, capacity types, architectures and instance
// types.
func (c *conversion) requirements() error {
	stated := slices.Clone(c.Spec.Template.Spec.Requirements)
	for _, key := range sorted(c.Spec.Template.Metadata.Labels) {
		if restricting(key) {
			stated = append(stated, requirement{Key: key, Operator: string(corev1.NodeSelectorOpIn), Values: []string{c.Spec.Template.Metadata.Labels[key]}})
		}
	}
	all, err := demands(stated)
	if err != nil {
		return err
	}
	c.flexibility()
	var types, arch, capacity, zone *demand
	for i := range all {
		switch d := &all[i]; {
		case d.nothing():
			c.impossible(d)
		case d.key == corev1.LabelInstanceTypeStable:
			types = d
		case d.key == corev1.LabelTopologyZone:
			zone = d
		case d.key == labelCapacityType:
			capacity = d
		case d.key == corev1.LabelArchStable:
			arch = d
		case d.key == corev1.LabelOSStable:
			c.windows = d.listed && slices.Contains(d.values, string(corev1.Windows))
		case d.key == corev1.LabelHostname || d.key == "karpenter.sh/nodepool":
			return fmt.Errorf("%s: Karpenter allows no requirement on %s", requirementsField, d.key)
		}
	}
	c.ownValues(zone, capacity, arch)
	c.pricing()
	derived := c.instanceTypes(all, types)
	for i := range all {
		d := &all[i]
		if d != types && d != arch && d != capacity && d != zone && !d.nothing() {
			c.other(d, derived[d.key])
		}
	}
	return nil
}

// flexibility lists the minimum numbers of values.
func (c *conversion) flexibility() {
	for i, r := range c.Spec.Template.Spec.Requirements {
		if r.MinValues != nil {
			c.note(fmt.Sprintf("%s[%d].minValues", requirementsField, i), fmt.Sprintf("%d of %s", *r.MinValues, r.Key),
				"Each NodeClaim of a fleet is for one instance type. If the cloud has none left, the fleet buys another type, and that one again after scaling.backOff.", "Nothing.")
		}
	}
}

// impossible is about a label of which no value is allowed.
func (c *conversion) impossible(d *demand) {
	c.note(requirementsField, d.key, "No value of this label fulfils all requirements, so Karpenter launches nothing. The fleet buys nothing either (limits.machines: 0).",
		"Correct the requirements.")
	c.block()
}

// ownValues sets the requirements whose values are part of a flavor.
func (c *conversion) ownValues(zone, capacity, arch *demand) {
	c.zones = c.zonesOf(zone)
	c.values(corev1.LabelTopologyZone, c.zones)
	if capacity == nil {
		c.note(requirementsField, "", "A NodePool without a requirement on "+labelCapacityType+" launches machines of every capacity type. The fleet buys only on-demand machines.",
			"Nothing, or add the requirement with the values on-demand and spot, and prices of spot machines.")
	} else {
		c.sold = c.allowed(capacity, capacityTypes)
		c.values(labelCapacityType, c.sold)
	}
	if arch == nil {
		c.architectures = []string{defaultArchitecture}
		c.note(requirementsField, "", "A NodePool without a requirement on "+corev1.LabelArchStable+" launches machines of every architecture. The fleet buys only amd64.",
			"Nothing, or add the requirement with the values amd64 and arm64, if your images exist for both.")
	} else {
		c.architectures = c.allowed(arch, architectures)
		c.values(corev1.LabelArchStable, c.architectures)
	}
}

// values adds a requirement that allows values; none if there are none.
func (c *conversion) values(key string, values []string) {
	if len(values) > mostValues {
		c.note(requirementsField, key, fmt.Sprintf("A requirement of a fleet has at most %d values, and the others are left out.", mostValues), "Nothing, or split the NodeFleet in two.")
		values = values[:mostValues]
	}
	if len(values) > 0 {
		c.spec.Karpenter.Requirements = append(c.spec.Karpenter.Requirements,
			v1alpha1.KarpenterRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
	}
}

// allowed returns the values that a demand lists, or else those of the known ones that it allows.
func (c *conversion) allowed(d *demand, known []string) []string {
	if d.listed && !d.absent {
		return d.values
	}
	some := keep(known, d.allows)
	if len(some) == 0 {
		c.impossible(d)
	}
	return some
}

// zonesOf returns the zones of the fleet. If a NodePool does not list them, they are those of its NodeClass, or else
// those in which nodes exist. A zone that is excluded must not be chosen by the cloud.
func (c *conversion) zonesOf(d *demand) []string {
	if d != nil && d.listed && !d.absent {
		return d.values
	}
	ref, source := c.Spec.Template.Spec.NodeClassRef, "the zones of its NodeClass"
	known := c.around.ClassZones[ref.Kind+"/"+ref.Name]
	if len(known) == 0 {
		known, source = c.around.Zones, "the zones in which the cluster has nodes"
	}
	excluded := d != nil && (d.absent || len(d.values) > 0)
	if excluded {
		known = keep(known, d.allows)
	}
	switch {
	case len(known) > 0:
		c.note(requirementsField, strings.Join(known, ", "), "The NodePool lists no zones. A fleet buys for pods that require a zone only in zones that it lists: these are "+source+".",
			"Check the values of "+corev1.LabelTopologyZone+".")
	case excluded:
		c.note(requirementsField, corev1.LabelTopologyZone, "A fleet lists zones and cannot exclude any, and the zones are not known. The fleet buys nothing (limits.machines: 0).",
			"Add a requirement with the zones, then remove limits.machines.")
		c.block()
	default:
		c.note(requirementsField, "", "The NodePool lists no zones, and they are not known. The fleet buys nothing for pods that require a zone.",
			"Add a requirement on "+corev1.LabelTopologyZone+" with the zones.")
	}
	return known
}

// domains are those of labels that describe machines, whatever a pod requires.
var domains = []string{
	"kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com", "kubernetes.azure.com", "karpenter.k8s.gcp",
	"cloud.google.com", "karpenter.kwok.sh",
}

// other converts a requirement that the fleet copies to its NodeClaims. If it is derived, instanceTypes says the same.
func (c *conversion) other(d *demand, derived bool) {
	r, fits := d.requirement()
	switch {
	case fits && len(c.spec.Karpenter.Requirements) < mostRequirements:
		c.spec.Karpenter.Requirements = append(c.spec.Karpenter.Requirements, r)
	case derived:
		return // it is not lost
	default:
		c.note(requirementsField, d.key, fmt.Sprintf("A fleet has one requirement for each label, with at most %d values, and at most %d requirements. This one is left out, and the fleet buys nothing (limits.machines: 0).", mostValues, mostRequirements),
			"Express the requirement in instanceTypes or in fewer requirements, then remove limits.machines.")
		c.block()
		return
	}
	domain, _, found := strings.Cut(d.key, "/")
	described := found && slices.ContainsFunc(domains, func(known string) bool { return domain == known || strings.HasSuffix(domain, "."+known) })
	if single := r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1; !single && !described && r.Operator != corev1.NodeSelectorOpDoesNotExist {
		c.note(requirementsField, d.key, "Karpenter sets this label to what a pod requires. A fleet buys nothing for pods that require a value of it.",
			"Create a fleet for each value, with the value in spec.karpenter.labels.")
	}
	if described && !derived && describesTypes(d.key) {
		c.note(requirementsField, d.key, "The fleet does not know which instance types fulfil this requirement. Karpenter fails to launch the others, and the fleet then buys another type.",
			"List the instance types that fulfil it in instanceTypes.")
	}
}

// describesTypes reports whether a label of a cloud provider describes instance types.
func describesTypes(key string) bool {
	_, name, _ := strings.Cut(key, "/")
	return strings.HasPrefix(name, "instance-") || strings.HasPrefix(name, "sku-")
}
