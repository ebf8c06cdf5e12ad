package workers

import (
	"time"

	workerdecide "supercargo.dev/supercargo/autoscaler/worker/decide"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
)

// Law decides how many workers there are. It may remember what it saw: a run needs a
// law of its own.
type Law interface {
	Decide(v View) (Order, error)
}

// View is what a law sees of a plant. It may keep nothing of it.
type View struct {
	// Now is the time since the run began.
	Now time.Duration
	// State holds the workers that have not left, in the order in which they were asked
	// for, and the queue. Resized is unset.
	State estimate.State
	// Usage belongs to the workers of State.
	Usage []Usage
	// InitTime is how long the worker that connected last took to come, or the mean that
	// was told if none has yet.
	InitTime time.Duration

	plant *plant
}

// Time is the date at which the plant is looked at.
func (v View) Time() time.Time { return epoch.Add(v.Now) }

// Observation is the plant as the controller of a WorkerPool observes it: the pods, and what
// the manager answers.
func (v View) Observation() workerdecide.Observation { return v.plant.observation() }

// Usage is what metrics tell of a worker.
type Usage struct {
	// Connected says that the worker has connected, ConnectedAt since when; it is negative
	// for one that did long before the run began.
	Connected   bool
	ConnectedAt time.Duration
	// CPUSeconds is the CPU time that its tasks have used since the run began.
	CPUSeconds float64
}

// Order is what a law wants done.
type Order struct {
	// Add is how many workers to ask for.
	Add int
	// Delete names workers whose pods to delete, as a WorkerPool does: such a worker takes
	// tasks as before, and leaves when it next has had none for [Plan].IdleTimeout.
	Delete []string
	// Drain and Kill name workers to remove in ways that Work Queue does not have: Drain when
	// they have done what they run, without taking any more, and Kill at once.
	Drain, Kill []string
	// Next is when to ask the law again, above 0.
	Next time.Duration
	// Reason says why, in words.
	Reason string
}

// changes says whether the order changes the number of workers.
func (o *Order) changes() bool { return o.Add > 0 || len(o.Delete)+len(o.Drain)+len(o.Kill) > 0 }

// Pool is the decision of the controller of WorkerPools, with what it remembers.
type Pool struct {
	Config workerdecide.Config
	memory workerdecide.Memory
}

// Decide lets the controller's decision look once.
func (l *Pool) Decide(v View) (Order, error) {
	d, memory, err := workerdecide.Decide(l.Config, v.Observation(), l.memory, v.Time())
	if err != nil {
		return Order{}, err
	}
	l.memory = memory
	return Order{Add: d.Add, Delete: d.Drain, Next: d.LookAgain, Reason: d.Reason}, nil
}

// PaperHTA is the HTA paper's own: its algorithm, an initialisation time that is that of the
// worker that came last, and workers that take no more tasks once they are drained. A
// WorkerPool with law HTA decides by the same algorithm with what it has learned; see [Pool].
type PaperHTA struct {
	// Limits are those of the pool. InitTime is measured.
	Limits  estimate.Config
	resized time.Time
}

// epoch is the beginning of virtual time for laws that know the date.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Decide asks the algorithm, and remembers when it resized.
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
	return Order{Add: p.Add, Drain: p.Drain, Next: p.LookAgain, Reason: p.Reason}, nil
}
