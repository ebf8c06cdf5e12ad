package auditor

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

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
		return strings.TrimRight(zone, "abcdef") // us-east-1a
	case strings.LastIndex(zone, "-") > 0:
		return zone[:strings.LastIndex(zone, "-")] // us-central1-a of Google Cloud, eastus-1 of Azure
	}
	return zone
}

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
