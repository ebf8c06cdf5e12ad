// Package decide says which machine types are probed next, on which nodes, and which
// probes are cancelled. It is pure.
//
// A probe is begun in two steps: an empty node is reserved, so that the scheduler sends no
// more pods there, and when it has had time to learn of that and the node is still empty,
// the Job is made. What is seen of the cluster says how far it has come, so a decision
// can be carried out in part, or twice.
package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Config bounds what is done.
type Config struct {
	// Act says that nodes may be reserved and Jobs be made; else it is only said which.
	Act bool
	// AtOnce is how many machine types are probed at the same time, at least 1.
	AtOnce int
	// Settle is how long a node must have been reserved before the Job is made: the
	// scheduler may have chosen it for a pod just before.
	Settle time.Duration
	// Backoff is how long is waited after a failure, twice as long after each further one,
	// up to MostBackoff.
	Backoff, MostBackoff time.Duration
}

// Node is a node of a machine type.
type Node struct {
	Name string
	// Closed is why no probe may begin there, whoever it is empty of; "" if it may.
	Closed string
	// Busy is a pod on it, or on its way there, that is not the probe's and is not on every
	// node; "" if there is none.
	Busy string
	// Wanted is a pod that waits for room that the node has, or would have without the
	// probe; "" if there is none.
	Wanted string
	// Reserved is since when it is reserved for a probe; zero if it is not.
	Reserved time.Time
	// Hardware is the fingerprint of what it is made of; "" if its agent does not say.
	Hardware string
	// Small is why it has no room for a probe, "" if it has.
	Small string
}

// State is how far a Job is.
type State int

// The states.
const (
	Running State = iota
	Succeeded
	Failed
	Leaving // it has been deleted, and its pod has not gone yet
)

// Job is that of a probe.
type Job struct {
	State State
	// Node is where it runs, Hardware of which fingerprint.
	Node, Hardware string
	// Failure is why it failed.
	Failure string
}

// Type is what is known of a machine type.
type Type struct {
	Name string
	// Hardware is the fingerprint that the profile is about: "" if that is not known yet.
	Hardware string
	// Probed is the fingerprint of the last complete probe; "" if there was none.
	Probed string
	// Nodes are its nodes, in any order.
	Nodes []Node
	// Job is that of its probe, nil if there is none.
	Job *Job
	// Failures is how many probes of this hardware have failed in a row, and Last when the
	// last did.
	Failures int
	Last     time.Time
}

// Action is what to do about a type.
type Action string

// The actions.
const (
	// Nothing needs to be done; the reason says why.
	Nothing Action = ""
	// Reserve the node.
	Reserve Action = "Reserve"
	// Launch the Job on the node.
	Launch Action = "Launch"
	// Cancel deletes the Job and frees the node.
	Cancel Action = "Cancel"
	// Collect the result, delete the Job and free the node.
	Collect Action = "Collect"
	// Fail remembers the failure, deletes the Job and frees the node.
	Fail Action = "Fail"
	// Free the node.
	Free Action = "Free"
)

// The reasons, as conditions, Events and metrics have them.
const (
	ReasonProbed     = "Probed"
	ReasonUnknown    = "HardwareUnknown"
	ReasonObserve    = "WouldProbe"
	ReasonOthers     = "TooManyProbes"
	ReasonBackoff    = "BackingOff"
	ReasonNoNode     = "NoEmptyNode"
	ReasonReserved   = "NodeReserved"
	ReasonProbing    = "Probing"
	ReasonLeaving    = "ProbeStopping"
	ReasonWanted     = "PodsPending"
	ReasonBusy       = "NodeBusy"
	ReasonNodeGone   = "NodeGone"
	ReasonOff        = "NotActing"
	ReasonHardware   = "OtherHardware"
	ReasonSucceeded  = "ProbeSucceeded"
	ReasonFailed     = "ProbeFailed"
	ReasonUnreserved = "ReservationLost"
)

// Step is what to do about one machine type.
type Step struct {
	Type   string
	Action Action
	Node   string // "" where none is concerned
	// Reason is one of the reasons, Message says more.
	Reason, Message string
	// Again is when to look again at the latest, 0 for when something changes.
	Again time.Duration
}

