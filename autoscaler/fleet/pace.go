package fleet

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
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
	// owed are pods whose machines could not be ordered, and owedSince is when they were due.
	owed      map[string]bool
	owedSince time.Time
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
