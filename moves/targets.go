package moves

import (
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// targets orders the rooms that accept pods by preference, so that the best one for a pod is found without a check of all
// rooms. It follows the rooms: whoever changes one calls touch.
//
// Cost: that of [packing.Index]. A pod that other constraints keep off the preferred rooms costs one check for each.
type targets struct {
	rooms map[string]*room
	fit   *packing.Index
	// bins has the rooms by time bin; nil if all are in one.
	bins *packing.Index
	// stale are the rooms that have changed since the last search, isStale whether a room is one of them, by its index in
	// the state.
	stale   []*room
	isStale []bool
}

// begun is the time from which the index counts remaining runtimes.
var begun = time.Unix(0, 0)

// newTargets returns the rooms of a round.
func newTargets(r *planning) *targets {
	t := &targets{rooms: r.byName, fit: packing.NewIndex(0, begun), isStale: make([]bool, len(r.state.Nodes))}
	if r.config.Cycle > 0 {
		t.bins = packing.NewIndex(r.config.Cycle, begun)
	}
	for _, to := range r.rooms {
		t.touch(to)
	}
	return t
}

// touch notes that a room has changed.
func (t *targets) touch(to *room) {
	if t != nil && !t.isStale[to.at] {
		t.isStale[to.at] = true
		t.stale = append(t.stale, to)
	}
}

// refresh files the rooms that have changed.
func (t *targets) refresh() {
	for _, to := range t.stale {
		t.isStale[to.at] = false
		t.file(t.fit, to)
		if t.bins != nil {
			t.file(t.bins, to)
		}
	}
	t.stale = t.stale[:0]
}

func (t *targets) file(in *packing.Index, to *room) {
	if !to.accepts() {
		in.Remove(to.Name)
		return
	}
	in.Put(packing.IndexedNode{Name: to.Name, Free: to.Free, Finish: begun.Add(to.Remaining)})
}

// target returns the best room for the pod, or nil. retriable means that there is a room that only constraints between
// pods reject.
func (t *trial) target(pod *cluster.Pod, how fillMode) (best *room, retriable bool) {
	if t.targets == nil {
		t.targets = newTargets(t.planning)
	}
	t.targets.refresh()
	in, runtime := t.targets.fit, time.Duration(0)
	if pod.Class == class.Batch && t.targets.bins != nil {
		in, runtime = t.targets.bins, pod.Runtime
	}
	for n := range in.Fitting(pod.Size, runtime) {
		to := t.targets.rooms[n.Name]
		if !to.holds(pod) || !t.rules.suits(pod, to) || how == withinStay && t.until(pod) > to.stay {
			continue
		}
		if t.rules.conflict(pod, to.at) == "" {
			return to, false
		}
		retriable = true
	}
	return nil, retriable
}

// setLeaving records whether a node is being drained or released.
func (r *planning) setLeaving(from *room, leaving bool) {
	from.leaving = leaving
	r.targets.touch(from)
}
