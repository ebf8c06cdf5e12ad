package status

import "supercargo.dev/supercargo/api/v1alpha1"

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

func fleetOf(o *v1alpha1.NodeFleet) Fleet {
	s := &o.Status
	f := Fleet{
		Name: o.Name, Class: string(o.Spec.Class), Mode: string(o.Spec.Mode), Machines: s.Machines, InFlight: s.InFlight, Pending: s.PendingPods,
		Dollars: s.Cost.DollarsPerHour, Bound: s.Cost.LowerBoundDollarsPerHour, Conditions: Conditions(s.Conditions),
	}
	if s.Intent != nil {
		f.Doing = doing(s.Intent)
	}
	if s.Deferral != nil {
		f.Waiting = s.Deferral.Reason
	}
	return f
}
