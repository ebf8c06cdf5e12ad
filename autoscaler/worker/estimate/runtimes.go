package estimate

import "time"

// Runtimes learns the runtime of a category's tasks from the last ones that ended, because it may change during a run.
// The zero value has no samples.
type Runtimes struct {
	recent [32]time.Duration
	n      int // total number of samples
}

// Observe adds the runtime of a task that has ended.
func (r *Runtimes) Observe(d time.Duration) {
	r.recent[r.n%len(r.recent)] = d
	r.n++
}

// Expect returns the expected runtime of a task, given that a running one of the same category has run for ran (0 if
// none runs): the mean of the last ones that ended, or [Unknown] if there is none.
//
// If a task has run for twice the mean, the mean is no longer trusted: that task, and the ones behind it, are expected
// to take twice the time that it has run.
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
