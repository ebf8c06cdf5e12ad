package fleet

import "time"

// batch returns how long to wait for more pods before machines are bought for those
// that wait. waited are since when they wait.
func batch(now time.Time, waited []time.Time, idle, most time.Duration) time.Duration {
	return max(0, batchEnd(waited, idle, most).Sub(now))
}

// batchEnd returns when enough pods have been waited for: no further one has come for idle,
// but no pod is kept waiting for longer than most. It is the zero time if none waits.
func batchEnd(waited []time.Time, idle, most time.Duration) time.Time {
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

// gather returns for how long more pods are awaited, and notes when that ends. Pods that
// were there when machines were last decided about are not waited with: those that are still
// pending are what the decision left so.
func (r *round) gather() time.Duration {
	m := r.memory
	var fresh []time.Time
	for _, since := range r.seen.waited {
		if since.After(m.decided) {
			fresh = append(fresh, since)
		}
	}
	scaling := &r.fleet.Spec.Scaling
	r.gathered = batchEnd(fresh, scaling.BatchIdle.Duration, scaling.BatchMax.Duration)
	wait := max(0, r.gathered.Sub(r.now))
	if wait > 0 {
		r.again = min(r.again, wait)
		r.pace[r.fleet.Name].due = r.gathered
	} else {
		m.decided = r.now
	}
	return wait
}
