package world

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// pinned returns the reason why a pod must not be moved to another node, or "". Plans of moves only consider CPU,
// memory and the number of pods. A pod that needs other resources of its node might fit no other node, and no machine
// is bought for such a pod: it would stay pending after its node is released.
func (v *View) pinned(pod *corev1.Pod) string {
	if name := v.requests(pod).extended; name != "" {
		return fmt.Sprintf("it requests %s, which plans of moves do not consider", name)
	}
	if why := v.volumes.attached(pod); why != "" {
		return why
	}
	settled, why := v.volumes.settle(pod)
	if why != "" {
		return why
	}
	if what := constraint.Unsupported(settled); what != "" {
		return fmt.Sprintf("it uses %s, which plans of moves do not consider", what)
	}
	return ""
}

// attached returns the reason why the volumes of a pod keep it on its node, or "". The number of volumes that a node
// can attach is limited and not known here. Volumes that many nodes can mount at a time are network file systems, which
// are not attached. A local volume has a node affinity that names its node.
func (v *volumes) attached(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		claim := v.claims[pod.Namespace+"/"+name]
		if name == "" || claim == nil {
			continue // settle reports these
		}
		volume := v.volumes[claim.Spec.VolumeName]
		if volume == nil || !attachable(&volume.Spec) {
			continue
		}
		return fmt.Sprintf("volume %s of claim %s may have to be attached, and the number of volumes that other nodes can attach is unknown", volume.Name, name)
	}
	return ""
}

// attachable reports whether a volume may count against a node's limit of attached volumes. Unknown kinds may.
func attachable(spec *corev1.PersistentVolumeSpec) bool {
	switch {
	case spec.CSI != nil && isNetworkFileSystem(spec.CSI.Driver):
		return false
	case spec.NFS != nil, spec.HostPath != nil, spec.Local != nil, spec.CephFS != nil, spec.Glusterfs != nil, spec.AzureFile != nil:
		return false
	case spec.VolumeMode != nil && *spec.VolumeMode == corev1.PersistentVolumeBlock:
		return true
	}
	return !slices.ContainsFunc(spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}

// networkFileSystems are the CSI drivers whose volumes nodes mount over the network, for any access mode.
var networkFileSystems = []string{
	"nfs.csi.k8s.io", "smb.csi.k8s.io", "efs.csi.aws.com", "file.csi.azure.com", "filestore.csi.storage.gke.io", "cephfs.csi.ceph.com",
}

// isNetworkFileSystem reports whether nothing is attached to a node for volumes of a CSI driver. Rook puts the name of its
// namespace before that of a driver.
func isNetworkFileSystem(driver string) bool {
	return slices.Contains(networkFileSystems, driver) || strings.HasSuffix(driver, ".cephfs.csi.ceph.com")
}
