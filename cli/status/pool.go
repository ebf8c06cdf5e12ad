package status

import "supercargo.dev/supercargo/api/v1alpha1"

// Pool is a WorkerPool and the queue of its manager.
type Pool struct {
	Name  string `json:"name"` // namespace/name
	Mode  string `json:"mode"`
	Phase string `json:"phase,omitempty"`
	// Known reports whether the manager has reported its tasks; the others are the latest numbers.
	Known   bool  `json:"known"`
	Waiting int32 `json:"waiting"`
	Running int32 `json:"running"`
	Done    int64 `json:"done"`
	// ShortageCores is the number of cores that the waiting tasks need.
	ShortageCores string `json:"shortageCores,omitempty"`
	// The numbers of workers and their limits.
	Connected int32 `json:"connected"`
	Starting  int32 `json:"starting"`
	Draining  int32 `json:"draining"`
	Min       int32 `json:"min"`
	Max       int32 `json:"max"`
	// SilentSince is when the manager stopped answering, in seconds since 1970; 0 if it answers.
	SilentSince int64       `json:"silentSince,omitempty"`
	Conditions  []Condition `json:"conditions"`
}

func poolOf(o *v1alpha1.WorkerPool) Pool {
	s := &o.Status
	p := Pool{
		Name: o.Namespace + "/" + o.Name, Mode: string(o.Spec.Mode), Phase: string(s.Phase), ShortageCores: s.ShortageCores,
		Connected: s.Workers.Connected, Starting: s.Workers.Starting, Draining: s.Workers.Draining, Min: o.Spec.Limits.Min, Max: o.Spec.Limits.Max,
		Conditions: Conditions(s.Conditions),
	}
	if q := s.Queue; q != nil {
		p.Known, p.Waiting, p.Running, p.Done = true, q.Waiting, q.Running, q.Done
	}
	if s.SilentSince != nil {
		p.SilentSince = seconds(s.SilentSince.Time)
	}
	return p
}
