package karpenter

import (
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
)

// window batches pending pods. A pod that becomes pending opens the window, or extends it if it is open. A pod that is
// still pending does so again each time the duration again has passed. The window closes when nothing has extended it
// for idle, and at the latest most after it opened.
type window struct {
	idle, most time.Duration
	// again is the time after which a pod that is still pending opens or extends the window again.
	again time.Duration

	seen         map[string]time.Time // when each pending pod last opened or extended the window, by name
	opened, last time.Time            // opened is zero while the window is closed
}

// observe records the pending pods. It reports whether the window has closed since the last call, and the time until the
// next change: 0 if no pod is pending and the window is closed.
//
// Cost: O(p log p) for p pending pods.
func (w *window) observe(now time.Time, pending []cluster.Pod) (closes bool, wait time.Duration) {
	seen := make(map[string]time.Time, len(pending))
	var extends []time.Time
	var next time.Time
	for i := range pending {
		p := &pending[i]
		since := now.Add(-p.Waited)
		at, known := w.seen[p.Name]
		switch {
		case !known || since.After(at):
			at = since
			extends = append(extends, at)
		case !at.Add(w.again).After(now):
			at = at.Add(w.again)
			extends = append(extends, at)
		}
		seen[p.Name] = at
		next = earlier(next, at.Add(w.again))
	}
	w.seen = seen
	slices.SortFunc(extends, time.Time.Compare)
	for _, at := range extends {
		closes = w.close(at) || closes
		w.extend(at)
	}
	closes = w.close(now) || closes
	if !w.opened.IsZero() {
		next = earlier(next, w.end())
	}
	if next.IsZero() {
		return closes, 0
	}
	return closes, max(next.Sub(now), 1)
}

func (w *window) extend(at time.Time) {
	if w.opened.IsZero() {
		w.opened = at
	}
	w.last = at
}

// end returns the time at which an open window closes.
func (w *window) end() time.Time { return earlier(w.last.Add(w.idle), w.opened.Add(w.most)) }

func (w *window) close(now time.Time) bool {
	if w.opened.IsZero() || w.end().After(now) {
		return false
	}
	w.opened, w.last = time.Time{}, time.Time{}
	return true
}

// earlier returns the earlier of two times; it ignores a zero time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
