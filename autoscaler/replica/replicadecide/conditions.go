package replicadecide

import (
	"fmt"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Condition is a status condition.
type Condition struct {
	Type    string
	True    bool
	Reason  string
	Message string
}

// DesiredMetric is the external metric that a HorizontalPodAutoscaler follows in mode ViaHPA.
const DesiredMetric = "supercargo_desired_replicas"

// Autoscaler is a HorizontalPodAutoscaler that scales the target of a policy.
type Autoscaler struct {
	Name string
	// Follows reports whether it uses the external metric DesiredMetric of the policy, and of no other.
	Follows bool
	// Tolerance is the share by which it may be below the metric without following it.
	Tolerance float64
}

// OtherScalers lists the other autoscalers of a policy's target.
type OtherScalers struct {
	// Older is the policy that takes precedence for the target: the one created earlier, or the first by name if both
	// were created in the same second. It is empty if there is none. A policy that only observes never takes
	// precedence.
	Older string
	// Autoscalers are the HorizontalPodAutoscalers that scale the target.
	Autoscalers []Autoscaler
}

// Conflict returns why a policy may not scale its target. It is empty if the policy may.
func (s *OtherScalers) Conflict(mode v1alpha1.ReplicaMode) string {
	switch {
	case mode == v1alpha1.ReplicasObserve:
		return ""
	case s.Older != "":
		return fmt.Sprintf("the older ReplicaPolicy %s has the same target: delete one of the two, or set this one's mode to Observe", s.Older)
	case mode == v1alpha1.ReplicasAct && len(s.Autoscalers) > 0:
		return fmt.Sprintf("HorizontalPodAutoscaler %s scales the target: delete it, or set the policy's mode to ViaHPA and have the HorizontalPodAutoscaler follow %s", s.Autoscalers[0].Name, DesiredMetric)
	}
	return ""
}

// Tolerance returns the share by which the autoscaler that follows the policy may be below its metric without following
// it; 0 if none follows.
func (s *OtherScalers) Tolerance() float64 {
	for _, a := range s.Autoscalers {
		if a.Follows {
			return a.Tolerance
		}
	}
	return 0
}

// follower returns the HorizontalPodAutoscaler that follows the policy, or a fault if there is none.
func (s *OtherScalers) follower() (name, fault string) {
	for _, a := range s.Autoscalers {
		if a.Follows {
			return a.Name, ""
		}
	}
	if len(s.Autoscalers) > 0 {
		return "", fmt.Sprintf("HorizontalPodAutoscaler %s does not use the external metric %s of this policy alone, selected by its name", s.Autoscalers[0].Name, DesiredMetric)
	}
	return "", "no HorizontalPodAutoscaler scales the target: create one that uses the external metric " + DesiredMetric
}

// Conditions returns the conditions of a policy after an evaluation. Apart from what was missing, messages contain no
// figures that change at every evaluation.
func (p *Policy) Conditions(s *OtherScalers, out *Outcome) []Condition {
	conflict := Condition{Type: v1alpha1.PolicyConflict, Reason: v1alpha1.PolicyReasonNoOtherScaler, Message: "No HorizontalPodAutoscaler and no older ReplicaPolicy scales the target"}
	if why := s.Conflict(p.Mode); why != "" {
		conflict = Condition{Type: v1alpha1.PolicyConflict, True: true, Reason: v1alpha1.PolicyReasonAnotherScaler, Message: why}
	} else if len(s.Autoscalers) > 0 || s.Older != "" {
		conflict.Reason, conflict.Message = v1alpha1.PolicyReasonTolerated, "Another autoscaler has the same target, and this policy only observes"
		if p.Mode == v1alpha1.ReplicasViaHPA {
			conflict.Message = "A HorizontalPodAutoscaler scales the target, as the mode requires"
		}
	}
	measured := Condition{Type: v1alpha1.PolicyMeasured, True: true, Reason: v1alpha1.PolicyReasonMeasured, Message: "All measurements that the law needs are available"}
	switch {
	case out.Off:
		measured.Message = "The target is scaled to 0 replicas: the law needs no measurements"
	case out.Missing != "" && !out.Held:
		measured = Condition{Type: v1alpha1.PolicyMeasured, Reason: v1alpha1.PolicyReasonNotMeasured, Message: "The law only scales out, by the measurements that are available: " + out.Missing + withNotes(out.Notes)}
	case out.Missing != "":
		measured = Condition{Type: v1alpha1.PolicyMeasured, Reason: v1alpha1.PolicyReasonNotMeasured, Message: "The law does not use the measurements: " + out.Missing + withNotes(out.Notes)}
	}
	limited := Condition{Type: v1alpha1.PolicyLimited, Reason: v1alpha1.PolicyReasonWithinLimits, Message: "The policy wants fewer replicas than spec.maxReplicas"}
	switch {
	case out.Off:
		limited.Message = "The target is scaled to 0 replicas: the policy wants no number"
	case conflict.True:
		limited.Message = "The policy wants no number, because another autoscaler scales the target"
	case out.Replicas >= p.Max:
		limited = Condition{Type: v1alpha1.PolicyLimited, True: true, Reason: v1alpha1.PolicyReasonAtMaximum,
			Message: fmt.Sprintf("The policy wants the maximum of spec.maxReplicas, %d: more may be needed", p.Max)}
	}
	return []Condition{p.ready(s, out, conflict), measured, limited, conflict}
}

func withNotes(notes []string) (text string) {
	for _, n := range notes {
		text += "; " + n
	}
	return text
}

func (p *Policy) ready(s *OtherScalers, out *Outcome, conflict Condition) Condition {
	ready := Condition{Type: v1alpha1.PolicyReady, True: true, Reason: v1alpha1.PolicyReasonActive}
	switch {
	case conflict.True:
		return Condition{Type: v1alpha1.PolicyReady, Reason: v1alpha1.PolicyReasonConflict, Message: conflict.Message}
	case out.Off:
		return Condition{Type: v1alpha1.PolicyReady, Reason: v1alpha1.PolicyReasonScaledToZero, Message: "The target is scaled to 0 replicas and is not scaled until it has 1 or more"}
	case p.Mode == v1alpha1.ReplicasObserve:
		ready.Message = "The law decides, but does not change the target"
	case p.Mode == v1alpha1.ReplicasViaHPA:
		name, fault := s.follower()
		ready.Message = "The law decides, and HorizontalPodAutoscaler " + name + " follows"
		if fault != "" {
			ready.Reason, ready.Message = v1alpha1.PolicyReasonNoAutoscalerFollows, "The law decides, but no HorizontalPodAutoscaler follows: "+fault
		}
	default:
		ready.Message = "The law decides, and the target is scaled"
	}
	return ready
}
