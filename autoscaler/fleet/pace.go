package fleet

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/world"
)

// settling is how long events are gathered before a round begins. After a round, its fleet rests for the duration of
// the round, within leastRest and mostRest, because a round reads all machines from the API server. The end of the
// gathering of pods starts a round at that moment in any case.
const (
	settling            = 20 * time.Millisecond
	leastRest, mostRest = 100 * time.Millisecond, time.Second
)

// pace controls how soon the next round of a fleet may begin. The fields that are not atomic are for one goroutine at a
// time.
type pace struct {
	fleet        types.UID
	began, ended time.Time // the last round
	// decided is the time of the last purchase decision. idle and most are the gathering times of pods. gathered is
	// when gathering ends according to the last round; zero if it gathered none.
	decided, gathered time.Time
	idle, most        time.Duration
	// unordered are pods whose machines could not be ordered, and unorderedSince is when they were due.
	unordered      map[string]bool
	unorderedSince time.Time
	// again makes another round follow the last one at once, because another writer changed what the round read.
	// followed reports that this has happened, because it does not happen twice in a row.
	again, followed bool
	// left reports that the last round left deferrable work to the next one, and hurried that the round before did so:
	// that does not happen twice in a row either.
	left    atomic.Bool
	hurried bool
	// woken reports that the answer has arrived for which rounds were waiting.
	woken atomic.Bool
}

// wait returns how long a round must wait that could begin now. due is when the gathering of pods ends; zero if there
// are none. A round that would still run at that time waits for it.
func (p *pace) wait(now, due time.Time) time.Duration {
	if p.woken.Load() || p.again {
		return 0
	}
	took := min(max(p.ended.Sub(p.began), 0), mostRest)
	next := p.ended.Add(max(took, leastRest))
	if most := now.Add(mostRest); next.After(most) { // the clock was ahead
		next = most
	}
	if due.After(p.began) {
		soonest := next
		if now.After(next) {
			soonest = now
		}
		if due.Before(next) || due.Sub(soonest) < took {
			next = due
		}
	}
	return max(0, next.Sub(now))
}

// begin records that a round begins.
func (p *pace) begin(now time.Time) {
	p.began, p.followed, p.again = now, p.again, false
	p.hurried = p.left.Swap(false)
	p.woken.Store(false)
}

// changed makes the next round follow at once.
func (p *pace) changed() { p.again = !p.followed }

// due returns when the gathering of the pods that arrived since the last purchase decision ends; zero if there are
// none. They may include pods that are not for the fleet.
func (r *Reconciler) due(p *pace) time.Time {
	end := fleetdecide.GatherEnd(r.arrivals.after(p.decided), p.idle, p.most)
	if !p.gathered.IsZero() && (end.IsZero() || p.gathered.Before(end)) {
		end = p.gathered
	}
	return end
}

// paceOf returns the pace of a fleet.
func (r *Reconciler) paceOf(fleet string) *pace {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pace[fleet]
	if p == nil {
		if r.pace == nil {
			r.pace = map[string]*pace{}
		}
		p = &pace{}
		r.pace[fleet] = p
	}
	return p
}

// awaken starts a round of a fleet without a rest.
func (r *Reconciler) awaken(fleet string) {
	r.paceOf(fleet).woken.Store(true)
	if r.wake != nil {
		r.wake(fleet)
	}
}

// batch are the pods that arrived since the last purchase decision and for which machines are bought together.
type batch struct {
	pods map[string]bool
	// ends is the time at which their gathering ends; zero if there are none. wait is how much longer that is.
	ends time.Time
	wait time.Duration
}

// gather returns the pods that are gathered, and records when that ends. waited is the time since which each pod is
// unschedulable according to its condition. Pods from before the last purchase decision do not delay the gathering: the
// decision left those that are still pending.
func (p *pace) gather(scaling *v1alpha1.FleetScaling, waited map[string]time.Time, a *arrivals, now time.Time) batch {
	p.idle, p.most = scaling.BatchIdle.Duration, scaling.BatchMax.Duration
	b := batch{pods: map[string]bool{}}
	var fresh []time.Time
	for name, condition := range waited {
		if since := a.waits(name, condition, now); since.After(p.decided) {
			b.pods[name] = true
			fresh = append(fresh, since)
		}
	}
	b.ends = fleetdecide.GatherEnd(fresh, p.idle, p.most)
	retries := false
	for name := range p.unordered {
		if _, waits := waited[name]; waits {
			retries, b.pods[name], b.ends = true, true, p.unorderedSince
		}
	}
	if wait := b.ends.Sub(now); wait > 0 && !retries {
		p.gathered, b.wait = b.ends, wait
		return b
	}
	p.decided, p.gathered, p.unordered = now, time.Time{}, nil
	return b
}

// orderAgain records that machines for these pods could not be ordered as decided: the next round gathers no more pods
// before it orders them.
func (p *pace) orderAgain(b batch) {
	if len(b.pods) > 0 {
		p.unordered, p.unorderedSince = b.pods, b.ends
	}
}

// pressed reports whether the gathering of pods that the round does not know has ended: what can wait is then left to
// the next round.
func (r *round) pressed() bool {
	due := r.due(r.pace)
	if r.pace.hurried || !due.After(r.pace.began) || due.After(r.Clock.Now()) {
		return false
	}
	r.pace.left.Store(true)
	return true
}

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

// prune forgets the pods that no longer exist, except recent ones, which pods may not include yet. Most rounds have none
// to forget, and cost nothing.
func (a *arrivals) prune(pods []*corev1.Pod, now time.Time) {
	gone := a.before(now.Add(-lately))
	if len(gone) == 0 {
		return
	}
	for _, pod := range pods {
		delete(gone, world.PodName(pod))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for pod := range gone {
		if since, is := a.since[pod]; is && now.Sub(since) > lately {
			delete(a.since, pod)
		}
	}
}

// lately is how long the pods that a round reads may lack one that a watch event has shown.
const lately = time.Minute

// before returns the pods that are unschedulable since before a moment.
func (a *arrivals) before(moment time.Time) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]bool{}
	for pod, since := range a.since {
		if since.Before(moment) {
			all[pod] = true
		}
	}
	return all
}
