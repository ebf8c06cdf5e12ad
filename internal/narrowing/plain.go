package narrowing

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/packing"
)

// plain reports whether nothing but room, taints and class decides where the pod
// may go, so that a node without taints that has the room is sure to pass every
// filter on the neutral list.
func plain(pod *corev1.Pod) bool {
	spec := &pod.Spec
	return pod.Labels[v1alpha1.LabelMigration] == "" && // CheckpointStaging decides on the new pod of a migration
		spec.NodeName == "" && len(spec.NodeSelector) == 0 && spec.Affinity == nil &&
		len(spec.TopologySpreadConstraints) == 0 && len(spec.ResourceClaims) == 0 && spec.WorkloadRef == nil &&
		!hasHostPort(spec.InitContainers) && !hasHostPort(spec.Containers) && onlyNeutralVolumes(spec.Volumes)
}

func hasHostPort(containers []corev1.Container) bool {
	for i := range containers {
		for _, p := range containers[i].Ports {
			if p.HostPort > 0 {
				return true
			}
		}
	}
	return false
}

// onlyNeutralVolumes reports whether no volume ties the pod to certain nodes or
// counts against a node's limits. Nearly every pod has a projected
// service-account token, so volumes as such cannot be excluded.
func onlyNeutralVolumes(volumes []corev1.Volume) bool {
	for i := range volumes {
		v := &volumes[i]
		if v.EmptyDir == nil && v.Projected == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil {
			return false
		}
	}
	return true
}

// requests returns what the pod asks for, and false when it also asks for
// something that the index does not keep, such as a device or local storage.
func requests(pod *corev1.Pod) (packing.Size, bool) {
	var size packing.Size
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		switch {
		case name == corev1.ResourceMemory:
			size.MemoryBytes = q.Value()
		case name == corev1.ResourceCPU:
			size.MilliCPU = q.MilliValue()
		case !q.IsZero():
			return packing.Size{}, false
		}
	}
	return size, true
}

// admits turns a request into the least room that NodeResourcesFit wants: a
// resource that is not asked for is not looked at, even on a node that has
// promised more of it than it has.
func admits(size packing.Size) packing.Size {
	if size.MemoryBytes == 0 {
		size.MemoryBytes = math.MinInt64
	}
	if size.MilliCPU == 0 {
		size.MilliCPU = math.MinInt64
	}
	return size
}
