package fleetdecide

import "time"

// Gather returns how long to wait for more pods before buying machines for the pending ones: until no pod has arrived
// for idle, but no longer than most after the first. waited holds the times since which the pods have been pending.
func Gather(now time.Time, waited []time.Time, idle, most time.Duration) time.Duration {
	return max(0, GatherEnd(waited, idle, most).Sub(now))
}

// GatherEnd returns the time at which gathering ends; the zero time if no pod is pending.
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
