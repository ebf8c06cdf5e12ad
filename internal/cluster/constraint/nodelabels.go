package constraint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// followers are the labels that nodes have besides another one, with its value:
//   - the kubelet sets the older names of the labels of the operating system and the architecture,
//   - cloud-controller-managers set the older names of the labels of the instance type, the zone and the region,
//   - the CSI drivers of clouds name the zone or the region of a node by labels of their own.
var followers = map[string][]string{
	corev1.LabelOSStable:           {"beta.kubernetes.io/os"},
	corev1.LabelArchStable:         {"beta.kubernetes.io/arch"},
	corev1.LabelInstanceTypeStable: {corev1.LabelInstanceType},
	corev1.LabelTopologyZone: {
		corev1.LabelFailureDomainBetaZone,
		"topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.disk.csi.azure.com/zone", "topology.cinder.csi.openstack.org/zone",
		"topology.csi.vmware.com/k8s-zone",
	},
	corev1.LabelTopologyRegion: {corev1.LabelFailureDomainBetaRegion, "topology.csi.vmware.com/k8s-region"},
}

// AddFollowing adds the labels that a node gets besides the given ones, with the same values. It keeps those that are
// there. It is for nodes that do not exist yet: of a node, its labels are known.
func AddFollowing(labels map[string]string) {
	for of, names := range followers {
		value, is := labels[of]
		if !is {
			continue
		}
		for _, name := range names {
			if _, has := labels[name]; !has {
				labels[name] = value
			}
		}
	}
}

// NamesZone reports whether a label of nodes names their zone.
func NamesZone(label string) bool {
	return label == corev1.LabelTopologyZone || slices.Contains(followers[corev1.LabelTopologyZone], label)
}
