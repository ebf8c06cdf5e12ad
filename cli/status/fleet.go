package status

import "supercargo.dev/supercargo/api/v1alpha1"

// Fleet is a NodeFleet.
type Fleet struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	Mode  string `json:"mode"`
	// Facts are its figures. Unreported says that there are none yet, and why; empty if there are.
	Facts      []Fact `json:"facts"`
	Unreported string `json:"unreported,omitempty"`
	// Doing is the intent in progress; empty if there is none.
	Doing string `json:"doing,omitempty"`
	// Waiting is why pods wait although a machine could be bought; empty if none does.
	Waiting    string      `json:"waiting,omitempty"`
	Conditions []Condition `json:"conditions"`
}

func fleetOf(o *v1alpha1.NodeFleet) Fleet {
	s := &o.Status
	f := Fleet{
		Name: o.Name, Class: string(o.Spec.Class), Mode: string(o.Spec.Mode), Unreported: Unreported(s.ObservedGeneration, "autoscaler"), Conditions: Conditions(s.Conditions),
	}
	if f.Unreported == "" {
		f.Facts = facts(
			"Machines", grouped(int(s.Machines)), "In flight", positive(s.InFlight), "Pods that wait", grouped(int(s.PendingPods)),
			"Cost", prefixed("$", s.Cost.DollarsPerHour, "/h"), "Lower bound", prefixed("$", s.Cost.LowerBoundDollarsPerHour, "/h"),
		)
	}
	if s.Intent != nil {
		f.Doing = doing(s.Intent)
	}
	if s.Deferral != nil {
		f.Waiting = s.Deferral.Reason
	}
	return f
}
