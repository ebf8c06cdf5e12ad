package status

import "supercargo.dev/supercargo/api/v1alpha1"

// Policy is a ReplicaPolicy: its last observation, and what its law decides.
type Policy struct {
	Name   string `json:"name"` // namespace/name
	Target string `json:"target"`
	Law    string `json:"law"`
	Mode   string `json:"mode"`
	// SLO is the target response time; empty if there is none.
	SLO string `json:"slo,omitempty"`
	// At is the time of the observation, in seconds since 1970; figures that were not measured are
	// empty. OverSLO reports whether the response time exceeds the SLO.
	At           int64    `json:"at,omitempty"`
	Rate         string   `json:"rate,omitempty"`
	ResponseTime string   `json:"responseTime,omitempty"`
	OverSLO      bool     `json:"overSLO,omitempty"`
	Queue        string   `json:"queue,omitempty"`
	Utilization  string   `json:"utilization,omitempty"`
	Notes        []string `json:"notes,omitempty"`
	// Desired is the number of replicas that the law requests, Spec is the number in the target's scale,
	// and the others are numbers of pods.
	Desired  int32 `json:"desired"`
	Spec     int32 `json:"spec"`
	Replicas int32 `json:"replicas"`
	Ready    int32 `json:"ready"`
	Min      int32 `json:"min"`
	Max      int32 `json:"max"`
	// Reasons are the reasons of the last decision, the most important first.
	Reasons    []string    `json:"reasons,omitempty"`
	Conditions []Condition `json:"conditions"`
}

func policyOf(o *v1alpha1.ReplicaPolicy) Policy {
	s := &o.Status
	p := Policy{
		Name: o.Namespace + "/" + o.Name, Target: o.Spec.Target.Kind + " " + o.Spec.Target.Name, Law: string(o.Spec.Law.Name), Mode: string(o.Spec.Mode),
		Desired: s.DesiredReplicas, Spec: s.SpecReplicas, Replicas: s.Replicas, Ready: s.ReadyReplicas, Min: o.Spec.MinReplicas, Max: o.Spec.MaxReplicas,
		Conditions: Conditions(s.Conditions),
	}
	if o.Spec.SLO != nil {
		p.SLO = o.Spec.SLO.ResponseTime.Duration.String()
	}
	if seen := s.LastObservation; seen != nil {
		p.At, p.Rate, p.ResponseTime, p.Queue = seconds(seen.Time.Time), seen.ArrivalRate, duration(seen.ResponseTime), seen.QueueLength
		p.Utilization, p.Notes = seen.UtilizationPercent, seen.Notes
		p.OverSLO = o.Spec.SLO != nil && seen.ResponseTime != nil && seen.ResponseTime.Duration > o.Spec.SLO.ResponseTime.Duration
	}
	if s.LastDecision != nil {
		p.Reasons = s.LastDecision.Reasons
	}
	return p
}
