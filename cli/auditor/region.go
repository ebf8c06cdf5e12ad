package auditor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
)

// awsRegion matches the region at the start of the name of a zone, a Local Zone or a Wavelength Zone
// of AWS: us-east-1a, us-west-2-lax-1a, us-east-1-wl1-bos-wlz-1.
var awsRegion = regexp.MustCompile(`^[a-z]+(-[a-z]+)+-[0-9]+`)

// region returns the region of a node; "" if unknown.
func region(node *corev1.Node) string {
	if name := cmp.Or(node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelFailureDomainBetaRegion]); name != "" {
		return name
	}
	zone := cmp.Or(node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelFailureDomainBetaZone])
	switch {
	case zone == "":
		return ""
	case strings.HasPrefix(node.Spec.ProviderID, "aws://"):
		return cmp.Or(awsRegion.FindString(zone), zone)
	case strings.LastIndex(zone, "-") > 0:
		return zone[:strings.LastIndex(zone, "-")] // us-central1-a of Google Cloud, eastus-1 of Azure
	}
	return zone
}

// Regions returns the regions with list prices, each with its price list: "us-east-1 (aws)".
func Regions() (all []string) {
	for _, list := range pricelist.Lists() {
		for _, name := range pricelist.Regions(list) {
			all = append(all, fmt.Sprintf("%s (%s)", name, list))
		}
	}
	return all
}

// RegionNames returns the names of the regions with list prices.
func RegionNames() (all []string) {
	for _, list := range pricelist.Lists() {
		all = append(all, pricelist.Regions(list)...)
	}
	return all
}

// KnownRegion reports whether a list has prices of a region.
func KnownRegion(name string) bool { return slices.Contains(RegionNames(), name) }

// nearEurope are parts of the names of regions that are nearer to Europe than to America. Regions
// without any of them count as near America.
var nearEurope = []string{"eu-", "europe", "uk", "france", "germany", "switzerland", "norway", "sweden", "poland", "italy", "spain", "austria", "belgium",
	"denmark", "africa", "af-", "me-", "il-", "uae", "qatar", "israel", "india"}

// nearestRegion returns the carried region that is nearest to the given one: itself, else the first
// on the same side of the Atlantic, else the first.
func nearestRegion(name string, carried []string) string {
	if slices.Contains(carried, name) {
		return name
	}
	european := func(region string) bool {
		return slices.ContainsFunc(nearEurope, func(part string) bool { return strings.Contains(region, part) })
	}
	for _, c := range carried {
		if european(c) == european(name) {
			return c
		}
	}
	return carried[0]
}
