package world

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// pinned returns why a pod must not be moved to another node, or "". Plans of moves count
// CPU, memory and pods alone. A pod that needs more of its node might find that no other
// node has it, and no machine is bought for such a pod: it would be lost, and its node
// released.
func (v *View) pinned(pod *corev1.Pod) string {
	_, _, extended := constraint.Requests(pod)
	for _, name := range slices.Sorted(maps.Keys(extended)) {
		if extended[name] > 0 {
			return fmt.Sprintf("it requests %s, which plans of moves do not count", name)
		}
	}
	if why := v.volumes.attached(pod); why != "" {
		return why
	}
	settled, why := v.volumes.settle(pod)
	if why != "" {
		return why
	}
	if what := constraint.Unsupported(settled); what != "" {
		return fmt.Sprintf("it uses %s, which plans of moves do not count", what)
	}
	return ""
}

// attached returns why the volumes of a pod keep it on its node, or "". A node can attach
// so many volumes and no more, and how many is not known here. Volumes that many nodes
// mount at a time are file systems on the network, which are not attached; a volume
// on the node's own disk has a node affinity, which names the node.
func (v *volumes) attached(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		claim := v.claims[pod.Namespace+"/"+name]
		if name == "" || claim == nil {
			continue // see settle
		}
		volume := v.volumes[claim.Spec.VolumeName]
		if volume == nil || !attachable(&volume.Spec) {
			continue
		}
		return fmt.Sprintf("volume %s of claim %s may have to be attached, and how many volumes other nodes can attach is not known", volume.Name, name)
	}
	return ""
}

// attachable reports whether a volume may count against how many volumes a node can
// attach. Kinds that are not known may.
func attachable(spec *corev1.PersistentVolumeSpec) bool {
	switch {
	case spec.NFS != nil, spec.HostPath != nil, spec.Local != nil, spec.CephFS != nil, spec.Glusterfs != nil, spec.AzureFile != nil:
		return false
	case spec.VolumeMode != nil && *spec.VolumeMode == corev1.PersistentVolumeBlock:
		return true
	}
	return !slices.ContainsFunc(spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}
