package view

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Fleet is a NodeFleet.
type Fleet struct {
	Name     string `json:"name"`
	Class    string `json:"class"`
	Mode     string `json:"mode"`
	Machines int32  `json:"machines"`
	InFlight int32  `json:"inFlight"`
	Pending  int32  `json:"pending"`
	// Dollars is the current price per hour, and Bound the lower bound for the same pods; empty if
	// unknown.
	Dollars string `json:"dollars,omitempty"`
	Bound   string `json:"bound,omitempty"`
	// Doing is the intent in progress; empty if there is none.
	Doing string `json:"doing,omitempty"`
	// Waiting is why pods wait although a machine could be bought; empty if none does.
	Waiting    string      `json:"waiting,omitempty"`
	Conditions []Condition `json:"conditions"`
}

// Condition is a condition of an object. OK reports whether its status is the healthy one.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	OK      bool   `json:"ok"`
}

// badIfTrue are the conditions that are unhealthy if true. All others are unhealthy if not true.
var badIfTrue = []string{
	v1alpha1.ConditionPaused, v1alpha1.FleetLimited, v1alpha1.FleetDegraded, v1alpha1.PolicyConflict, v1alpha1.PoolOverstated,
}

func conditions(all []metav1.Condition) []Condition {
	shown := make([]Condition, 0, len(all))
	for i := range all {
		c := &all[i]
		want := metav1.ConditionTrue
		if slices.Contains(badIfTrue, c.Type) {
			want = metav1.ConditionFalse
		}
		shown = append(shown, Condition{c.Type, string(c.Status), c.Reason, c.Message, c.Status == want})
	}
	slices.SortFunc(shown, func(a, b Condition) int { return cmp.Compare(a.Type, b.Type) })
	return shown
}

// fleets returns the fleets, sorted by name.
func fleets(all []*v1alpha1.NodeFleet) []Fleet {
	shown := make([]Fleet, 0, len(all))
	for _, o := range all {
		s := &o.Status
		f := Fleet{
			Name: o.Name, Class: string(o.Spec.Class), Mode: string(o.Spec.Mode), Machines: s.Machines, InFlight: s.InFlight, Pending: s.PendingPods,
			Dollars: s.Cost.DollarsPerHour, Bound: s.Cost.LowerBoundDollarsPerHour, Conditions: conditions(s.Conditions),
		}
		if s.Intent != nil {
			f.Doing = doing(s.Intent)
		}
		if s.Deferral != nil {
			f.Waiting = s.Deferral.Reason
		}
		shown = append(shown, f)
	}
	slices.SortFunc(shown, func(a, b Fleet) int { return cmp.Compare(a.Name, b.Name) })
	return shown
}
