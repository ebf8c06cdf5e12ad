package estimate

import (
	"errors"
	"fmt"
	"math"
	"time"

	"supercargo.dev/supercargo/internal/input"
)

// Unknown is a runtime that is not known. It outlasts every window.
const Unknown = time.Duration(math.MaxInt64)

// Resources are what a task occupies or a worker has.
type Resources struct {
	MilliCores  int64
	MemoryBytes int64
	DiskBytes   int64
	GPUs        int64
}

// Fits reports whether r is at most free in every resource.
func (r Resources) Fits(free Resources) bool {
	return r.MilliCores <= free.MilliCores && r.MemoryBytes <= free.MemoryBytes &&
		r.DiskBytes <= free.DiskBytes && r.GPUs <= free.GPUs
}

// Plus returns r plus n times other.
func (r Resources) Plus(other Resources, n int) Resources {
	k := int64(n)
	return Resources{
		MilliCores:  r.MilliCores + k*other.MilliCores,
		MemoryBytes: r.MemoryBytes + k*other.MemoryBytes,
		DiskBytes:   r.DiskBytes + k*other.DiskBytes,
		GPUs:        r.GPUs + k*other.GPUs,
	}
}

// Times returns how many times r fits into free, up to most.
func (r Resources) Times(free Resources, most int) int {
	n := int64(most)
	for _, of := range [...][2]int64{
		{r.MilliCores, free.MilliCores}, {r.MemoryBytes, free.MemoryBytes}, {r.DiskBytes, free.DiskBytes}, {r.GPUs, free.GPUs},
	} {
		switch need, have := of[0], of[1]; {
		case have < need:
			return 0 // also if more is given away than the worker has
		case need > 0:
			n = min(n, have/need)
		}
	}
	return int(n)
}

// Share returns the greatest share of a worker's resources that r takes.
func (r Resources) Share(worker Resources) float64 {
	most := 0.0
	for _, of := range [...][2]int64{
		{r.MilliCores, worker.MilliCores}, {r.MemoryBytes, worker.MemoryBytes}, {r.DiskBytes, worker.DiskBytes}, {r.GPUs, worker.GPUs},
	} {
		if of[1] > 0 {
			most = max(most, float64(of[0])/float64(of[1]))
		}
	}
	return most
}

// negative reports whether any resource is below zero.
func (r Resources) negative() bool {
	return r.MilliCores < 0 || r.MemoryBytes < 0 || r.DiskBytes < 0 || r.GPUs < 0
}

// Batch is a sequence of equal tasks that are adjacent in the queue.
type Batch struct {
	Category string
	// Need is what each task occupies. A task that declares nothing occupies a whole worker; the caller must set that.
	Need Resources
	// Runtime is the runtime of a task, above 0, or [Unknown].
	Runtime time.Duration
	// Count is the number of tasks, above 0.
	Count int
}

// Running is a group of tasks of a worker that end at the same time.
type Running struct {
	Category string
	Need     Resources
	// Left is how long they still run: 0 for tasks that may end at any moment, [Unknown] if it is not known.
	Left time.Duration
	// Ran is how long they have run.
	Ran time.Duration
	// Count is the number of tasks, above 0.
	Count int
}

// Worker is a worker that takes tasks, or will.
type Worker struct {
	// Name is unique among workers.
	Name     string
	Capacity Resources
	// ReadyIn is the time until it connects: 0 if it is connected.
	ReadyIn time.Duration
	// IdleFor is how long a connected worker has been idle.
	IdleFor time.Duration
	// Draining reports that the worker leaves when its tasks are done. Draining workers count towards neither Min nor
	// Max, and are not drained again.
	Draining bool
	// Takes reports that a draining worker takes tasks until it leaves, as a worker of Work Queue does while the
	// manager has tasks for it. Other draining workers take no more tasks.
	Takes   bool
	Running []Running
}

// State is the state of a pool at one moment.
type State struct {
	// Workers are in the order in which tasks look for room.
	Workers []Worker
	// Waiting is the queue, in order.
	Waiting []Batch
	// Uncounted is the number of tasks that wait besides Waiting, and that do not justify workers.
	Uncounted int
	// Resized is when workers were last added or drained; zero for never.
	Resized time.Time
}

// Pool has the limits of a pool.
type Pool struct {
	// Worker is the size of a new worker.
	Worker Resources
	// Min and Max bound the number of workers that are not draining. Both may be 0.
	Min, Max int
	// Foreign is the number of workers that Min, Max and the state include, and that are not of the pool. Reasons leave
	// them out.
	Foreign int
	// InitTime is the time from requesting a worker until it takes tasks.
	InitTime time.Duration
	// Cycle is the time until the next decision if nothing was changed.
	Cycle time.Duration
}

// Plan is what to do with a pool. At most one of Add and Drain is set.
type Plan struct {
	// Add is the number of workers to add.
	Add int
	// Drain names the workers that must take no more tasks.
	Drain []string
	// Recheck is the time until the next decision, above 0. Deciding earlier is harmless.
	Recheck time.Duration
	// Reason explains the plan.
	Reason string
	// Waiting is the number of tasks that wait at the end of the window if nothing is done, without those of the state
	// that are Uncounted: these are tasks that do not justify workers.
	Waiting, Uncounted int
	// Limited reports that the tasks that wait justify more workers than Max allows.
	Limited bool
	// Unplaceable names the categories with tasks that fit no new worker and that no present worker took, in queue
	// order.
	Unplaceable []string
}

// Validate returns all faults of the limits.
func (c Pool) Validate() error {
	var errs input.Faults
	errs.If(c.Worker.negative() || c.Worker.MilliCores == 0, "worker: has %+v: cores must be above 0, all others 0 or more", c.Worker)
	errs.If(c.Min < 0 || c.Max < c.Min, "min and max: are %d and %d, must be 0 <= min <= max", c.Min, c.Max)
	errs.If(c.InitTime <= 0, "initTime: is %v, must be above 0", c.InitTime)
	errs.If(c.Cycle <= 0, "cycle: is %v, must be above 0", c.Cycle)
	return errors.Join(errs...)
}

// Validate returns all faults of the state. A worker may have more given away than it has: then nothing more fits
// there.
func (s State) Validate() error {
	var errs input.Faults
	seen := make(map[string]bool, len(s.Workers))
	for i := range s.Workers {
		w := &s.Workers[i]
		errs.If(seen[w.Name], "workers: name %q must be unique", w.Name)
		seen[w.Name] = true
		errs.If(w.Capacity.negative() || w.ReadyIn < 0, "worker %s: has %+v and connects in %v: all values must be 0 or more", w.Name, w.Capacity, w.ReadyIn)
		for _, r := range w.Running {
			errs.If(r.Need.negative() || r.Left < 0 || r.Count <= 0, "worker %s: runs %+v: the number of tasks must be 1 or more, all others 0 or more", w.Name, r)
		}
	}
	for i := range s.Waiting {
		b := &s.Waiting[i]
		if b.Need.negative() || b.Runtime <= 0 || b.Count <= 0 {
			errs = append(errs, fmt.Errorf("waiting[%d]: is %+v: the number of tasks must be 1 or more, the runtime above 0, all others 0 or more", i, *b))
		}
	}
	return errors.Join(errs...)
}

// serving returns the number of workers that are not draining.
func (s State) serving() int {
	n := 0
	for i := range s.Workers {
		if !s.Workers[i].Draining {
			n++
		}
	}
	return n
}
