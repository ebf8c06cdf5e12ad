package status

import (
	"fmt"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Policy is a ReplicaPolicy: its last observation, and what its law decides.
type Policy struct {
	Name   string `json:"name"` // namespace/name
	Target string `json:"target"`
	Law    string `json:"law"`
	Mode   string `json:"mode"`
	// Facts are its figures; those that were not measured are missing. Unreported says that there are none yet, and why;
	// empty if there are. Slow says that the response time exceeds the target; empty if it does not, or is not measured.
	Facts      []Fact   `json:"facts"`
	Unreported string   `json:"unreported,omitempty"`
	Slow       string   `json:"slow,omitempty"`
	Notes      []string `json:"notes,omitempty"`
	// Reasons are the reasons of the last decision, the most important first.
	Reasons    []string    `json:"reasons,omitempty"`
	Conditions []Condition `json:"conditions"`
}

func policyOf(o *v1alpha1.ReplicaPolicy) Policy {
	s := &o.Status
	p := Policy{
		Name: o.Namespace + "/" + o.Name, Target: o.Spec.Target.Kind + " " + o.Spec.Target.Name, Law: string(o.Spec.Law.Name), Mode: string(o.Spec.Mode),
		Unreported: Unreported(s.ObservedGeneration, "autoscaler"), Conditions: Conditions(s.Conditions),
	}
	if p.Unreported == "" {
		p.Facts = policyFacts(o)
	}
	if seen := s.LastObservation; seen != nil {
		p.Notes = seen.Notes
		if o.Spec.SLO != nil && seen.ResponseTime != nil && seen.ResponseTime.Duration > o.Spec.SLO.ResponseTime.Duration {
			p.Slow = "The response time exceeds the target."
		}
	}
	if s.LastDecision != nil {
		p.Reasons = s.LastDecision.Reasons
	}
	return p
}

// policyFacts returns the last measurements, then the numbers of replicas.
func policyFacts(o *v1alpha1.ReplicaPolicy) []Fact {
	s, target := &o.Status, ""
	if o.Spec.SLO != nil {
		target = fmt.Sprintf(" (target %v)", o.Spec.SLO.ResponseTime.Duration)
	}
	var all []Fact
	if seen := s.LastObservation; seen != nil {
		all = facts(
			"Requests per second", seen.ArrivalRate, "Response time", prefixed("", duration(seen.ResponseTime), target),
			"Requests in progress", seen.QueueLength, "Utilisation", percent(seen.UtilizationPercent),
		)
	}
	desired := "not decided yet"
	if s.DesiredReplicas > 0 { // at least one, once it is decided
		desired = fmt.Sprintf("%d (%d to %d)", s.DesiredReplicas, o.Spec.MinReplicas, o.Spec.MaxReplicas)
	}
	return append(all, facts("Replicas", fmt.Sprintf("%d of %d ready", s.ReadyReplicas, s.SpecReplicas), "Desired", desired)...)
}
