package estimate

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Patience has the waiting times of [Supercargo], derived from the initialisation time.
type Patience struct {
	// Payback is the minimum time for which a new worker must have work once it has started.
	Payback time.Duration
	// Hold is how long a worker stays idle before it is drained.
	Hold time.Duration
	// Warmup is how long the first tasks of an unmeasured category may run before they count as long.
	Warmup time.Duration
}

// PatienceFor returns a quarter, a half and an eighth of an initialisation time: of six settings tried on eight
// workflows, including blast.csv, the best compromise between time and waste. Some workflows do better with others.
func PatienceFor(initTime time.Duration) Patience {
	return Patience{Payback: initTime / 4, Hold: initTime / 2, Warmup: initTime / 8}
}

// Supercargo decides like [HTA], but counts work instead of tasks.
//
// Adding: the window is one initialisation time plus Payback. Tasks that no present worker has started by its end are
// work for new workers: as many as that work fills for Payback, with each task counting for at most Payback, and at
// most as many as hold all of it concurrently. Long tasks each get a place, as in HTA; many short tasks get fewer
// workers, which run them one after the other.
//
// Tasks of a category of which none has ended wait for Warmup, since short ones end by then; after that they count as
// outlasting the window.
//
// Draining: a worker is drainable if it is idle and takes nothing within the window, and nothing waits at its end. Once
// one such worker has been idle for Hold, all of them are drained together, because one resize delays the next. HTA
// drains them at once, including workers that still run something, and has to wait for new ones if the next stage
// starts a moment later.
//
// The guarantees of [HTA] on limits, resizes and errors hold here too. Recheck is one cycle, or the time until the
// next resize is allowed.
func Supercargo(c Pool, s State, now time.Time) (Plan, error) {
	if err := check(c, s); err != nil {
		return Plan{}, err
	}
	patience := PatienceFor(c.InitTime)
	measured := s
	measured.Waiting = measuredOnly(s, patience.Warmup)
	o := Foresee(measured, c.InitTime+patience.Payback)
	p := outset(c, s, o)
	p.unmeasured(countOf(s.Waiting) - countOf(measured.Waiting))
	wanted := filled(o.Waiting, c.Worker, patience.Payback)
	p.Limited = wanted > c.room(s)
	switch wait := settling(c, s, now); {
	case wait > 0:
		p.Recheck = wait
		p.settle(c)
	case s.serving() < c.Min || s.serving() > c.Max:
		p.restore(c, s)
	case p.Waiting > 0:
		p.add(c, s, wanted)
	case len(measured.Waiting) < len(s.Waiting):
		p.Reason = fmt.Sprintf("tasks of unmeasured categories are waiting: short ones finish within %v", patience.Warmup)
	default:
		p.drain(c, s, idleLong(measured, o, patience.Hold))
	}
	return p, nil
}

// measuredOnly returns the queue without the tasks of categories of which none has ended and none has run for warmup.
// They do not justify a worker yet, except for the first one of the pool.
func measuredOnly(s State, warmup time.Duration) []Batch {
	ran := map[string]time.Duration{}
	busy := false
	for i := range s.Workers {
		for _, r := range s.Workers[i].Running {
			ran[r.Category] = max(ran[r.Category], r.Ran)
		}
		busy = busy || !s.Workers[i].Draining
	}
	if !busy {
		return s.Waiting
	}
	isTooSoon := func(b Batch) bool {
		if b.Runtime != Unknown {
			return false
		}
		longest, runs := ran[b.Category]
		return runs && longest < warmup
	}
	if !slices.ContainsFunc(s.Waiting, isTooSoon) {
		return s.Waiting
	}
	return slices.DeleteFunc(slices.Clone(s.Waiting), isTooSoon)
}

// unmeasured counts n tasks of unmeasured categories that do not justify workers yet.
func (p *Plan) unmeasured(n int) {
	p.Uncounted += n
	p.Reason = p.prospects()
}

// filled returns how many workers the tasks fill for d.
func filled(waiting []Batch, worker Resources, d time.Duration) int {
	all, within := 0.0, 0.0
	for i := range waiting {
		b := &waiting[i]
		if !b.Need.Fits(worker) {
			continue
		}
		share := float64(b.Need.Share(worker) * float64(b.Count))
		all += share
		within += float64(share * min(1, b.Runtime.Seconds()/d.Seconds()))
	}
	n, _ := Require(waiting, worker, math.MaxInt)
	if all == 0 {
		return n // tasks that need nothing, or that fit no worker
	}
	return int(math.Ceil(float64(n) * within / all))
}

// idleLong returns the workers that are idle and take nothing from the queue within the window, if one of them has been
// idle for d.
func idleLong(s State, o Outlook, d time.Duration) []string {
	var names []string
	long := false
	for i, p := range o.Workers {
		if w := &s.Workers[i]; !w.Draining && w.ReadyIn == 0 && len(w.Running) == 0 && p.Took == 0 {
			names = append(names, w.Name)
			long = long || w.IdleFor >= d
		}
	}
	if !long {
		return nil
	}
	return names
}
