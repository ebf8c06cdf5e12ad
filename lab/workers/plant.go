package workers

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/scenario"
)

// Plan is the input of a run.
type Plan struct {
	// Tasks must satisfy the conditions of [trace.ReadTasks].
	Tasks []trace.Task
	// Worker is the capacity of each worker.
	Worker estimate.Resources
	// Start is the number of connected workers when the run begins, and Max the maximum number of
	// workers at once, including requested ones but not draining ones.
	Start, Max int
	// InitTime is the start-up time of workers, drawn for each with Seed.
	InitTime scenario.Lag
	Seed     uint64
	// IdleTimeout is how long a worker waits for a task before it ends its session with the
	// manager. A worker whose pod was deleted then leaves; others begin a new session at once.
	// With 0 the worker of a deleted pod leaves as soon as it is idle.
	IdleTimeout time.Duration
	// MicroDollarsPerHour is the price of a worker. It is billed from its request until it leaves
	// or the run ends, for every started BillingPeriod.
	MicroDollarsPerHour int64
	BillingPeriod       time.Duration
}

// Result is the result of a run.
type Result struct {
	// Makespan is the end of the last task.
	Makespan time.Duration
	// WasteMilliCoreMillis is the integral of the cores of connected workers that no task
	// occupied, in thousandths of a core times milliseconds.
	WasteMilliCoreMillis int64
	// ShortageMilliCoreMillis is the same for the cores that tasks in the queue requested.
	ShortageMilliCoreMillis int64
	// LostMilliCoreMillis is the same for the cores that killed tasks had occupied.
	LostMilliCoreMillis int64
	// Peak is the maximum number of concurrently connected workers.
	Peak int
	// Added, Drained and Killed count workers.
	Added, Drained, Killed int
	// Restarted counts tasks that were killed with their worker.
	Restarted int
	// Resizes counts the orders that changed the number of workers.
	Resizes int
	// MicroDollars is the cost of all workers.
	MicroDollars int64
	// Decisions are the orders that changed the number of workers.
	Decisions []Decision
}

// Decision is an order that changed the number of workers.
type Decision struct {
	At    time.Duration
	Order Order
}

// ErrStalled is returned if the law leaves tasks without workers for good.
var ErrStalled = errors.New("tasks wait, no worker is running or starting, and the law requests none")

// patience is the maximum number of consecutive decisions without a change while nothing runs.
const patience = 1000

// Run simulates the workflow to its end. It returns an error, which names the cause, if something
// can never run or an order is invalid, and [ErrStalled].
func Run(plan Plan, law Law) (Result, error) {
	if err := plan.Validate(); err != nil {
		return Result{}, err
	}
	p := newPlant(plan)
	for p.dispatch(); p.left > 0; p.dispatch() {
		if p.now == p.decideAt {
			if err := p.decide(law); err != nil {
				return Result{}, fmt.Errorf("decide at %v: %w", p.now, err)
			}
		}
		p.advance(p.next())
		if p.idle > patience {
			return Result{}, fmt.Errorf("after %v %s left: %w", p.now, plural.Count(p.left, "task")+plural.Form(p.left, " is", " are"), ErrStalled)
		}
	}
	return p.finish(), nil
}

// Validate reports what can never run, such as a task that fits on no worker, and invalid limits.
func (p Plan) Validate() error {
	var errs input.Faults
	errs.If(len(p.Tasks) == 0, "at least one task is required")
	for i := range p.Tasks {
		if t := &p.Tasks[i]; !needOf(t).Fits(p.Worker) {
			errs = append(errs, fmt.Errorf("task %s needs %g cores and %d MiB, and no worker has that (%g cores, %d MiB)",
				t.ID, float64(t.MilliCores)/1000, t.MemoryBytes>>20, float64(p.Worker.MilliCores)/1000, p.Worker.MemoryBytes>>20))
			break
		}
	}
	errs.If(p.Start < 0 || p.Max < 1 || p.Start > p.Max, "%d workers at the start and %d at most: must be 0 <= start <= max, and max 1 or more", p.Start, p.Max)
	errs.If(p.InitTime.Mean <= 0 || p.InitTime.SD < 0, "workers take %v (sd %v) to start: must be more than 0", p.InitTime.Mean, p.InitTime.SD)
	errs.If(p.MicroDollarsPerHour < 0 || p.BillingPeriod <= 0, "price: must be 0 or more, and its billing period more than 0")
	errs.If(p.IdleTimeout < 0, "workers wait %v for a task: must be 0 or more", p.IdleTimeout)
	return errors.Join(errs...)
}