// Decide returns one step for each type, in the order of their names, in which they are
// served too. It does not change its arguments.
func Decide(c Config, types []Type, now time.Time) []Step {
	types = slices.Clone(types)
	slices.SortFunc(types, func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	busy := 0
	for i := range types {
		if types[i].Job != nil || slices.ContainsFunc(types[i].Nodes, reserved) {
			busy++
		}
	}
	steps := make([]Step, 0, len(types))
	for i := range types {
		t := &types[i]
		t.Nodes = slices.Clone(t.Nodes)
		slices.SortFunc(t.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
		var s Step
		switch {
		case t.Job != nil:
			s = c.withJob(t)
		case slices.ContainsFunc(t.Nodes, reserved):
			s = c.withReservation(t, now)
		default:
			if s = c.begin(t, busy, now); s.Action == Reserve {
				busy++
			}
		}
		s.Type = t.Name
		steps = append(steps, s)
	}
	return steps
}

func reserved(n Node) bool { return !n.Reserved.IsZero() }

// needs reports whether the type is to be probed.
func (t *Type) needs() bool { return t.Hardware != "" && t.Probed != t.Hardware }

// withJob continues with a probe or gives it up.
func (c Config) withJob(t *Type) Step {
	job := t.Job
	switch job.State {
	case Leaving:
		return Step{Action: Nothing, Node: job.Node, Reason: ReasonLeaving, Message: "the probe on node " + job.Node + " is leaving"}
	case Succeeded:
		return Step{Action: Collect, Node: job.Node, Reason: ReasonSucceeded, Message: "node " + job.Node + " was probed"}
	case Failed:
		return Step{Action: Fail, Node: job.Node, Reason: ReasonFailed, Message: fmt.Sprintf("the probe on node %s failed: %s", job.Node, job.Failure)}
	}
	cancel := func(reason, format string, args ...any) Step {
		return Step{Action: Cancel, Node: job.Node, Reason: reason, Message: "the probe is cancelled: " + fmt.Sprintf(format, args...)}
	}
	at := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.Name == job.Node })
	if at < 0 {
		return cancel(ReasonNodeGone, "node %s is no longer there or of another machine type", job.Node)
	}
	node := &t.Nodes[at]
	switch {
	case !c.Act:
		return cancel(ReasonOff, "--probing is not Act")
	case !t.needs():
		return cancel(ReasonProbed, "nothing is to be probed any more")
	case node.Hardware != job.Hardware || job.Hardware != t.Hardware:
		return cancel(ReasonHardware, "node %s has other hardware than when it began", node.Name)
	case node.Busy != "":
		return cancel(ReasonBusy, "pod %s is on node %s too", node.Busy, node.Name)
	case node.Wanted != "":
		return cancel(ReasonWanted, "pod %s waits for room that node %s has", node.Wanted, node.Name)
	case node.Reserved.IsZero():
		return Step{Action: Reserve, Node: node.Name, Reason: ReasonUnreserved, Message: "node " + node.Name + " is reserved again for its probe"}
	}
	return Step{Action: Nothing, Node: node.Name, Reason: ReasonProbing, Message: "node " + node.Name + " is being probed"}
}

// withReservation has a probe begin on the reserved node, or frees it.
func (c Config) withReservation(t *Type, now time.Time) Step {
	var first *Node
	for i := range t.Nodes {
		node := &t.Nodes[i]
		if !reserved(*node) {
			continue
		}
		reason, why := c.invalid(t, node)
		if first != nil && why == "" {
			reason, why = ReasonOthers, "another node of its machine type is reserved"
		}
		if why != "" { // one after the other
			return Step{Action: Free, Node: node.Name, Reason: reason, Message: "node " + node.Name + " is not probed: " + why, Again: time.Second}
		}
		first = node
	}
	if wait := c.Settle - now.Sub(first.Reserved); wait > 0 {
		return Step{Action: Nothing, Node: first.Name, Reason: ReasonReserved, Message: "node " + first.Name + " is reserved for a probe", Again: wait}
	}
	return Step{Action: Launch, Node: first.Name, Reason: ReasonProbing, Message: "node " + first.Name + " is being probed"}
}

// invalid says why nothing comes of a reservation, or returns "".
func (c Config) invalid(t *Type, n *Node) (reason, why string) {
	switch {
	case !c.Act:
		return ReasonOff, "--probing is not Act"
	case !t.needs():
		return ReasonProbed, "nothing is to be probed any more"
	case n.Hardware != t.Hardware:
		return ReasonHardware, "it has other hardware than the profile"
	case n.Busy != "":
		return ReasonBusy, "pod " + n.Busy + " is on it"
	case n.Wanted != "":
		return ReasonWanted, "pod " + n.Wanted + " waits for room that it has"
	case n.Closed != "":
		return ReasonNoNode, n.Closed
	case n.Small != "":
		return ReasonNoNode, n.Small
	}
	return "", ""
}

// begin chooses a node for a probe: the first by name that will do.
func (c Config) begin(t *Type, busy int, now time.Time) Step {
	switch {
	case t.Hardware == "":
		return Step{Reason: ReasonUnknown, Message: "no node agent says what its machines are made of"}
	case !t.needs():
		return Step{Reason: ReasonProbed, Message: "its hardware has been probed"}
	}
	if t.Failures > 0 {
		if wait := c.backoff(t.Failures) - now.Sub(t.Last); wait > 0 {
			return Step{Reason: ReasonBackoff, Message: fmt.Sprintf("%d probes have failed in a row; the next is at %s", t.Failures, now.Add(wait).UTC().Format(time.RFC3339)), Again: wait}
		}
	}
	if busy >= c.AtOnce {
		return Step{Reason: ReasonOthers, Message: fmt.Sprintf("%d other machine types are being probed", busy)}
	}
	why := "it has no node"
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if _, invalid := (Config{Act: true}).invalid(t, n); invalid != "" {
			why = "node " + n.Name + ": " + invalid
			continue
		}
		if !c.Act {
			return Step{Node: n.Name, Reason: ReasonObserve, Message: "node " + n.Name + " would be probed if --probing were Act"}
		}
		return Step{Action: Reserve, Node: n.Name, Reason: ReasonReserved, Message: "node " + n.Name + " is reserved for a probe", Again: c.Settle}
	}
	return Step{Reason: ReasonNoNode, Message: "no node can be probed: " + why}
}

// backoff is how long is waited after so many failures.
func (c Config) backoff(failures int) time.Duration {
	wait := c.Backoff
	for range failures - 1 {
		if wait >= c.MostBackoff/2 {
			return c.MostBackoff
		}
		wait *= 2
	}
	return min(wait, c.MostBackoff)
}
