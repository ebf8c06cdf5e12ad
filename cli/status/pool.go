package status

import (
	"fmt"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Pool is a WorkerPool and the queue of its manager.
type Pool struct {
	Name  string `json:"name"` // namespace/name
	Mode  string `json:"mode"`
	Phase string `json:"phase,omitempty"`
	// Facts are its figures. Unreported says that there are none yet, and why; empty if there are.
	Facts      []Fact `json:"facts"`
	Unreported string `json:"unreported,omitempty"`
	// SilentSince is when the manager stopped answering, in seconds since 1970; 0 if it answers. The figures of tasks are
	// older than that.
	SilentSince int64       `json:"silentSince,omitempty"`
	Conditions  []Condition `json:"conditions"`
}

func poolOf(o *v1alpha1.WorkerPool) Pool {
	s := &o.Status
	p := Pool{
		Name: o.Namespace + "/" + o.Name, Mode: string(o.Spec.Mode), Phase: string(s.Phase), Unreported: Unreported(s.ObservedGeneration, "autoscaler"),
		Conditions: Conditions(s.Conditions),
	}
	if p.Unreported == "" {
		p.Facts = poolFacts(o)
	}
	if s.SilentSince != nil {
		p.SilentSince = seconds(s.SilentSince.Time)
	}
	return p
}

// poolFacts returns the numbers of tasks, then those of workers.
func poolFacts(o *v1alpha1.WorkerPool) []Fact {
	s := &o.Status
	all := facts("Tasks that wait", "unknown")
	if q := s.Queue; q != nil {
		all = facts("Tasks that wait", grouped(int(q.Waiting)), "Running", grouped(int(q.Running)), "Done", grouped(int(q.Done)), "Cores missing", s.ShortageCores)
	}
	return append(all, facts(
		"Workers", grouped(int(s.Workers.Connected)), "Starting", grouped(int(s.Workers.Starting)), "Draining", grouped(int(s.Workers.Draining)),
		"Allowed", fmt.Sprintf("%s to %s", grouped(int(o.Spec.Limits.Min)), grouped(int(o.Spec.Limits.Max))),
	)...)
}
