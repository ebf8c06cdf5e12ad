package decide

import "time"

// Gather returns how long to wait for more pods before machines are bought for those
// that wait: until no further one has come for idle, but no pod is kept waiting for
// longer than most. waited are since when they wait.
func Gather(now time.Time, waited []time.Time, idle, most time.Duration) time.Duration {
	return max(0, GatherEnd(waited, idle, most).Sub(now))
}

// GatherEnd returns when enough pods have been waited for; the zero time if none waits.
func GatherEnd(waited []time.Time, idle, most time.Duration) time.Time {
	if len(waited) == 0 {
		return time.Time{}
	}
	first, last := waited[0], waited[0]
	for _, t := range waited[1:] {
		if t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	until := last.Add(idle)
	if end := first.Add(most); end.Before(until) {
		until = end
	}
	return until
}
