package fleet

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/autoscaler/fleet/decide"
)

// settling is how long events are gathered before a round begins. After a round its fleet rests
// for as long as that took, within leastRest and mostRest: a round reads all machines from the
// API server. What ends the gathering of pods begins at that moment, whatever was before.
const (
	settling            = 20 * time.Millisecond
	leastRest, mostRest = 100 * time.Millisecond, time.Second
)

// pace is how soon the next round of a fleet may begin. What is not atomic is for one
// goroutine at a time.
type pace struct {
	fleet        types.UID
	began, ended time.Time // the last round
	// decided is when it was last decided which machines to buy, idle and most are for how long
	// pods are gathered, and gathered is when the last round was going to have enough of them; zero
	// if it waited for none.
	decided, gathered time.Time
	idle, most        time.Duration
	// owed are pods whose machines could not be ordered, and since when they were to be.
	owed      map[string]bool
	owedSince time.Time
	// anew says that the last round is to be followed at once by another, because somebody else
	// has changed what it was for. That is not done twice in a row: followed says that it was.
	anew, followed bool
	// left says that the last round has left to the next what can wait, and hurried that the one
	// before did: that is not done twice in a row either.
	left    atomic.Bool
	hurried bool
	// woken says that the answer has come that rounds were waiting for.
	woken atomic.Bool
}

// wait returns how long a round has to wait that could begin now. due is when pods will have
// been gathered; zero if there are none. One that would still run then waits for that.
func (p *pace) wait(now, due time.Time) time.Duration {
	if p.woken.Load() || p.anew {
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

// begin notes that a round begins.
func (p *pace) begin(now time.Time) {
	p.began, p.followed, p.anew = now, p.anew, false
	p.hurried = p.left.Swap(false)
	p.woken.Store(false)
}

// changed has the next round follow at once.
func (p *pace) changed() { p.anew = !p.followed }

// due returns when the pods will have been gathered that have come since it was last decided
// what to buy; zero if there are none. Pods that are not for the fleet may be among them.
func (r *Reconciler) due(p *pace) time.Time {
	end := decide.GatherEnd(r.arrivals.after(p.decided), p.idle, p.most)
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
