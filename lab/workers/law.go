package workers

import (
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	workerdecide "supercargo.dev/supercargo/autoscaler/worker/workerdecide"
)

// Law decides on the number of workers. It may be stateful: each run needs its own.
type Law interface {
	Decide(v View) (Order, error)
}

// View is what a law observes of a plant. A law must not retain it.
type View struct {
	// Now is the time since the run began.
	Now time.Duration
	// State has the workers that have not left, in order of request, and the queue. Resized is not
	// set.
	State estimate.State
	// Usage corresponds to the workers of State by index.
	Usage []Usage
	// InitTime is the start-up time of the worker that connected last, or the configured mean if
	// none has.
	InitTime time.Duration

	plant *plant
}

// Time returns the date of the view.
func (v View) Time() time.Time { return epoch.Add(v.Now) }

// Observation returns the plant as the WorkerPool controller observes it: the pods and the answer
// of the manager.
func (v View) Observation() workerdecide.Observation { return v.plant.observation() }

// Usage has the metrics of a worker.
type Usage struct {
	// Connected is set if the worker has connected, and ConnectedAt is when. It is negative for
	// workers that connected long before the run began.
	Connected   bool
	ConnectedAt time.Duration
	// CPUSeconds is the CPU time of its tasks since the run began.
	CPUSeconds float64
}

// Order is the decision of a law.
type Order struct {
	// Add is the number of workers to request.
	Add int
	// Delete has the names of workers whose pods are deleted, as a WorkerPool does: such a worker
	// continues to accept tasks, and leaves when it has been idle for [Plan].IdleTimeout.
	Delete []string
	// Drain and Kill have the names of workers to remove in ways that Work Queue does not support:
	// Drain after their running tasks, without accepting more, and Kill at once.
	Drain, Kill []string
	// Next is the time until the next evaluation of the law, above 0.
	Next time.Duration
	// Reason is the reason in words.
	Reason string
}

// changes reports whether the order changes the number of workers.
func (o *Order) changes() bool { return o.Add > 0 || len(o.Delete)+len(o.Drain)+len(o.Kill) > 0 }

// Pool is the decision of the WorkerPool controller with its memory.
type Pool struct {
	Config workerdecide.Config
	memory workerdecide.Memory
}

// Decide runs one evaluation of the controller's decision.
func (l *Pool) Decide(v View) (Order, error) {
	d, memory, err := workerdecide.Decide(l.Config, v.Observation(), l.memory, v.Time())
	if err != nil {
		return Order{}, err
	}
	l.memory = memory
	return Order{Add: d.Add, Delete: d.Drain, Next: d.Recheck, Reason: d.Reason}, nil
}

// PaperHTA is the law of the HTA paper: its algorithm, with the start-up time of the last worker as
// initialization time, and workers that accept no more tasks when drained. A WorkerPool with law
// HTA uses the same algorithm with what it has learned; see [Pool].
type PaperHTA struct {
	// Limits are the limits of the pool. InitTime is ignored: it is measured.
	Limits  estimate.Pool
	resized time.Time
}

// epoch is the origin of virtual time for laws that use dates.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Decide evaluates the algorithm and records resizes.
func (l *PaperHTA) Decide(v View) (Order, error) {
	limits, now := l.Limits, v.Time()
	limits.InitTime = v.InitTime
	v.State.Resized = l.resized
	p, err := estimate.HTA(limits, v.State, now)
	if err != nil {
		return Order{}, err
	}
	if p.Add > 0 || len(p.Drain) > 0 {
		l.resized = now
	}
	return Order{Add: p.Add, Drain: p.Drain, Next: p.Recheck, Reason: p.Reason}, nil
}
