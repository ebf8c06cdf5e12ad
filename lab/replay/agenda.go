package replay

import (
	"cmp"
	"time"

	"supercargo.dev/supercargo/internal/heap"
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
type agenda struct{ *heap.Heap[entry] }

func newAgenda() agenda {
	return agenda{heap.New(func(a, b entry) bool {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.verb, b.verb), cmp.Compare(a.pod, b.pod)) < 0
	}, nil)}
}

// due removes and returns the next entry if its time has come.
func (a agenda) due(now time.Time) (entry, bool) {
	if a.Len() == 0 || a.First().at.After(now) {
		return entry{}, false
	}
	return a.Pop(), true
}

// wait returns how long nothing is due, at most most.
func (a agenda) wait(now time.Time, most time.Duration) time.Duration {
	if a.Len() == 0 {
		return most
	}
	return max(0, min(most, a.First().at.Sub(now)))
}