func needOf(t *trace.Task) estimate.Resources {
	return estimate.Resources{MilliCores: t.MilliCores, MemoryBytes: t.MemoryBytes}
}

// plant is the state of a run.
type plant struct {
	Plan
	now      time.Duration
	decideAt time.Duration
	idle     int // consecutive decisions with nothing running or starting

	queue   queue
	blocked blocked
	learned map[string]*estimate.Runtimes
	left    int // tasks that have not ended

	submitted []int64          // the ID that the manager assigned to each task; 0 for none yet
	numbers   int64            // IDs assigned so far
	done      map[string]int64 // tasks that have ended, by category
	executed  time.Duration    // their total runtime

	workers  []*worker // workers that have not left, in order of request
	asked    int
	initTime time.Duration

	result Result
}

// worker is a worker that has not left.
type worker struct {
	estimate.Worker // its Running and ReadyIn are kept in running and readyAt
	free            estimate.Resources
	running         []started
	askedAt         time.Duration
	readyAt         time.Duration
	idleSince       time.Duration
	connected       bool
	leaving         bool          // its pod was deleted
	deletedAt       time.Duration // when it was deleted
	cpu             float64       // core-seconds
	busy            float64       // cores
}

// started is a running task.
type started struct {
	task     int
	at, ends time.Duration
}

// longAgo is when the first workers connected, so that all their metrics are available.
const longAgo = -time.Hour

func newPlant(plan Plan) *plant {
	p := &plant{
		Plan: plan, learned: map[string]*estimate.Runtimes{}, left: len(plan.Tasks), initTime: plan.InitTime.Mean,
		queue: newQueue(), blocked: newBlocked(plan.Tasks), submitted: make([]int64, len(plan.Tasks)), done: map[string]int64{},
	}
	for range plan.Start {
		w := p.ask()
		w.connected, w.readyAt = true, longAgo
	}
	p.result.Added = 0
	p.enqueue(p.blocked.first())
	p.result.Peak = plan.Start
	return p
}

// ask requests a worker.
func (p *plant) ask() *worker {
	w := &worker{Worker: estimate.Worker{Name: "worker-" + strconv.Itoa(p.asked), Capacity: p.Worker}, free: p.Worker, askedAt: p.now}
	w.readyAt = p.now + max(time.Millisecond, p.InitTime.Draw(p.Seed, p.asked))
	p.asked++
	p.result.Added++
	p.workers = append(p.workers, w)
	return w
}

func (p *plant) enqueue(tasks []int) {
	for _, i := range tasks {
		p.numbers++
		p.submitted[i] = p.numbers
		p.queue.push(needOf(&p.Tasks[i]), i)
	}
}

// leavesAt returns when a worker whose pod was deleted leaves if it gets no task before. It returns
// false for any other worker.
func (p *plant) leavesAt(w *worker) (time.Duration, bool) {
	if !w.leaving || len(w.running) > 0 {
		return 0, false
	}
	if !w.connected || p.IdleTimeout == 0 {
		return p.now, true
	}
	sessions := max(1, (w.deletedAt-w.idleSince+p.IdleTimeout-1)/p.IdleTimeout)
	return w.idleSince + sessions*p.IdleTimeout, true
}

// next returns the time of the next event, at the latest the next evaluation of the law.
func (p *plant) next() time.Duration {
	at := p.decideAt
	for _, w := range p.workers {
		if !w.connected {
			at = min(at, w.readyAt)
		}
		if leaves, will := p.leavesAt(w); will {
			at = min(at, leaves)
		}
		for _, s := range w.running {
			at = min(at, s.ends)
		}
	}
	return at
}

