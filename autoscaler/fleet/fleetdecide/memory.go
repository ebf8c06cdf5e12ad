package fleetdecide

import (
	"maps"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/moves"
)

// Memory is what a fleet remembers between rounds. All of it may be lost: then machines stay a little longer, and
// lessons about flavors and images are learned again. It is not safe for concurrent use.
type Memory struct {
	// mover tracks since when machines are under-used.
	mover *moves.Planner
	// lessons are the flavors that did not hold pods that they were ordered for.
	lessons Lessons
	// images are the images known not to run on an architecture.
	images images
	// busy is when a batch pod was last pending that will run on the fleet's machines or on an existing node: see
	// [FleetDecision].
	busy time.Time
	// onOrder are the machines that were on order in the last round, by name.
	onOrder map[string]bool
	// startup is the startup taint that the ready node of a machine still had in the last round, by machine name.
	startup map[string]string
	// overdue are the machines that have been reported late, by name.
	overdue map[string]bool
	// nominations are the pods for which machines are on order.
	nominations nominations
	// kept are the nodes that could not be drained, stillCordoned those that could not be uncordoned, by name.
	kept          map[string]kept
	stillCordoned map[string]bool
	// evicted is the outcome of evictions, by controller.
	evicted map[string]evicted
	// lost is the time since which the node of a machine has been missing, by machine.
	lost map[string]time.Time
	// decided is the time of the first decision about a pending pod, by pod name.
	decided map[string]time.Time
	// leaving is the time at which the release of a machine began, by name; ends is how long machines took from there
	// until they were gone.
	leaving map[string]time.Time
	ends    *v1alpha1.LearnedTime
	// missing holds the flavors that have fewer machines than desired.
	missing map[string]*stall
}

// NewMemory returns the memory of a new fleet. config decides which machines are under-used, backOff is that of
// [Lessons].
func NewMemory(config moves.DrainConfig, backOff time.Duration, now time.Time) *Memory {
	return &Memory{
		mover: moves.NewPlanner(config), lessons: Lessons{BackOff: backOff}, images: images{}, busy: now,
		onOrder: map[string]bool{}, overdue: map[string]bool{}, kept: map[string]kept{}, stillCordoned: map[string]bool{}, lost: map[string]time.Time{},
		evicted: map[string]evicted{},
		leaving: map[string]time.Time{}, missing: map[string]*stall{},
	}
}

// Inherit records that a process before this one ordered machines for all pods that were pending at the time before. It
// applies until those machines should have come.
func (m *Memory) Inherit(before, until time.Time) {
	m.nominations.before, m.nominations.until = before, until
}

// Lessons returns the lessons about flavors that did not hold pods.
func (m *Memory) Lessons() *Lessons { return &m.lessons }

// Ordered records that machines of a flavor have been ordered as the last round decided, so that nothing is ordered for
// their pods again.
func (m *Memory) Ordered(flavor string, now time.Time) {
	m.nominations.add(flavor, now)
}

// Abandoned records that the round's decisions about machines that did not come are carried out.
func (m *Memory) Abandoned(all []Abandonment) {
	for i := range all {
		a := &all[i]
		for _, name := range a.Overdue {
			m.overdue[name] = true
		}
		if a.Missing > 0 {
			delete(m.missing, a.Flavor)
		}
		if a.frees() {
			m.nominations.end(a.Flavor)
		}
	}
}

// Uncordoned records whether a node could be uncordoned. Orders do not count on a node that could not.
func (m *Memory) Uncordoned(node string, done bool) {
	if done {
		delete(m.stillCordoned, node)
	} else {
		m.stillCordoned[node] = true
	}
}

// forget drops the memory of machines and nodes that no longer exist.
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
