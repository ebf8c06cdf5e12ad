package decide

import (
	"maps"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/moves"
)

// Memory is what a fleet remembers between rounds. All of it can be lost: then machines stay
// a little longer, and what was learned of flavors and images is learned again. It is not
// safe for concurrent use.
type Memory struct {
	// mover knows since when machines are under-used.
	mover *moves.Planner
	// lessons know which flavors did not hold pods that they were ordered for.
	lessons Lessons
	// images know which images do not run on an architecture.
	images images
	// busy is when a batch pod last waited that is going to run on the fleet's machines or
	// on a node that is there: see [FleetDecision].
	busy time.Time
	// onOrder are the machines that were on their way in the last round, by name.
	onOrder map[string]bool
	// startup are the machines whose nodes were ready and had yet to lose a taint in the last
	// round, by name, with that taint.
	startup map[string]string
	// overdue are the machines that have been told to be late, by name.
	overdue map[string]bool
	// nominations are the pods for which machines are on their way.
	nominations nominations
	// kept are the nodes that could not be drained, stillCordoned those that could not be uncordoned,
	// by name.
	kept          map[string]kept
	stillCordoned map[string]bool
	// lost is since when the node of a machine has been missing, by machine.
	lost map[string]time.Time
	// decided is when pods that wait were first decided about, by name.
	decided map[string]time.Time
	// leaving is since when machines have been asked to go, by name, and ends how long machines
	// took from there until they had gone.
	leaving map[string]time.Time
	ends    *v1alpha1.LearnedTime
	// missing has the flavors that have fewer machines than they are to have.
	missing map[string]*stall
}

// NewMemory returns the memory of a fleet that begins. config says which machines are
// under-used, backOff is that of [Lessons].
func NewMemory(config moves.Config, backOff time.Duration, now time.Time) *Memory {
	return &Memory{
		mover: moves.NewPlanner(config), lessons: Lessons{BackOff: backOff}, images: images{}, busy: now,
		onOrder: map[string]bool{}, overdue: map[string]bool{}, kept: map[string]kept{}, stillCordoned: map[string]bool{}, lost: map[string]time.Time{},
		leaving: map[string]time.Time{}, missing: map[string]*stall{},
	}
}

// Inherit says that machines were ordered, before this memory began, for all pods that were
// pending at a time. That counts until those machines should have come.
func (m *Memory) Inherit(before, until time.Time) {
	m.nominations.before, m.nominations.until = before, until
}

// Lessons returns what has been learned about flavors that did not hold pods.
func (m *Memory) Lessons() *Lessons { return &m.lessons }

// Ordered says that machines of a flavor have been ordered, as the last round decided: their
// pods are not ordered for again.
func (m *Memory) Ordered(flavor string, now time.Time) {
	m.nominations.add(flavor, now)
}

// Abandoned says that what a round decided about machines that did not come is being done.
func (m *Memory) Abandoned(all []Abandonment) {
	for i := range all {
		a := &all[i]
		for _, name := range a.Overdue {
			m.overdue[name] = true
		}
		if a.Missing > 0 {
			delete(m.missing, a.Flavor)
		}
		if a.changes() {
			m.nominations.end(a.Flavor)
		}
	}
}

// Uncordoned says whether a node could be uncordoned. Orders do not count on one that could
// not.
func (m *Memory) Uncordoned(node string, done bool) {
	if done {
		delete(m.stillCordoned, node)
	} else {
		m.stillCordoned[node] = true
	}
}

// forget drops what is remembered of machines and nodes that are no more.
func (m *Memory) forget(o *Observation) {
	machines, nodes := make(map[string]bool, len(o.Machines)), make(map[string]bool, len(o.State.Nodes))
	for i := range o.Machines {
		machines[o.Machines[i].Name] = true
	}
	for i := range o.State.Nodes {
		nodes[o.State.Nodes[i].Name] = true
	}
	maps.DeleteFunc(m.overdue, func(name string, _ bool) bool { return !machines[name] })
	maps.DeleteFunc(m.lost, func(name string, _ time.Time) bool { return !machines[name] })
	maps.DeleteFunc(m.kept, func(name string, _ kept) bool { return !nodes[name] })
	maps.DeleteFunc(m.stillCordoned, func(name string, _ bool) bool { return !nodes[name] })
}
