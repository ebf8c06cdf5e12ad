package karpenter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// onDemand is the capacity type without a suffix in the names of flavors.
const onDemand = "on-demand"

// defaultArch is the architecture of instance types that state none.
const defaultArch = "amd64"

// offer is an instance type that can be bought in a zone, with a capacity type.
type offer struct {
	name string
	of   *catalogue.Flavor
	// zone is empty if the cloud chooses it.
	zone, capacity string
	// pricedAs is the name of the row of the pricing that has its price.
	pricedAs string
}

// offerName returns the name of a flavor: TYPE, TYPE@ZONE, TYPE/CAPACITY or TYPE@ZONE/CAPACITY. The capacity type
// on-demand, or none, has no suffix.
func offerName(instanceType, zone, capacity string) string {
	name := instanceType
	if zone != "" {
		name += "@" + zone
	}
	if capacity != "" && capacity != onDemand {
		name += "/" + capacity
	}
	return name
}

// offers returns what a fleet may buy, ordered by name. rows are those of its pricing, ordered by name. It refuses the
// fleet if a pattern matches no instance type, or if none is left.
//
// Cost: O(n·(p + z·c)) for n instance types, p patterns, z zones and c capacity types.
func offers(spec *v1alpha1.KarpenterNodes, rows []catalogue.Flavor) ([]offer, error) {
	types, named := typesIn(rows)
	chosen, unknown := catalogue.Choose(spec.InstanceTypes, types)
	archs := cmpOr(valuesOf(spec, corev1.LabelArchStable), defaultArch)
	chosen = slices.DeleteFunc(chosen, func(f *catalogue.Flavor) bool { return !slices.Contains(archs, cmp.Or(f.Arch, defaultArch)) })
	switch {
	case len(unknown) > 0:
		return nil, &provider.Refused{Reason: v1alpha1.FleetReasonInstanceTypesUnknown, Message: fmt.Sprintf(
			"spec.karpenter.instanceTypes: spec.pricing contains no instance type that matches %s", strings.Join(unknown, ", "))}
	case len(chosen) == 0:
		return nil, &provider.Refused{Reason: v1alpha1.FleetReasonInstanceTypesUnknown, Message: fmt.Sprintf(
			"spec.karpenter: spec.pricing contains no instance type of architecture %s", strings.Join(archs, " or "))}
	}
	var all []offer
	for _, of := range chosen {
		for _, zone := range cmpOr(valuesOf(spec, corev1.LabelTopologyZone), "") {
			for _, capacity := range cmpOr(valuesOf(spec, labelCapacityType), onDemand) {
				all = append(all, offer{
					name: offerName(of.Name, zone, capacity), of: of, zone: zone, capacity: capacity, pricedAs: pricedAs(named, of.Name, zone, capacity),
				})
			}
		}
	}
	slices.SortFunc(all, func(a, b offer) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// cmpOr returns values, or only the default if there are none.
func cmpOr(values []string, otherwise string) []string {
	if len(values) == 0 {
		return []string{otherwise}
	}
	return values
}

// valuesOf returns the values of the requirement of a label; none if there is no such requirement.
func valuesOf(spec *v1alpha1.KarpenterNodes, key string) []string {
	at := slices.IndexFunc(spec.Requirements, func(r v1alpha1.KarpenterRequirement) bool { return r.Key == key })
	if at < 0 {
		return nil
	}
	return spec.Requirements[at].Values
}

// typesIn returns the instance types in a pricing, ordered by name, and which names its rows have. Rows of a zone or of a
// capacity type only have the price of their instance type there. If that has no row of its own, the first of them also
// has its size, and it has no other price.
func typesIn(rows []catalogue.Flavor) (types []catalogue.Flavor, named map[string]bool) {
	named = make(map[string]bool, len(rows))
	for i := range rows {
		named[rows[i].Name] = true
	}
	added := make(map[string]bool, len(rows))
	for i := range rows {
		name := typeOf(rows[i].Name)
		if name == "" || added[name] || name != rows[i].Name && named[name] {
			continue
		}
		added[name] = true
		types = append(types, rows[i])
		types[len(types)-1].Name = name
	}
	slices.SortFunc(types, func(a, b catalogue.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	return types, named
}

// typeOf returns the instance type in the name of a row, which is that of a flavor: see [offerName]. As the value of a
// label, an instance type has neither of the separators.
func typeOf(row string) string {
	zoned, _, _ := strings.Cut(row, "@")
	name, _, _ := strings.Cut(zoned, "/")
	return name
}

// pricedAs returns the name of the row with the price of an offer, the most specific one. Only the price of the capacity
// type on-demand is that of the instance type.
func pricedAs(named map[string]bool, instanceType, zone, capacity string) string {
	if name := offerName(instanceType, zone, capacity); named[name] {
		return name
	}
	return offerName(instanceType, "", capacity)
}

// claim returns the NodeClaim of an offer for a fleet.
func (o *offer) claim(name string, fleet *v1alpha1.NodeFleet, spec *v1alpha1.KarpenterNodes) *claim {
	c := &claim{Spec: claimSpec{
		NodeClassRef: spec.NodeClassRef, Requirements: o.requirements(spec), Taints: spec.Taints, StartupTaints: spec.StartupTaints,
		ExpireAfter: cmp.Or(spec.ExpireAfter, "Never"), TerminationGracePeriod: spec.TerminationGracePeriod,
	}}
	c.Name, c.Labels = name, o.givenLabels(fleet, spec)
	return c
}

// requirements returns those of the NodeClaim of an offer: one instance type, zone, capacity type, architecture and
// operating system, and what the spec requires besides.
func (o *offer) requirements(spec *v1alpha1.KarpenterNodes) []v1alpha1.KarpenterRequirement {
	own := []struct{ key, value string }{
		{corev1.LabelInstanceTypeStable, o.of.Name}, {corev1.LabelTopologyZone, o.zone}, {labelCapacityType, o.capacity},
		{corev1.LabelArchStable, cmp.Or(o.of.Arch, defaultArch)}, {corev1.LabelOSStable, string(corev1.Linux)},
	}
	var all []v1alpha1.KarpenterRequirement
	for _, r := range own {
		stated := r.key == corev1.LabelOSStable && valuesOf(spec, r.key) != nil
		if r.value != "" && !stated {
			all = append(all, v1alpha1.KarpenterRequirement{Key: r.key, Operator: corev1.NodeSelectorOpIn, Values: []string{r.value}})
		}
	}
	for _, r := range spec.Requirements {
		if r.Key != corev1.LabelTopologyZone && r.Key != labelCapacityType && r.Key != corev1.LabelArchStable {
			all = append(all, r)
		}
	}
	return all
}
