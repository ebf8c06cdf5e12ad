package status

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// poolLabels are the labels whose value is the name of a node's pool, that of Supercargo first.
var poolLabels = []string{
	v1alpha1.LabelFleet, "karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool", "agentpool", "doks.digitalocean.com/node-pool", "kops.k8s.io/instancegroup",
}

// nodePool returns the NodeFleet, node group or node pool of a node, or else its MachineDeployment; empty if none is known.
func nodePool(node *corev1.Node) string {
	for _, label := range poolLabels {
		if name := node.Labels[label]; name != "" {
			return name
		}
	}
	// The name of a MachineSet is that of its MachineDeployment plus a suffix.
	set := node.Annotations["cluster.x-k8s.io/owner-name"]
	if dash := strings.LastIndex(set, "-"); dash > 0 && node.Annotations["cluster.x-k8s.io/owner-kind"] == "MachineSet" {
		return set[:dash]
	}
	return ""
}

// zoneOf returns the zone of a node; empty if unknown.
func zoneOf(node *corev1.Node) string {
	return cmp.Or(node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelFailureDomainBetaZone])
}
