package workplant

import (
	"time"

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
}

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
	// Drain and Kill name workers to remove, when they have done what they run and at once.
	Drain, Kill []string
	// Next is when to ask the law again, above 0.
	Next time.Duration
	// Reason says why, in words.
	Reason string
}

// Estimating is a law of package estimate.
type Estimating struct {
	// Limits are those of the pool. InitTime is measured.
	Limits  estimate.Config
	Plan    func(estimate.Config, estimate.State, time.Time) (estimate.Plan, error)
	resized time.Time
}

// epoch is the zero of virtual time for laws that know the date.
var epoch = time.Unix(0, 0).UTC()

// Decide asks the plan, and remembers when it resized.
func (l *Estimating) Decide(v View) (Order, error) {
	limits, now := l.Limits, epoch.Add(v.Now)
	limits.InitTime = v.InitTime
	v.State.Resized = l.resized
	p, err := l.Plan(limits, v.State, now)
	if err != nil {
		return Order{}, err
	}
	if p.Add > 0 || len(p.Drain) > 0 {
		l.resized = now
	}
	return Order{Add: p.Add, Drain: p.Drain, Next: p.LookAgain, Reason: p.Reason}, nil
}
