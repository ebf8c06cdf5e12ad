package agentdecide

import (
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// Receive is the action of a target that receives an archive. The source starts it, not a
// decision.
const Receive Action = "Receive"

// Target is what the agent of the target node observes.
type Target struct {
	// Exists: the API server has the Migration, with the known UID.
	Exists bool
	// Ended: the Migration is Finished.
	Ended bool
	// Order is the Migration's order.
	Order v1alpha1.MigrationOrder
	// Reserved: the room for the new pod is reserved on this node.
	Reserved bool
	// SourceReady: the source's agent has reported its requirements and its certificate.
	SourceReady bool
	// Step is the last step that this agent reported; empty if it has not, or if the report is of
	// another node.
	Step v1alpha1.TargetStep
	// Moved: the agent's address differs from the reported one.
	Moved bool
	// Known: the ledger has an entry. Stage and Lost follow from it.
	Known bool
	// Stage is how far the state has come.
	Stage terms.Stage
	// Lost: the image was made, and no longer exists.
	Lost bool
	// Busy is the running action, or Nothing.
	Busy Action
}

// TargetDecision is an action, and for Report the step and the reason.
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
		return TargetDecision{Report, v1alpha1.TargetFailed, v1alpha1.MigrationReasonImageLost,
			"the staged checkpoint was lost: the node has restarted, or its files were removed from the agent's state folder"}
	case t.Stage == terms.Staged && t.Step != v1alpha1.TargetStaged:
		return TargetDecision{Do: Report, Step: v1alpha1.TargetStaged}
	case t.Stage == terms.Staged:
		return TargetDecision{}
	case !t.Known || t.Stage != terms.Expecting:
		if t.Step == v1alpha1.TargetStaged {
			return TargetDecision{Report, v1alpha1.TargetFailed, v1alpha1.MigrationReasonImageLost,
				"the agent's ledger was lost, so the staged image is not used: place its state folder on a persistent disk"}
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
	case t.Known && (t.Stage == terms.Expecting || t.Stage == terms.Staged):
		return TargetDecision{Do: Remove}
	case t.Exists && t.Step != "" && t.Step != v1alpha1.TargetCleaned:
		return TargetDecision{Do: Report, Step: v1alpha1.TargetCleaned}
	case t.Known:
		return TargetDecision{Do: Forget}
	case t.Exists && t.Reserved && t.Step == "" && (t.Order == v1alpha1.OrderThaw || t.Order == v1alpha1.OrderClean):
		// Nothing was ever made, but the controller waits for this node.
		return TargetDecision{Do: Report, Step: v1alpha1.TargetCleaned}
	}
	return TargetDecision{}
}
