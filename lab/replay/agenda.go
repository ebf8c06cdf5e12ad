package replay

import (
	"cmp"
	"time"

	"supercargo.dev/supercargo/internal/heap"
)

// verb is the action of an agenda entry.
type verb int

const (
	createPod verb = iota
	deletePod
	endWindow // stop measuring and begin to clean up
	giveUp    // stop cleaning up
	tick      // tick progress
)

// entry is an action at a time.
type entry struct {
	at   time.Time
	verb verb
	pod  int // index, for createPod and deletePod
	// restarts is the number of restarts of the pod when its end was planned. The planned end of a
	// replaced pod does not apply to its successor.
	restarts int
}

// agenda is a heap of entries, the earliest first; ties are ordered by verb, then by pod.
type agenda struct{ *heap.Heap[entry] }

func newAgenda() agenda {
	return agenda{heap.New(func(a, b entry) bool {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.verb, b.verb), cmp.Compare(a.pod, b.pod)) < 0
	}, nil)}
}

// due removes and returns the next entry if it is due.
func (a agenda) due(now time.Time) (entry, bool) {
	if a.Len() == 0 || a.First().at.After(now) {
		return entry{}, false
	}
	return a.Pop(), true
}

// wait returns the time until the next entry is due, at most most.
func (a agenda) wait(now time.Time, most time.Duration) time.Duration {
	if a.Len() == 0 {
		return most
	}
	return max(0, min(most, a.First().at.Sub(now)))
}
