package clusterapi

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// azureTemplate is the kind of infrastructure template whose failure domains are numbers: 1 in eastus is zone eastus-1.
const azureTemplate = "AzureMachineTemplate"

// zoneOf returns the label of the zone of nodes in a failure domain; empty if it is unknown. Failure domains are zones,
// but those of Azure are numbers, which every region has.
func zoneOf(kind, domain, region string) string {
	if kind != azureTemplate || strings.Trim(domain, "0123456789") != "" {
		return domain
	}
	if region == "" || domain == "" {
		return ""
	}
	return region + "-" + domain
}

// regionOf returns the region of a cluster, whose machines are all in one region: that of its nodes. It is empty if none
// has one, or if they are in several.
func regionOf(nodes map[string]*corev1.Node) string {
	region := ""
	for _, n := range nodes {
		switch of := n.Labels[corev1.LabelTopologyRegion]; {
		case of == "" || of == region:
		case region != "":
			return ""
		default:
			region = of
		}
	}
	return region
}

// in returns the template for machines in a region.
func (t *template) in(region string) *template {
	there := *t
	there.region = region
	return &there
}

// withoutZones removes the labels that name a zone from comma-separated key=value pairs.
func withoutZones(pairs string) string {
	var kept []string
	for pair := range strings.SplitSeq(pairs, ",") {
		if key, _, _ := strings.Cut(strings.TrimSpace(pair), "="); !constraint.NamesZone(key) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, ",")
}
