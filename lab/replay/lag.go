package replay

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/lab/report"
)

const (
	// lagSpan is how long ago the pods were due whose lags are reported.
	lagSpan = 3 * time.Second
	// fewestLags is the number of pods from which a lag is reported: of fewer, one pod without room would be the median.
	fewestLags = 5
)

// lags returns how far the cluster is behind the trace, as [Progress] describes it. Both are zero once the window has
// ended, because no pod is due then. Pods are in order of arrival, so that only those of the span are visited.
func (r *run) lags(now time.Duration) (create, bind time.Duration) {
	if r.result != nil {
		return 0, 0
	}
	var creates, binds []time.Duration
	first, _ := slices.BinarySearchFunc(r.pods, now-lagSpan, func(p pod, at time.Duration) int { return cmp.Compare(p.arrival, at) })
	for i := range r.pods[first:] {
		p := &r.pods[first+i]
		if p.arrival > now {
			break
		}
		if p.life == over && !p.created || p.restarts > 0 {
			continue // refused, or due again since an unknown time
		}
		created, bound := now, now
		if p.created {
			created = p.since
		}
		creates = append(creates, created-p.arrival)
		if !p.sent {
			continue
		}
		switch {
		case p.judged > 0: // it waits for room, not for the scheduler
			bound = p.judged
		case p.stay.Bound != report.Never:
			bound = p.stay.Bound
		}
		binds = append(binds, max(0, bound-p.stay.Created))
	}
	return medianLag(creates), medianLag(binds)
}

func medianLag(all []time.Duration) time.Duration {
	if len(all) < fewestLags {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
