package sim

import (
	"cmp"
	"time"

	"supercargo.dev/supercargo/lab/scenario"
)

// eventKind orders simultaneous events: room is freed before it is used.
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
	sequence int // creation order, the last tie-break
	pod      *scenario.Pod
	running  *running
	queued   *queued
	// generation is that of the running pod when the event was created. The event is void if the
	// pod's generation has changed.
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
