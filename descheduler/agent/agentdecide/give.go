package agentdecide

import (
	"fmt"

	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// Give is the action of a target that gives its checkpoint to the container runtime, which starts it.
const Give Action = "Give"

// Asked is what the agent observes when the container runtime asks for the checkpoint of a container that it creates.
type Asked struct {
	// Known: the ledger has an entry for the pod. The other fields follow from it.
	Known bool
	// Same: the container has the name of the one that moves.
	Same bool
	// Stage is how far the state has come.
	Stage terms.Stage
	// Busy is the running action, or Nothing.
	Busy Action
	// GivenTo is the ID of the container that got the checkpoint, and ID that of the container that is created.
	GivenTo, ID string
}

// GiveDecision is to refuse, to give, or to wait.
type GiveDecision struct {
	// Refuse says why the container must not start.
	Refuse string
	// Give is true if it gets the checkpoint.
	Give bool
}

// ForRuntime decides for the agent of the target node.
func ForRuntime(a Asked) GiveDecision {
	switch {
	case !a.Known || a.Stage == terms.Removed:
		return GiveDecision{Refuse: "the migration of this pod has ended: its container does not start"}
	case !a.Same:
		return GiveDecision{Refuse: "the migration of this pod moves another container"}
	case a.GivenTo != "" && a.GivenTo != a.ID:
		return GiveDecision{Refuse: fmt.Sprintf("container %s already continues from the checkpoint, and no checkpoint is restored twice", a.GivenTo)}
	}
	return GiveDecision{Give: a.Stage == terms.Staged && a.Busy == Nothing}
}
