package estimate

import "time"

// Runtimes learns how long tasks of one category run, from the last that have ended: what
// a category does may change in mid-run. The zero value knows nothing.
type Runtimes struct {
	recent [32]time.Duration
	n      int // seen in all
}

// Observe notes that a task has ended after so long.
func (r *Runtimes) Observe(d time.Duration) {
	r.recent[r.n%len(r.recent)] = d
	r.n++
}

// Expect returns how long a task runs of which one of the same category, now running, has
// run for the time given, which is 0 if none is: the mean of those that ended last, or
// [Unknown] if none has.
//
// Where a task has run for twice the mean, the mean is no longer to be trusted: it is
// expected to run as long again as it has, and so are those behind it.
func (r *Runtimes) Expect(ran time.Duration) time.Duration {
	if r == nil || r.n == 0 {
		return Unknown
	}
	sum, n := time.Duration(0), min(r.n, len(r.recent))
	for _, d := range r.recent[:n] {
		sum += d
	}
	mean := max(time.Millisecond, sum/time.Duration(n))
	if ran >= 2*mean {
		return 2 * ran
	}
	return mean
}
