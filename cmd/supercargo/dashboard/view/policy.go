package view

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Policy is a ReplicaPolicy: what was measured last, and what its law makes of it.
type Policy struct {
	Name   string `json:"name"` // namespace/name
	Target string `json:"target"`
	Law    string `json:"law"`
	Mode   string `json:"mode"`
	// SLO is the response time to keep; empty if the law has none.
	SLO string `json:"slo,omitempty"`
	// What was measured At, in seconds since 1970; empty if it was not to be had. OverSLO says that
	// the response time is longer than it should be.
	At           int64    `json:"at,omitempty"`
	Rate         string   `json:"rate,omitempty"`
	ResponseTime string   `json:"responseTime,omitempty"`
	OverSLO      bool     `json:"overSLO,omitempty"`
	Queue        string   `json:"queue,omitempty"`
	Utilization  string   `json:"utilization,omitempty"`
	Notes        []string `json:"notes,omitempty"`
	// Wanted is what the law wants, Asked what the target was asked for; the others are pods.
	Wanted   int32 `json:"wanted"`
	Asked    int32 `json:"asked"`
	Replicas int32 `json:"replicas"`
	Ready    int32 `json:"ready"`
	Min      int32 `json:"min"`
	Max      int32 `json:"max"`
	// Reasons are those of the last decision, the most important first.
	Reasons    []string    `json:"reasons,omitempty"`
	Conditions []Condition `json:"conditions"`
}

// policies are ordered by name.
func policies(all []*v1alpha1.ReplicaPolicy) []Policy {
	shown := make([]Policy, 0, len(all))
	for _, o := range all {
		shown = append(shown, policyOf(o))
	}
	slices.SortFunc(shown, func(a, b Policy) int { return cmp.Compare(a.Name, b.Name) })
	return shown
}

func policyOf(o *v1alpha1.ReplicaPolicy) Policy {
	s := &o.Status
	p := Policy{
		Name: o.Namespace + "/" + o.Name, Target: o.Spec.Target.Kind + " " + o.Spec.Target.Name, Law: string(o.Spec.Law.Name), Mode: string(o.Spec.Mode),
		Wanted: s.WantedReplicas, Asked: s.AskedReplicas, Replicas: s.Replicas, Ready: s.ReadyReplicas, Min: o.Spec.MinReplicas, Max: o.Spec.MaxReplicas,
		Conditions: conditions(s.Conditions),
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
