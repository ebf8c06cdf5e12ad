// Package profilerdecide determines which machine types to probe next, on which nodes, and which probes to
// cancel. It is pure.
//
// A probe starts in two steps. First an empty node is reserved, so that the scheduler binds no
// more pods to it. When the scheduler has had time to see that and the node is still empty, the
// Job is created. The progress is read from the observed state, so a decision can be carried out
// in part, or twice.
package profilerdecide

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Limits configures decisions.
type Limits struct {
	// Inactive is why reservations and Jobs are only reported; "" if they are made.
	Inactive string
	// AtOnce is the maximum number of machine types to probe at the same time, at least 1.
	AtOnce int
	// Settle is how long a node must have been reserved before the Job is created, because the
	// scheduler may have chosen the node for a pod just before.
	Settle time.Duration
	// Backoff is the wait after a failure. It doubles with each further failure, up to
	// MostBackoff.
	Backoff, MostBackoff time.Duration
}

// Node is a node of a machine type.
type Node struct {
	Name string
	// Closed is why no probe may start on the node, even if it is empty; "" if one may.
	Closed string
	// Busy is a pod on the node, or bound to it, other than the probe's and those that run on
	// every node; "" if there is none.
	Busy string
	// Wanted is a pending pod for which the node has room, or would have without the probe; "" if
	// there is none. Unclear means that it is unknown which nodes suit that pod.
	Wanted  string
	Unclear bool
	// Reserved is when it was reserved for a probe; zero if it is not.
	Reserved time.Time
	// Hardware is the fingerprint of its hardware; "" if its agent does not report it.
	Hardware string
	// Small is why it has no room for a probe; "" if it has.
	Small string
}

// State is the state of a Job.
type State int

// The states.
const (
	Running State = iota
	Succeeded
	Failed
	Leaving // it was deleted, and its pod is not gone yet
)

// Job is the Job of a probe.
type Job struct {
	State State
	// Node is the node that it runs on, and Hardware the fingerprint of that.
	Node, Hardware string
	// Failure is why it failed.
	Failure string
}

// Type is the observed state of a machine type.
type Type struct {
	Name string
	// Hardware is the fingerprint that the profile is about; "" if it is unknown.
	Hardware string
	// Probed is the fingerprint of the last complete probe; "" if there was none.
	Probed string
	// Nodes are its nodes, in any order.
	Nodes []Node
	// Job is the Job of its probe; nil if there is none.
	Job *Job
	// Failures is the number of consecutive failed probes of this hardware, and Last the time of
	// the last failure.
	Failures int
	Last     time.Time
}

// Action is the action of a step.
type Action string

// The actions.
const (
	// Nothing needs to be done; the reason says why.
	Nothing Action = ""
	// Reserve reserves the node.
	Reserve Action = "Reserve"
	// Launch creates the Job on the node.
	Launch Action = "Launch"
	// Cancel deletes the Job and frees the node.
	Cancel Action = "Cancel"
	// Collect saves the result, deletes the Job and frees the node.
	Collect Action = "Collect"
	// Fail records the failure, deletes the Job and frees the node.
	Fail Action = "Fail"
	// Free frees the node.
	Free Action = "Free"
)

// Step is the next step for one machine type.
type Step struct {
	Type   string
	Action Action
	Node   string // "" if no node is involved
	// Reason is one of the reasons above, and Message has details.
	Reason, Message string
	// Again is how soon to decide again at the latest; 0 for after a change.
	Again time.Duration
}

// Decide returns one step for each type, in order of name. The order is also that of precedence.
// It does not change its arguments.
func Decide(c Limits, types []Type, now time.Time) []Step {
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

// needs reports whether the type must be probed.
func (t *Type) needs() bool { return t.Hardware != "" && t.Probed != t.Hardware }

// withJob continues or cancels a probe.
func (c Limits) withJob(t *Type) Step {
	job := t.Job
	switch job.State {
	case Leaving:
		return Step{Action: Nothing, Node: job.Node, Reason: v1alpha1.ProfileReasonProbeStopping, Message: "the probe on node " + job.Node + " is being deleted"}
	case Succeeded:
		return Step{Action: Collect, Node: job.Node, Reason: v1alpha1.ProfileReasonProbeSucceeded, Message: "node " + job.Node + " was probed"}
	case Failed:
		return Step{Action: Fail, Node: job.Node, Reason: v1alpha1.ProfileReasonProbeFailed, Message: fmt.Sprintf("the probe on node %s failed: %s", job.Node, job.Failure)}
	}
	cancel := func(reason, format string, args ...any) Step {
		return Step{Action: Cancel, Node: job.Node, Reason: reason, Message: "the probe is cancelled: " + fmt.Sprintf(format, args...)}
	}
	at := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.Name == job.Node })
	if at < 0 {
		return cancel(v1alpha1.ProfileReasonNodeGone, "node %s no longer exists or has another machine type", job.Node)
	}
	node := &t.Nodes[at]
	switch {
	case c.Inactive != "":
		return cancel(v1alpha1.ProfileReasonNotActing, "%s", c.Inactive)
	case t.Hardware == "":
		return cancel(v1alpha1.ProfileReasonHardwareUnknown, unreported)
	case !t.needs():
		return cancel(v1alpha1.ProfileReasonProbed, probed)
	case node.Hardware == "":
		return cancel(v1alpha1.ProfileReasonOtherHardware, "node %s no longer reports its hardware", node.Name)
	case node.Hardware != job.Hardware:
		return cancel(v1alpha1.ProfileReasonOtherHardware, "the hardware of node %s has changed since the start of the probe", node.Name)
	case job.Hardware != t.Hardware:
		return cancel(v1alpha1.ProfileReasonOtherHardware, "the profile is for other hardware than that of node %s", node.Name)
	case node.Busy != "":
		return cancel(v1alpha1.ProfileReasonNodeBusy, "pod %s is on node %s too", node.Busy, node.Name)
	case node.Wanted != "":
		return cancel(v1alpha1.ProfileReasonPodsPending, "node %s: %s", node.Name, node.wanted())
	case node.Reserved.IsZero():
		return Step{Action: Reserve, Node: node.Name, Reason: v1alpha1.ProfileReasonReservationLost, Message: "node " + node.Name + " is reserved again for its probe"}
	}
	return Step{Action: Nothing, Node: node.Name, Reason: v1alpha1.ProfileReasonProbing, Message: "node " + node.Name + " is being probed"}
}

