package sim

import (
	"cmp"
	"container/heap"
	"time"

	"supercargo.dev/supercargo/lab/scenario"
)

// eventKind orders what happens at one moment: room comes free before it is asked
// for.
type eventKind int

const (
	end eventKind = iota
	expiry
	moved
	gone
	ready
	arrival
	tick
)

// event is something that happens at a moment of virtual time.
type event struct {
	at       time.Duration
	kind     eventKind
	sequence int // in the order they were made, the last tie-break
	pod      *scenario.Pod
	running  *running
	queued   *queued
	// generation is the running pod's when the event was made; the event is void
	// if the pod has another since.
	generation int
	machine    *machine
}

func (e *engine) push(ev event) {
	e.sequence++
	ev.sequence = e.sequence
	heap.Push(&e.events, ev)
}

// timeline is a heap of events, the next on top. It implements heap.Interface.
type timeline []event

func (e timeline) Len() int { return len(e) }
func (e timeline) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].kind, e[j].kind), cmp.Compare(e[i].sequence, e[j].sequence)) < 0
}
func (e timeline) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *timeline) Push(v any) { *e = append(*e, v.(event)) }

// Pop implements heap.Interface.
func (e *timeline) Pop() any {
	last := len(*e) - 1
	v := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return v
}
