package fleet

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/world"
)

// conditionStep is the resolution of the times of conditions: a pod may have been found to
// have no room as much later as its condition says.
const conditionStep = time.Second

// arrivals knows since when pods have waited that find no room, more exactly than their
// conditions do. The zero value is ready for use, also by several goroutines. It takes a time
// for each pod that waits.
type arrivals struct {
	mu    sync.Mutex
	since map[string]time.Time // by the name that decisions know it by
}

// observe notes what the watch tells of a pod, and returns whether it waits.
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

// waits returns since when a pod has waited whose condition says when, rounded down. What the
// watch has yet to tell of counts as seen now.
func (a *arrivals) waits(pod string, condition, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.note(pod, condition, now)
}

// note keeps when a pod was first seen to wait, unless that is too late, or too early, to be
// when it was found to have no room.
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

// after returns since when the pods have waited that began to after a moment.
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

// prune forgets the pods that are no more, except those that may have come just now.
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