// withReservation starts the probe on the reserved node, or frees the node.
func (c Limits) withReservation(t *Type, now time.Time) Step {
	var first *Node
	for i := range t.Nodes {
		node := &t.Nodes[i]
		if !reserved(*node) {
			continue
		}
		reason, why := c.invalid(t, node)
		if first != nil && why == "" {
			reason, why = v1alpha1.ProfileReasonTooManyProbes, "another node of its machine type is reserved"
		}
		if why != "" { // one at a time
			return Step{Action: Free, Node: node.Name, Reason: reason, Message: "node " + node.Name + " is not probed: " + why, Again: time.Second}
		}
		first = node
	}
	if wait := c.Settle - now.Sub(first.Reserved); wait > 0 {
		return Step{Action: Nothing, Node: first.Name, Reason: v1alpha1.ProfileReasonNodeReserved, Message: "node " + first.Name + " is reserved for a probe", Again: wait}
	}
	return Step{Action: Launch, Node: first.Name, Reason: v1alpha1.ProfileReasonProbing, Message: "node " + first.Name + " is being probed"}
}

// invalid returns why a node cannot be probed; "" if it can.
func (c Limits) invalid(t *Type, n *Node) (reason, why string) {
	switch {
	case c.Inactive != "":
		return v1alpha1.ProfileReasonNotActing, c.Inactive
	case t.Hardware == "":
		return v1alpha1.ProfileReasonHardwareUnknown, unreported
	case !t.needs():
		return v1alpha1.ProfileReasonProbed, probed
	case n.Hardware == "":
		return v1alpha1.ProfileReasonOtherHardware, "it does not report its hardware"
	case n.Hardware != t.Hardware:
		return v1alpha1.ProfileReasonOtherHardware, "its hardware differs from that of the profile"
	case n.Busy != "":
		return v1alpha1.ProfileReasonNodeBusy, "pod " + n.Busy + " is on it"
	case n.Wanted != "":
		return v1alpha1.ProfileReasonPodsPending, n.wanted()
	case n.Closed != "":
		return v1alpha1.ProfileReasonNoEmptyNode, n.Closed
	case n.Small != "":
		return v1alpha1.ProfileReasonNoEmptyNode, n.Small
	}
	return "", ""
}

// unreported is why nothing is probed whose hardware is unknown.
const unreported = "no node agent has reported the hardware of its machines"

// probed is why nothing more is probed.
const probed = "its hardware has been probed"

// wanted describes the pending pod that may need the node.
func (n *Node) wanted() string {
	if n.Unclear {
		return "pod " + n.Wanted + " is pending, and it is unknown which nodes suit it"
	}
	return "pod " + n.Wanted + " is pending, and the node has room for it"
}

// begin selects a node for a probe: the first suitable one by name.
func (c Limits) begin(t *Type, busy int, now time.Time) Step {
	switch {
	case t.Hardware == "":
		return Step{Reason: v1alpha1.ProfileReasonHardwareUnknown, Message: unreported}
	case !t.needs():
		return Step{Reason: v1alpha1.ProfileReasonProbed, Message: probed}
	}
	if t.Failures > 0 {
		if wait := c.backoff(t.Failures) - now.Sub(t.Last); wait > 0 {
			return Step{Reason: v1alpha1.ProfileReasonBackingOff, Message: fmt.Sprintf("%s failed in a row; the next starts at %s at the earliest", plural.Form(t.Failures, "1 probe has", fmt.Sprintf("%d probes have", t.Failures)), now.Add(wait).UTC().Format(time.RFC3339)), Again: wait}
		}
	}
	if busy >= c.AtOnce {
		return Step{Reason: v1alpha1.ProfileReasonTooManyProbes, Message: plural.Form(busy, "another machine type has a probe or a reserved node", fmt.Sprintf("%d other machine types have a probe or a reserved node", busy))}
	}
	why := "the machine type has no node"
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if _, invalid := (Limits{}).invalid(t, n); invalid != "" {
			why = "node " + n.Name + ": " + invalid
			continue
		}
		if c.Inactive != "" {
			return Step{Node: n.Name, Reason: v1alpha1.ProfileReasonWouldProbe, Message: "node " + n.Name + " can be probed, but is not: " + c.Inactive}
		}
		return Step{Action: Reserve, Node: n.Name, Reason: v1alpha1.ProfileReasonNodeReserved, Message: "node " + n.Name + " is reserved for a probe", Again: c.Settle}
	}
	return Step{Reason: v1alpha1.ProfileReasonNoEmptyNode, Message: "no node can be probed: " + why}
}

// backoff returns the wait after a number of failures.
func (c Limits) backoff(failures int) time.Duration {
	wait := c.Backoff
	for range failures - 1 {
		if wait >= c.MostBackoff/2 {
			return c.MostBackoff
		}
		wait *= 2
	}
	return min(wait, c.MostBackoff)
}
