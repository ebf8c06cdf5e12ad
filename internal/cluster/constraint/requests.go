package constraint

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// held counts what a pod holds as kube-scheduler counts it for the pods of a node. A pod
// whose resize is in progress holds the largest of what it requests, what the kubelet has
// allocated and what its containers have; one whose resize is infeasible does not hold
// what it requests. A pod that has not been bound has no such status: it holds what it
// requests. Status of pod-level resources exists only where the API server has
// InPlacePodLevelResourcesVerticalScaling enabled, so that reading it is always right.
var held = resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}

// Requests returns the room that the pod takes of a node: what NodeResourcesFit wants to
// find free for it before it is bound, and what kube-scheduler counts for it afterwards,
// a resize in progress included. Containers, init containers and sidecars, overhead and
// pod-level requests are put together as the scheduler does. CPU is in thousandths of a
// core, memory in bytes, and extended holds all else that is asked for, ephemeral storage
// and huge pages included, in the resource's unit rounded up to whole ones. It is nil if
// there is nothing else. Every pod also takes one of the node's pods, which is not listed.
func Requests(pod *corev1.Pod) (milliCPU, memoryBytes int64, extended map[corev1.ResourceName]int64) {
	for name, q := range resourcehelper.PodRequests(pod, held) {
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