// advance advances the time and processes the events at that time.
func (p *plant) advance(to time.Duration) {
	p.integrate(to - p.now)
	p.now = to
	connected := 0
	var ready []int // in file order, no matter which task ended first
	for _, w := range slices.Clone(p.workers) {
		if !w.connected && w.readyAt <= to {
			w.connected, w.idleSince = true, to
			p.initTime = w.readyAt - w.askedAt
		}
		if w.connected {
			connected++
		}
		w.running = slices.DeleteFunc(w.running, func(s started) bool {
			if s.ends > to {
				return false
			}
			ready = append(ready, p.end(w, s)...)
			return true
		})
		p.dismiss(w)
	}
	p.result.Peak = max(p.result.Peak, connected)
	slices.Sort(ready)
	p.enqueue(ready)
}

// integrate accounts for a time without changes.
func (p *plant) integrate(dt time.Duration) {
	millis := dt.Milliseconds()
	p.result.ShortageMilliCoreMillis += p.queue.milliCores * millis
	for _, w := range p.workers {
		if w.connected {
			p.result.WasteMilliCoreMillis += w.free.MilliCores * millis
			w.cpu += float64(w.busy * dt.Seconds())
		}
	}
}

// end removes a finished task from its worker and returns the tasks that become ready.
func (p *plant) end(w *worker, s started) []int {
	t := &p.Tasks[s.task]
	p.release(w, t)
	m := p.learned[t.Category]
	if m == nil {
		m = &estimate.Runtimes{}
		p.learned[t.Category] = m
	}
	m.Observe(s.ends - s.at)
	p.done[categoryOf(t)]++
	p.executed += s.ends - s.at
	p.left--
	return p.blocked.ended(s.task)
}

func (p *plant) release(w *worker, t *trace.Task) {
	w.free = w.free.Plus(needOf(t), 1)
	w.busy = max(0, w.busy-busyCores(t))
	if w.free == w.Capacity {
		w.idleSince = p.now
		w.busy = 0 // removes rounding errors
	}
}

// busyCores returns the number of cores that a task keeps busy.
func busyCores(t *trace.Task) float64 {
	return float64(t.MilliCores) / 1000 * (float64(t.BusyMillionths) / trace.Millionths)
}

// dismiss removes a worker that is drained and empty, or whose pod was deleted and whose idle
// timeout has expired.
func (p *plant) dismiss(w *worker) {
	leaves, will := p.leavesAt(w)
	if w.Draining && len(w.running) == 0 || will && leaves <= p.now {
		p.remove(w)
		p.result.Drained++
	}
}

func (p *plant) remove(w *worker) {
	p.workers = slices.DeleteFunc(p.workers, func(other *worker) bool { return other == w })
	p.pay(w)
}

// pay bills a worker up to now.
func (p *plant) pay(w *worker) {
	periods := (p.now - w.askedAt + p.BillingPeriod - 1) / p.BillingPeriod
	hours := float64(max(1, periods)) * p.BillingPeriod.Hours()
	p.result.MicroDollars += int64(math.Round(hours * float64(p.MicroDollarsPerHour)))
}

// dispatch starts the tasks that fit.
func (p *plant) dispatch() {
	p.queue.each(func(need estimate.Resources, task int) bool {
		for _, w := range p.workers {
			if w.connected && !w.Draining && need.Fits(w.free) {
				t := &p.Tasks[task]
				w.free = w.free.Plus(need, -1)
				w.busy += busyCores(t)
				w.running = append(w.running, started{task, p.now, p.now + wholeMillis(t.Runtime)})
				return true
			}
		}
		return false
	})
}

