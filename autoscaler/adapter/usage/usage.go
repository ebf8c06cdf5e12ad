// Package usage records the CPU and memory usage of pods and their requests as series,
// because metrics.k8s.io keeps no history.
//
// [Of] computes the series; a [Recorder] reads and writes them.
package usage

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// The names of the series. Both have the labels namespace, pod and resource.
const (
	// Used is the usage of the pod's containers: cores, averaged over the window of the
	// measurement, or bytes.
	Used = "supercargo_pod_used"
	// Requested is the request of the pod while it is Ready: starting pods must not lower the
	// utilisation of those that serve.
	Requested = "supercargo_pod_requested"
)

// Key identifies a series.
type Key struct {
	Name     string
	Pod      types.NamespacedName
	Resource corev1.ResourceName
}

// Value is the value of a series at a time.
type Value struct {
	Value float64
	At    time.Time
}

// measured are the resources with series.
var measured = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Of returns the series of the measurements. A pod that is unknown, is not Ready, or requests
// nothing has no series of requests. Measurements after now, as after a clock change, and
// negative usage are ignored. Cost: O(pods).
func Of(metrics []metricsv1beta1.PodMetrics, pods []corev1.Pod, now time.Time) map[Key]Value {
	known := make(map[types.NamespacedName]*corev1.Pod, len(pods))
	for i := range pods {
		known[types.NamespacedName{Namespace: pods[i].Namespace, Name: pods[i].Name}] = &pods[i]
	}
	series := map[Key]Value{}
	for i := range metrics {
		m := &metrics[i]
		of, at := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, m.Timestamp.Time
		if at.After(now) {
			continue
		}
		var requests corev1.ResourceList
		if pod := known[of]; pod != nil && ready(pod) {
			requests = resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		}
		for _, resource := range measured {
			if used, ok := used(m, resource); ok {
				series[Key{Used, of, resource}] = Value{used, at}
			}
			if q, ok := requests[resource]; ok && q.Sign() > 0 {
				series[Key{Requested, of, resource}] = Value{q.AsApproximateFloat64(), at}
			}
		}
	}
	return series
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// used returns the usage of all containers; false if there are none or if one reports none,
// as when it has just started.
func used(m *metricsv1beta1.PodMetrics, resource corev1.ResourceName) (sum float64, ok bool) {
	for i := range m.Containers {
		q, present := m.Containers[i].Usage[resource]
		if !present || q.Sign() < 0 {
			return 0, false
		}
		sum += q.AsApproximateFloat64()
	}
	return sum, len(m.Containers) > 0
}
