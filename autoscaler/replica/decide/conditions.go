package decide

import (
	"fmt"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Condition is what a status says in a word and a sentence.
type Condition struct {
	Type    string
	True    bool
	Reason  string
	Message string
}

// WantedMetric is the name of the metric that a HorizontalPodAutoscaler follows.
const WantedMetric = "supercargo_wanted_replicas"

// Autoscaler is a HorizontalPodAutoscaler that scales the target of a policy.
type Autoscaler struct {
	Name string
	// Follows says that it takes the external metric WantedMetric.
	Follows bool
}

// Standing is who else wants to scale the target.
type Standing struct {
	// Older is the policy that has a first claim to the target: made earlier, or at the
	// same second and first by name. Empty: none. A policy that only observes has no claim,
	// and is in nobody's way.
	Older string
	// Autoscalers scale the target too.
	Autoscalers []Autoscaler
}

// Conflict says what keeps a policy from its target; empty: nothing.
func (s *Standing) Conflict(mode v1alpha1.ReplicaMode) string {
	switch {
	case mode == v1alpha1.ReplicasObserve:
		return ""
	case s.Older != "":
		return fmt.Sprintf("the older ReplicaPolicy %s scales the same target: delete one of the two, or set this one's mode to Observe", s.Older)
	case mode == v1alpha1.ReplicasAct && len(s.Autoscalers) > 0:
		return fmt.Sprintf("HorizontalPodAutoscaler %s scales the target: delete it, or set the policy's mode to ViaHPA and have the HorizontalPodAutoscaler follow %s", s.Autoscalers[0].Name, WantedMetric)
	}
	return ""
}

// follower says who carries out what a policy publishes; a fault if nobody does.
func (s *Standing) follower() (name, fault string) {
	for _, a := range s.Autoscalers {
		if a.Follows {
			return a.Name, ""
		}
	}
	if len(s.Autoscalers) > 0 {
		return "", fmt.Sprintf("HorizontalPodAutoscaler %s does not use the external metric %s", s.Autoscalers[0].Name, WantedMetric)
	}
	return "", "no HorizontalPodAutoscaler scales the target: make one that takes the external metric " + WantedMetric
}

// Conditions are those of a policy after a look. Messages have no figures that change
// at every look, other than in what was missing.
func (p *Policy) Conditions(s *Standing, out *Outcome) []Condition {
	conflict := Condition{Type: v1alpha1.PolicyConflict, Reason: "NoOtherScaler", Message: "Nothing else scales the target"}
	if why := s.Conflict(p.Mode); why != "" {
		conflict = Condition{Type: v1alpha1.PolicyConflict, True: true, Reason: "AnotherScaler", Message: why}
	} else if len(s.Autoscalers) > 0 || s.Older != "" {
		conflict.Reason, conflict.Message = "Tolerated", "Something else scales the target, as the mode allows"
	}
	measured := Condition{Type: v1alpha1.PolicyMeasured, True: true, Reason: "Measured", Message: "All that the law needs was measured"}
	if out.Missing != "" {
		measured = Condition{Type: v1alpha1.PolicyMeasured, Reason: "NotMeasured", Message: "Replicas stay as they are: " + out.Missing + withNotes(out.Notes)}
	}
	limited := Condition{Type: v1alpha1.PolicyLimited, Reason: "WithinLimits", Message: "Fewer replicas than allowed are asked for"}
	if !out.Off && out.Replicas >= p.Max {
		limited = Condition{Type: v1alpha1.PolicyLimited, True: true, Reason: "AtMaximum",
			Message: fmt.Sprintf("The policy asks for spec.maxReplicas, %d: more may be needed", p.Max)}
	}
	return []Condition{p.ready(s, out, conflict), measured, limited, conflict}
}

func withNotes(notes []string) (text string) {
	for _, n := range notes {
		text += "; " + n
	}
	return text
}

func (p *Policy) ready(s *Standing, out *Outcome, conflict Condition) Condition {
	ready := Condition{Type: v1alpha1.PolicyReady, True: true, Reason: "Deciding"}
	switch {
	case conflict.True:
		return Condition{Type: v1alpha1.PolicyReady, Reason: "Conflict", Message: conflict.Message}
	case out.Off:
		return Condition{Type: v1alpha1.PolicyReady, Reason: "ScaledToZero", Message: "The target is scaled to 0 replicas, and not scaled from there until it has 1 or more"}
	case p.Mode == v1alpha1.ReplicasObserve:
		ready.Message = "The law decides, and nothing is changed"
	case p.Mode == v1alpha1.ReplicasViaHPA:
		name, fault := s.follower()
		ready.Message = "The law decides, and HorizontalPodAutoscaler " + name + " follows"
		if fault != "" {
			ready.Reason, ready.Message = "NotFollowed", "The law decides, and nobody follows: "+fault
		}
	default:
		ready.Message = "The law decides, and the target is scaled"
	}
	return ready
}
