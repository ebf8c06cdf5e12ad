package decide

import "time"

// Gather returns how long to wait for more pods before machines are bought for those
// that wait: until no further one has come for idle, but no pod is kept waiting for
// longer than most. waited are since when they wait.
func Gather(now time.Time, waited []time.Time, idle, most time.Duration) time.Duration {
	if len(waited) == 0 {
		return 0
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
	return max(0, until.Sub(now))
}
