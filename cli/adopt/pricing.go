package adopt

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// The ConfigMap of prices that must be written.
const (
	priceNamespace = "supercargo-system"
	priceName      = "prices"
	priceKey       = "flavors.csv"
)

// writePrices says how prices are written.
const writePrices = "Write a CSV file with the columns name,cpu,memory_gib,price_per_hour and run: kubectl create configmap " + priceName + " -n " + priceNamespace + " --from-file " + priceKey

// cloud returns the cloud of the NodeClass, or nil.
func (c *conversion) cloud() *cloud {
	if found, is := clouds[c.Spec.Template.Spec.NodeClassRef.Group]; is {
		return &found
	}
	return nil
}

// region returns the region of the fleet; empty if it is unknown.
func (c *conversion) region(of *cloud) string {
	if c.around.Region != "" {
		return c.around.Region
	}
	for _, zone := range c.zones {
		if region := of.region(zone); region != "" {
			return region
		}
	}
	return ""
}

// known returns the instance types of the list of prices that applies; none if there is none.
func (c *conversion) known() []catalogue.Flavor {
	of := c.cloud()
	if of == nil || c.around.Prices == nil {
		return nil
	}
	types, err := c.around.Prices(of.list, c.region(of))
	if err != nil {
		return nil
	}
	return types
}

// pricing sets the prices. Spot and reserved machines have no list prices.
func (c *conversion) pricing() {
	catalogue := &v1alpha1.PriceCatalogue{Namespace: priceNamespace, Name: priceName, Key: priceKey}
	c.spec.Pricing = &Pricing{Catalogue: catalogue}
	switch of := c.cloud(); {
	case len(c.known()) > 0:
		c.spec.Pricing = &Pricing{List: of.list, Region: c.region(of)}
	case of == nil:
		c.note("spec.template.spec.nodeClassRef.group", c.Spec.Template.Spec.NodeClassRef.Group, "No list prices of this provider are included.", writePrices)
	case c.region(of) == "":
		c.note("spec.template.spec.nodeClassRef.group", c.Spec.Template.Spec.NodeClassRef.Group, "The region is not known, so no list prices are used.", "Add --region, or write prices. "+writePrices)
	default:
		c.note("spec.template.spec.nodeClassRef.group", c.Spec.Template.Spec.NodeClassRef.Group, fmt.Sprintf("No list prices of region %s are included.", c.region(of)), writePrices)
	}
	if c.spec.Pricing.List != "" && c.windows {
		c.note(requirementsField, corev1.LabelOSStable, "The list has prices of Linux machines.", "Use prices of Windows machines. "+writePrices)
	}
	unpriced := keep(c.sold, func(t string) bool { return t != onDemand })
	if len(unpriced) == 0 || c.spec.Pricing.List == "" {
		return
	}
	difference := fmt.Sprintf("The list has prices of on-demand machines. The fleet buys no %s machines without a price.", strings.Join(unpriced, " and "))
	if !slices.Contains(c.sold, onDemand) {
		c.spec.Pricing.Catalogue = catalogue
		c.note(requirementsField, labelCapacityType, difference, "Add rows such as m7i.large/spot. "+writePrices)
		return
	}
	c.note(requirementsField, labelCapacityType, difference, "Nothing, or set spec.pricing.catalogue and add rows such as m7i.large/spot. "+writePrices)
}

// instanceTypes sets the patterns of instance types, and returns the labels whose requirements they include.
func (c *conversion) instanceTypes(all []demand, types *demand) map[string]bool {
	known := c.known()
	if len(known) == 0 {
		c.namedTypes(types)
		return nil
	}
	of := c.cloud()
	found := of.choose(known, all, c.architectures)
	if !found.restricted {
		c.defaultTypes(found.special)
		return nil
	}
	if types != nil && types.listed {
		if missing := keep(types.values, func(name string) bool {
			return !slices.ContainsFunc(known, func(t catalogue.Flavor) bool { return t.Name == name })
		}); len(missing) > 0 {
			c.note(requirementsField, strings.Join(missing, ", "), "The list has no price of these instance types, and the fleet does not buy them.", "Nothing, or add them to a catalogue and to instanceTypes. "+writePrices)
		}
	}
	chosen, fits := patterns(found.known, found.chosen)
	if !fits {
		c.note(requirementsField, "", "No instance type with a price fulfils the requirements. The fleet buys nothing (limits.machines: 0).", "Set instanceTypes and prices, then remove limits.machines. "+writePrices)
		c.block()
		return nil
	}
	c.spec.Karpenter.InstanceTypes = chosen
	if found.special > 0 {
		c.defaultTypes(found.special)
	}
	derived := map[string]bool{}
	for key := range of.labels {
		derived[key] = true
	}
	return derived
}

// defaultTypes is about instance types that the NodePool allows without naming them.
func (c *conversion) defaultTypes(special int) {
	if special > 0 {
		c.note(requirementsField, "", fmt.Sprintf("The requirements also allow %d instance types that are burstable or have GPUs or other accelerators. The fleet buys these only if instanceTypes names them.", special),
			"Nothing, or name them in instanceTypes.")
	}
}

// namedTypes sets the instance types that the NodePool names, without a list of prices.
func (c *conversion) namedTypes(types *demand) {
	if types == nil || types.absent {
		return
	}
	names := types.values
	if !types.listed {
		names = nil
		for _, name := range types.values {
			names = append(names, "!"+name)
		}
	}
	usable := keep(names, func(name string) bool { return len(name) <= longestPattern && patternSyntax.MatchString(name) })
	if len(usable) > mostPatterns {
		usable = usable[:mostPatterns]
	}
	if len(usable) < len(names) {
		c.note(requirementsField, corev1.LabelInstanceTypeStable, fmt.Sprintf("A fleet names at most %d instance types, each with at most %d letters, digits, '.', '_', '-' and '/'. %d are left out.", mostPatterns, longestPattern, len(names)-len(usable)),
			"Check instanceTypes.")
		if !types.listed {
			c.block()
		}
	}
	c.spec.Karpenter.InstanceTypes = usable
}
