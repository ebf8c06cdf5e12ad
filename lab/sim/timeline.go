package sim

import (
	"cmp"
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
	e.events.Push(ev)
}

// earlier orders events.
func earlier(a, b event) bool {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.sequence, b.sequence)) < 0
}
