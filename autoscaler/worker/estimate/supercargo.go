package estimate

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Patience is what [Supercargo] waits for, in terms of the initialisation time.
type Patience struct {
	// Payback is how long a new worker must have work for, at least, once it has come.
	Payback time.Duration
	// Hold is how long a worker stays idle before it is drained.
	Hold time.Duration
	// Warmup is how long the first tasks of a category that nobody has measured may run
	// before they are taken for long ones.
	Warmup time.Duration
}

// PatienceFor returns a quarter, a half and an eighth of an initialisation time: of six
// settings tried on eight workflows, blast.csv among them, a compromise between time and
// waste. On some of them others are better.
func PatienceFor(initTime time.Duration) Patience {
	return Patience{Payback: initTime / 4, Hold: initTime / 2, Warmup: initTime / 8}
}

// Supercargo decides like [HTA], but counts work where HTA counts tasks.
//
// Adding: the window is one initialisation time and Payback. Tasks that no worker there
// has even begun by its end are work for new ones: as many as that work fills for the
// length of Payback, a task counting for no more than Payback, and never more than hold all
// of it at once. Long tasks each get their place, as HTA gives it to them; many short
// ones get fewer workers, which do them one after the other.
//
// Tasks of a category of which none has ended wait for Warmup, since short ones show
// themselves by then; after that they outlast the window.
//
// Draining: once a worker has been idle for Hold, nothing waits at the end of the window
// and it took nothing within it, all such workers that are idle go together: one resize
// forbids the next for a while. HTA gives them away at once, those too that still run
// something, and has to wait for new ones when the next stage begins a moment later.
//
// What [HTA] promises of limits, resizes and errors holds here too. Look again in one
// cycle, or when the next resize is allowed.
func Supercargo(c Config, s State, now time.Time) (Plan, error) {
	if err := check(c, s); err != nil {
		return Plan{}, err
	}
	patience := PatienceFor(c.InitTime)
	measured := s
	measured.Waiting = measuredOnly(s, patience.Warmup)
	o := Foresee(measured, c.InitTime+patience.Payback)
	p, most := outset(c, s, o)
	switch wait := settling(c, s, now); {
	case wait > 0:
		p.LookAgain = wait
		p.Reason = fmt.Sprintf("resized less than one initialisation time (%v) ago; %s", c.InitTime, p.prospects())
	case s.serving() < c.Min || s.serving() > c.Max:
		p.restore(c, s)
	case p.Waiting > 0:
		p.add(c, s, filled(o.Waiting, c.Worker, most, patience.Payback))
	case len(measured.Waiting) < len(s.Waiting):
		p.Reason = fmt.Sprintf("tasks of unmeasured categories are waiting: short ones finish within %v", patience.Warmup)
	default:
		p.drain(idleLong(measured, o, patience.Hold), s.serving()-c.Min)
	}
	return p, nil
}

// measuredOnly is the queue without the tasks of categories of which none has ended and
// none has run for as long as warmup. They are no reason for a worker yet, but for the
// first of the pool.
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

// filled is how many workers the tasks fill for a time, most at the utmost.
func filled(waiting []Batch, worker Resources, most int, d time.Duration) int {
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
	if all == 0 {
		return most // tasks that need nothing, or none that a worker holds
	}
	n, _ := Require(waiting, worker, math.MaxInt)
	return min(most, int(math.Ceil(float64(n)*within/all)))
}

// idleLong names the workers that are idle and take nothing of the queue within the window,
// if one of them has been idle for so long.
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
