package constraint

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// held makes PodRequests count as kube-scheduler does for pods on a node. A pod whose resize is in progress counts with
// the maximum of its requests, the resources allocated by the kubelet and those of its containers; a pod whose resize
// is infeasible does not count with its requests. An unbound pod has no such status and counts with its requests.
// Status of pod-level resources exists only if the API server enables InPlacePodLevelResourcesVerticalScaling, so
// reading it is always correct.
var held = resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}

// Requests returns the resources that the pod occupies on a node: what NodeResourcesFit requires to be free before the
// pod is bound, and what kube-scheduler counts afterwards, including a resize in progress. Containers, init containers,
// sidecars, overhead and pod-level requests are combined as in the scheduler. CPU is in milli-CPU, memory in bytes.
// extended holds all other resources, including ephemeral storage and huge pages, in their units rounded up to
// integers; it is nil if there are none. The one pod slot that every pod occupies is not listed.
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

// DefaultRequests sets the requests that the API server sets when a pod is created, but not in the template of a
// controller: missing requests of a container are its limits. Missing requests of the pod as a whole are those of its
// containers, or its limits if no container has any. It changes the spec, but no quantity that the spec shares.
func DefaultRequests(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			r.Requests = withMissing(r.Requests, r.Limits, func(corev1.ResourceName) bool { return true })
		}
	}
	whole := spec.Resources
	if whole == nil || len(whole.Limits) == 0 {
		return
	}
	whole = whole.DeepCopy()
	parts := resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{})
	whole.Requests = withMissing(whole.Requests, parts, func(name corev1.ResourceName) bool {
		return resourcehelper.IsSupportedPodLevelResource(name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
	})
	whole.Requests = withMissing(whole.Requests, whole.Limits, resourcehelper.IsSupportedPodLevelResource)
	spec.Resources = whole
}

// DefaultHostPorts sets the host ports that the API server sets when a pod that uses the network of its host is created,
// but not in the template of a controller. It changes the containers of the spec.
func DefaultHostPorts(spec *corev1.PodSpec) {
	if !spec.HostNetwork {
		return
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for j := range containers[i].Ports {
				if p := &containers[i].Ports[j]; p.HostPort == 0 {
					p.HostPort = p.ContainerPort
				}
			}
		}
	}
}

// withMissing returns the list with the applicable amounts of others that it lacks. It changes neither.
func withMissing(list, others corev1.ResourceList, applies func(corev1.ResourceName) bool) corev1.ResourceList {
	own := false
	for name, amount := range others {
		if _, has := list[name]; has || !applies(name) {
			continue
		}
		if !own {
			own, list = true, maps.Clone(list)
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = amount
	}
	return list
}
