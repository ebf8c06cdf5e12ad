package fleet

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/world"
)

// conditionStep is the resolution of the times of conditions: a pod may have become unschedulable up to one step later
// than its condition says.
const conditionStep = time.Second

// arrivals records since when pods are unschedulable, more exactly than their conditions. The zero value is ready for
// use and safe for concurrent use. It stores one time for each such pod.
type arrivals struct {
	mu    sync.Mutex
	since map[string]time.Time // by pod name as in decisions
}

// observe records a watch event of a pod, and reports whether the pod is unschedulable.
func (a *arrivals) observe(pod *corev1.Pod, now time.Time) bool {
	c, waits := world.Unschedulable(pod)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !waits {
		delete(a.since, world.PodName(pod))
		return false
	}
	a.note(world.PodName(pod), c.LastTransitionTime.Time, now)
	return true
}

// gone forgets a pod.
func (a *arrivals) gone(pod string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, pod)
}

// waits returns since when a pod is unschedulable. condition is the time in its condition, rounded down. A pod that the
// watch has not delivered yet counts as seen now.
func (a *arrivals) waits(pod string, condition, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.note(pod, condition, now)
}

// note keeps the time at which a pod was first seen to be unschedulable, unless it contradicts the pod's condition,
// which then counts.
func (a *arrivals) note(pod string, condition, now time.Time) time.Time {
	if a.since == nil {
		a.since = map[string]time.Time{}
	}
	since, known := a.since[pod]
	if !known {
		since = now
	}
	if since.Before(condition) || !since.Before(condition.Add(conditionStep)) {
		since = condition
	}
	a.since[pod] = since
	return since
}

// after returns the times since which pods are unschedulable that are after a moment.
func (a *arrivals) after(moment time.Time) (all []time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, since := range a.since {
		if since.After(moment) {
			all = append(all, since)
		}
	}
	return all
}

// prune forgets the pods that no longer exist, except recent ones, which pods may not include yet.
func (a *arrivals) prune(pods []corev1.Pod, now time.Time) {
	const lately = time.Minute
	there := make(map[string]bool, len(pods))
	for i := range pods {
		there[world.PodName(&pods[i])] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for pod, since := range a.since {
		if !there[pod] && now.Sub(since) > lately {
			delete(a.since, pod)
		}
	}
}