// wholeMillis rounds up, so that only tasks without runtime take no time.
func wholeMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// decide evaluates the law and executes its order.
func (p *plant) decide(law Law) error {
	order, err := law.Decide(p.view())
	if err != nil {
		return err
	}
	if order.Next <= 0 {
		return fmt.Errorf("the law wants to decide again in %v: must be more than 0", order.Next)
	}
	p.decideAt = p.now + max(time.Millisecond, wholeMillis(order.Next))
	if order.changes() {
		p.result.Resizes++
		p.result.Decisions = append(p.result.Decisions, Decision{p.now, order})
	}
	for range order.Add {
		p.ask()
	}
	if err := p.leave(order); err != nil {
		return err
	}
	serving, active := 0, false
	for _, w := range p.workers {
		if !w.Draining && !w.leaving {
			serving++
		}
		active = active || !w.connected || len(w.running) > 0
	}
	if serving > p.Max {
		return fmt.Errorf("the law requests %s: must be at most %d", plural.Count(serving, "worker"), p.Max)
	}
	p.idle++
	if active {
		p.idle = 0
	}
	return nil
}

// leave removes the workers of an order.
func (p *plant) leave(order Order) error {
	for _, name := range slices.Concat(order.Delete, order.Drain, order.Kill) {
		i := slices.IndexFunc(p.workers, func(w *worker) bool { return w.Name == name })
		if i < 0 {
			return fmt.Errorf("the law removes %s, which does not exist", name)
		}
		w := p.workers[i]
		switch {
		case slices.Contains(order.Kill, name):
			p.kill(w)
			continue
		case slices.Contains(order.Drain, name):
			w.Draining = true
		case !w.leaving:
			w.leaving, w.deletedAt = true, p.now
		}
		p.dismiss(w)
	}
	return nil
}

// kill removes a worker and requeues its tasks.
func (p *plant) kill(w *worker) {
	slices.SortFunc(w.running, func(a, b started) int { return b.task - a.task })
	for _, s := range w.running {
		t := &p.Tasks[s.task]
		p.result.LostMilliCoreMillis += t.MilliCores * (p.now - s.at).Milliseconds()
		p.result.Restarted++
		p.queue.pushFront(needOf(t), s.task)
	}
	p.result.Killed++
	p.remove(w)
}

// view returns the plant as a law observes it.
func (p *plant) view() View {
	v := View{Now: p.now, InitTime: p.initTime, plant: p}
	ran := map[string]time.Duration{} // the longest current run of each category
	for _, w := range p.workers {
		for _, s := range w.running {
			category := p.Tasks[s.task].Category
			ran[category] = max(ran[category], p.now-s.at)
		}
	}
	for _, w := range p.workers {
		v.State.Workers = append(v.State.Workers, p.seen(w, ran))
		u := Usage{Connected: w.connected, CPUSeconds: w.cpu}
		if w.connected {
			u.ConnectedAt = w.readyAt
		}
		v.Usage = append(v.Usage, u)
	}
	v.State.Waiting = p.queue.batches(func(task int) estimate.Batch {
		t := &p.Tasks[task]
		return estimate.Batch{Category: t.Category, Need: needOf(t), Runtime: p.learned[t.Category].Expect(ran[t.Category]), Count: 1}
	})
	return v
}

// seen returns what is known about a worker and its tasks.
func (p *plant) seen(w *worker, ran map[string]time.Duration) estimate.Worker {
	seen := w.Worker
	switch {
	case !w.connected:
		// The law expects the start-up time of the last worker, not the actual one.
		seen.ReadyIn = max(time.Millisecond, p.initTime-(p.now-w.askedAt))
	case len(w.running) == 0:
		seen.IdleFor = p.now - w.idleSince
	}
	for _, s := range w.running {
		t := &p.Tasks[s.task]
		r := estimate.Running{Category: t.Category, Need: needOf(t), Ran: p.now - s.at, Count: 1}
		r.Left = p.learned[t.Category].Expect(ran[t.Category])
		if r.Left != estimate.Unknown {
			r.Left = max(0, r.Left-r.Ran)
		}
		seen.Running = append(seen.Running, r)
	}
	return seen
}

// finish bills the remaining workers.
func (p *plant) finish() Result {
	for _, w := range p.workers {
		p.pay(w)
	}
	p.result.Makespan = p.now
	return p.result
}
