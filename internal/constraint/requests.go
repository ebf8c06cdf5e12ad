package constraint

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Requests returns what NodeResourcesFit wants to find free for the pod when it is
// placed: containers, init containers and sidecars, overhead and pod-level requests
// put together as the scheduler does. CPU is in thousandths of a core, memory in
// bytes, and extended holds all else that is asked for, ephemeral storage and huge
// pages included, in the resource's unit rounded up to whole ones. It is nil if there
// is nothing else. Every pod also takes one of the node's pods, which is not listed.
//
// What a resized pod that runs already holds can be more; that is not asked here.
func Requests(pod *corev1.Pod) (milliCPU, memoryBytes int64, extended map[corev1.ResourceName]int64) {
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		switch {
		case name == corev1.ResourceCPU:
			milliCPU = q.MilliValue()
		case name == corev1.ResourceMemory:
			memoryBytes = q.Value()
		case !q.IsZero():
			if extended == nil {
				extended = map[corev1.ResourceName]int64{}
			}
			extended[name] = q.Value()
		}
	}
	return milliCPU, memoryBytes, extended
}
