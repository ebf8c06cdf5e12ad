package fleet

import (
	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// quota is a copy of what the provider still allows for, nil if it sets no bounds.
func (r *round) quota() *provider.Quota {
	if r.self.inventory.Quota == nil {
		return nil
	}
	q := *r.self.inventory.Quota
	return &q
}

// underQuota lowers limits to a quota. Plans reckon with what pods can use of machines,
// which is less than what counts against the quota: orders look at that again.
func underQuota(left planner.Limits, q *provider.Quota) planner.Limits {
	if q == nil {
		return left
	}
	left.Machines = int(lower(int64(left.Machines), int64(q.Machines)))
	left.MilliCPU, left.MemoryBytes = lower(left.MilliCPU, q.MilliCPU), lower(left.MemoryBytes, q.MemoryBytes)
	return left
}

// lower returns the lesser of a limit, of which 0 is none, and a quota, of which less
// than 0 is none.
func lower(limit, quota int64) int64 {
	switch {
	case quota < 0:
		return limit
	case quota == 0:
		return -1
	case limit == 0:
		return quota
	}
	return min(limit, quota)
}

// exhaustedQuota says what of a quota is used up, or returns "".
func exhaustedQuota(q *provider.Quota) string {
	switch {
	case q == nil:
	case q.Machines == 0:
		return "the limit of the cloud project on machines is reached"
	case q.MilliCPU == 0:
		return "the limit of the cloud project on CPUs is reached"
	case q.MemoryBytes == 0:
		return "the limit of the cloud project on memory is reached"
	}
	return ""
}
