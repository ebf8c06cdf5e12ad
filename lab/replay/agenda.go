package replay

import (
	"cmp"
	"container/heap"
	"time"
)

// verb is what an entry of the agenda asks for.
type verb int

const (
	createPod verb = iota
	deletePod
	endWindow // stop measuring and begin to clean up
	giveUp    // stop cleaning up
	look      // report progress
)

// entry is one thing to do at a time.
type entry struct {
	at   time.Time
	verb verb
	pod  int // index, for createPod and deletePod
	// restarts is how often the pod had been restarted when its end was planned: the end
	// of a pod that has been replaced since means nothing to its successor.
	restarts int
}

// agenda is a heap of entries: the earliest first; of one moment by verb, then
// by pod.
type agenda []entry

var _ heap.Interface = (*agenda)(nil)

// Len is part of [heap.Interface].
func (a agenda) Len() int { return len(a) }

// Less is part of [heap.Interface].
func (a agenda) Less(i, j int) bool {
	return cmp.Or(a[i].at.Compare(a[j].at), cmp.Compare(a[i].verb, a[j].verb), cmp.Compare(a[i].pod, a[j].pod)) < 0
}

// Swap is part of [heap.Interface].
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push is part of [heap.Interface].
func (a *agenda) Push(x any) { *a = append(*a, x.(entry)) }

// Pop is part of [heap.Interface].
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// add notes one thing to do.
func (a *agenda) add(e entry) { heap.Push(a, e) }

// due removes and returns the next entry if its time has come.
func (a *agenda) due(now time.Time) (entry, bool) {
	if len(*a) == 0 || (*a)[0].at.After(now) {
		return entry{}, false
	}
	return heap.Pop(a).(entry), true
}

// wait returns how long nothing is due, at most most.
func (a agenda) wait(now time.Time, most time.Duration) time.Duration {
	if len(a) == 0 {
		return most
	}
	return max(0, min(most, a[0].at.Sub(now)))
}
