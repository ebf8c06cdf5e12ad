package fleet

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/world"
)

// mostArrivals is how many pods are remembered that came lately. When more come within a
// lag, those of a shorter time stand for it.
const mostArrivals = 2000

// conditionStep is the resolution of the times of conditions: a pod may have been found to
// have no room as much later as its condition says.
const conditionStep = time.Second

// arrivals remembers the pods that came lately, and when pods were found to have no room.
// The zero value is ready for use, also by several goroutines. Memory: mostArrivals pods,
// and a time for each pod that is pending.
type arrivals struct {
	mu      sync.Mutex
	began   time.Time // when the first pod was seen
	came    []arrival // oldest first
	waiting map[string]time.Time
}

// arrival is a pod that came.
type arrival struct {
	pod *corev1.Pod
	at  time.Time
}

// observe notes what is seen of a pod. before is nil the first time, after is nil once it
// has gone.
func (a *arrivals) observe(before, after *corev1.Pod, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began.IsZero() {
		a.began, a.waiting = now, map[string]time.Time{}
	}
	if after == nil {
		delete(a.waiting, world.PodName(before))
		return
	}
	if before == nil && after.CreationTimestamp.After(a.began.Add(-conditionStep)) {
		a.came = append(a.came, arrival{after, now})
		if more := len(a.came) - mostArrivals; more > 0 {
			a.came = slices.Delete(a.came, 0, more)
		}
	}
	name := world.PodName(after)
	if _, is := world.Unschedulable(after); !is {
		delete(a.waiting, name)
	} else if _, known := a.waiting[name]; !known {
		a.waiting[name] = now
	}
}

// since returns when a pod was found to have no room whose condition says when, rounded
// down: when that was seen, unless that is too late to be true.
func (a *arrivals) since(name string, condition time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen, known := a.waiting[name]
	if !known || seen.Before(condition) || !seen.Before(condition.Add(conditionStep)) {
		return condition
	}
	return seen
}

// recent returns the pods that came within a time, the last first, and for how long all of
// them have been watched, that time at most.
func (a *arrivals) recent(now time.Time, within time.Duration) (came []arrival, watched time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began.IsZero() {
		return nil, 0
	}
	since := a.began
	if len(a.came) == mostArrivals {
		since = a.came[0].at
	}
	for _, c := range slices.Backward(a.came) {
		if now.Sub(c.at) >= within {
			break
		}
		came = append(came, c)
	}
	return came, min(within, max(0, now.Sub(since)))
}

// addArrivals tells the state which pods came within the last lag, and for how long pods
// have waited more exactly than their conditions do.
func (r *round) addArrivals() {
	s := &r.seen.state
	r.seen.waited = r.seen.waited[:0]
	for i := range s.Pending {
		p := &s.Pending[i]
		since := r.came.since(p.Name, r.now.Add(-p.Waited))
		p.Waited = max(0, r.now.Sub(since))
		r.seen.waited = append(r.seen.waited, since)
	}
	var lag time.Duration
	for i := range s.Flavors {
		lag = max(lag, s.Flavors[i].Lag)
	}
	var came []arrival
	came, s.Observed = r.came.recent(r.now, lag)
	s.Recent = nil
	for _, c := range came {
		if p, is := r.seen.view.Arrived(c.pod, r.self.class); is {
			p.Waited = r.now.Sub(c.at)
			s.Recent = append(s.Recent, p)
		}
	}
}
