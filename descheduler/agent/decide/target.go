package decide

import (
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// Receive is the action of a target that takes an archive. The source starts it, not a
// decision.
const Receive Action = "Receive"

// Target is what the agent of the target node sees.
type Target struct {
	// Exists says that the API server has the Migration, with the UID that is known.
	Exists bool
	// Ended says that the Migration is Finished.
	Ended bool
	// Order is what is to be done.
	Order v1alpha1.MigrationOrder
	// Reserved says that the room for the new pod is on this node.
	Reserved bool
	// Stateless says that nothing is staged: the container is started anew.
	Stateless bool
	// SourceReady says that the source's agent has said what it needs and who it is.
	SourceReady bool
	// Step is what this agent has reported; empty if it has not, or another node's has.
	Step v1alpha1.TargetStep
	// Moved says that the agent listens elsewhere than it has reported.
	Moved bool
	// Known says that the ledger has an entry, and the rest what it says.
	Known bool
	// Prepared: there is a key, and room and the base image were found.
	Prepared bool
	// Staged: the image was made.
	Staged bool
	// Lost: the image was made, and is not there.
	Lost bool
	// Busy is the action that is under way, or Nothing.
	Busy Action
}

// TargetDecision is what to do, and the step and the reason of a report.
type TargetDecision struct {
	Do      Action
	Step    v1alpha1.TargetStep
	Reason  string
	Message string
}

// ForTarget decides for the agent of the target node.
func ForTarget(t Target) TargetDecision {
	over := !t.Exists || t.Ended || !t.Reserved || t.Order == v1alpha1.OrderThaw || t.Order == v1alpha1.OrderClean
	switch {
	case t.Stateless && !t.Known:
		return TargetDecision{}
	case over:
		return t.clean()
	case t.Busy != Nothing, t.Step == v1alpha1.TargetFailed:
		return TargetDecision{}
	case t.Order == v1alpha1.OrderPrepare, t.Order == v1alpha1.OrderFreeze:
		return t.stage()
	}
	return TargetDecision{}
}

func (t Target) stage() TargetDecision {
	switch {
	case !t.SourceReady:
		return TargetDecision{}
	case t.Lost:
		return TargetDecision{Report, v1alpha1.TargetFailed, terms.ReasonImageLost,
			"the staged image has gone: keep others from removing images that are labelled supercargo.dev/migration"}
	case t.Staged && t.Step != v1alpha1.TargetStaged:
		return TargetDecision{Do: Report, Step: v1alpha1.TargetStaged}
	case t.Staged:
		return TargetDecision{}
	case !t.Known || !t.Prepared:
		if t.Step == v1alpha1.TargetStaged {
			return TargetDecision{Report, v1alpha1.TargetFailed, terms.ReasonImageLost,
				"the agent's ledger was lost, and the staged image with it: keep its state folder on a disk"}
		}
		return TargetDecision{Do: Prepare}
	case t.Step != v1alpha1.TargetPrepared, t.Moved:
		return TargetDecision{Do: Report, Step: v1alpha1.TargetPrepared}
	}
	return TargetDecision{}
}

func (t Target) clean() TargetDecision {
	switch {
	case t.Busy == Remove || t.Busy == Forget || t.Busy == Report:
		return TargetDecision{}
	case t.Busy != Nothing:
		return TargetDecision{Do: Cancel}
	case t.Known && (t.Prepared || t.Staged):
		return TargetDecision{Do: Remove}
	case t.Exists && t.Step != "" && t.Step != v1alpha1.TargetCleaned:
		return TargetDecision{Do: Report, Step: v1alpha1.TargetCleaned}
	case t.Known:
		return TargetDecision{Do: Forget}
	case t.Exists && t.Reserved && t.Step == "" && (t.Order == v1alpha1.OrderThaw || t.Order == v1alpha1.OrderClean):
		// Nothing was ever made: whoever waits for this node should know.
		return TargetDecision{Do: Report, Step: v1alpha1.TargetCleaned}
	}
	return TargetDecision{}
}
