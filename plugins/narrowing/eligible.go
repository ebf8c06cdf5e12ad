package narrowing

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/gang"
	"supercargo.dev/supercargo/internal/packing"
)

// narrowable reports whether the pod may be narrowed: whether only filters apply to it that the proof can evaluate. Other
// filters concern volumes and claims, with their own accounting, or migrations and workloads. A DaemonSet's pod goes to
// the one node in its affinity, which no search by size finds.
//
// The index does not know which machines may be interrupted.
func narrowable(pod *corev1.Pod) bool {
	spec := &pod.Spec
	accepts, _ := capacity.Accepts(pod)
	return accepts && pod.Labels[v1alpha1.LabelMigration] == "" && // CheckpointStaging decides on the new pod of a migration
		spec.NodeName == "" && len(spec.ResourceClaims) == 0 && gang.Of(pod) == "" && onlyNeutralVolumes(spec.Volumes) &&
		(spec.Affinity == nil || !class.EveryNode(pod))
}

// onlyNeutralVolumes reports whether no volume ties the pod to certain nodes or counts against a node's limits. Nearly
// every pod has a projected service-account token, so not all volumes can be excluded.
func onlyNeutralVolumes(volumes []corev1.Volume) bool {
	for i := range volumes {
		v := &volumes[i]
		if v.EmptyDir == nil && v.Projected == nil && v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil {
			return false
		}
	}
	return true
}

// requests returns what the pod requests, and false if it also requests a resource that the index does not have, such
// as a device or local storage.
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

// admits converts a request into the least free room that NodeResourcesFit requires: it ignores a resource that is not
// requested, even on an overcommitted node.
func admits(size packing.Size) packing.Size {
	if size.MemoryBytes == 0 {
		size.MemoryBytes = math.MinInt64
	}
	if size.MilliCPU == 0 {
		size.MilliCPU = math.MinInt64
	}
	return size
}
