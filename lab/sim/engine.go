package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/heap"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/plugins/learning"
)

// Limits that keep a run from continuing forever.
const (
	// maxIntervals is the maximum number of intervals up to the horizon, and maxIntervalsInAll the
	// maximum until pods that start at the horizon have ended. A controller decides in each, which
	// takes minutes for that many.
	maxIntervals      = 2_000_000
	maxIntervalsInAll = 2 * maxIntervals
	// maxVirtual is the longest run. Sums of a few times of a scenario still fit in 64 bits after
	// it.
	maxVirtual = 20 * scenario.MaxDuration
	// maxEvictions is the number of evictions after which a batch pod counts as failed.
	maxEvictions = 100
	// stallRounds is the maximum number of scaling rounds after the horizon in which no pod starts
	// or ends.
	stallRounds = 20
)

// engine is one run in progress.
type engine struct {
	input      Input
	clock      *Clock
	now        time.Duration
	sched      *Scheduler
	controller Controller
	learner    *runtimes.Learner
	less       fwk.LessFunc

	events   *heap.Heap[event]
	sequence int
	interval time.Duration // minimum interval between calls of the controller
	tickAt   time.Duration // time of the scheduled tick; -1 if none
	wakeAt   time.Duration // when the controller requested its next call; -1 if it did not
	dirty    bool          // something has happened since the last call of the controller
	lastStep time.Duration // when a pod last started or ended

	fresh    []*queued // arrived at this time, not tried yet
	parked   []*queued // unschedulable at the last attempt
	evicted  map[*scenario.Pod]int
	recent   []*queued       // arrived recently, the latest at the end
	lost     []*queued       // fit no machine that can ever exist
	failures []parkedFailure // kinds of pods that found no room since room was last freed
	freed    bool            // room has been freed since the parked pods were last tried
	busy     time.Duration   // when a batch pod was last pending

	all      []*machine // all machines ever, in purchase order
	machines []*machine // not released, by name
	leaving  []*machine // released but still billed
	numbers  map[string]int
	paid     int
	capacity packing.Size // of the billed machines
	used     packing.Size
	arrived  int

	samples sampler
	result  Result
}

// running is a pod on a node.
type running struct {
	pod        *scenario.Pod
	object     *corev1.Pod
	on         *machine
	to         *machine      // target of a migration; the pod does no work meanwhile
	first      time.Duration // first start
	since      time.Duration // when it last started or resumed work
	left       time.Duration // remaining work at that time, at speed 1
	ends       time.Duration // end of a service; 0 means the end of the run
	expected   time.Duration // expected finish of a batch pod
	generation int
	moves      int
	copied     *corev1.Pod // on the target during a migration
	why        string      // reason for the migration
}

// Run simulates the input to its end: until the horizon has passed and all schedulable batch work
// has ended. Pods that fit nowhere stay pending and are counted. It returns early with the error of
// ctx when ctx ends.
//
// Cost: that of the scheduling attempts and of the controller's decisions, plus O(log n) per event
// for n future and running pods. Finished pods cost nothing.
func Run(ctx context.Context, input Input) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := Validate(input.Scenario, input.Pods); err != nil {
		return nil, err
	}
	e := &engine{input: input, events: heap.New(earlier, nil), clock: &Clock{}, numbers: map[string]int{}, evicted: map[*scenario.Pod]int{}, tickAt: -1, wakeAt: -1, dirty: true}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	if err := e.loop(ctx); err != nil {
		return nil, err
	}
	if err := e.finish(); err != nil {
		return nil, err
	}
	return &e.result, nil
}

// Validate returns an error, which names the field, if a valid scenario cannot be simulated with
// these pods in reasonable time.
func Validate(s *scenario.Scenario, pods []scenario.Pod) error {
	interval := min(s.ScalingInterval, s.SchedulingInterval)
	if s.Horizon/interval > maxIntervals {
		return fmt.Errorf("spec.horizon: %v is more than %d times the shorter of spec.schedulingInterval and spec.scalingInterval, %v; use longer intervals or a shorter horizon",
			s.Horizon, maxIntervals, interval)
	}
	slowest := slices.MinFunc(s.Flavors, func(a, b scenario.Flavor) int { return cmp.Compare(a.Speed, b.Speed) })
	var longest, largest scenario.Pod
	for _, p := range pods {
		if p.Runtime > longest.Runtime {
			longest = p
		}
		if p.Size.MemoryBytes > largest.Size.MemoryBytes {
			largest = p
		}
	}
	hours := func(seconds float64) string { return fmt.Sprintf("%.0fh", seconds/3600) }
	work := longest.Runtime.Seconds() / slowest.Speed
	if limit := scenario.MaxDuration.Seconds(); work > limit {
		return fmt.Errorf("spec.flavors: pod %s would run for %s on %s, which has speed %v: must be at most %s", longest.Name, hours(work), slowest.Name, slowest.Speed, hours(limit))
	} else if move := moveSeconds(s.Migration, largest.Size.MemoryBytes); move > limit {
		return fmt.Errorf("spec.migration: moving pod %s would take %s: must be at most %s", largest.Name, hours(move), hours(limit))
	}
	if all := s.Horizon.Seconds() + work; s.Autoscale && all > interval.Seconds()*maxIntervalsInAll {
		return fmt.Errorf("spec.horizon: pod %s may run until %s, which is more than %d times the shorter of spec.schedulingInterval and spec.scalingInterval, %v; use longer intervals or a shorter runtime",
			longest.Name, hours(all), maxIntervalsInAll, interval)
	}
	return nil
}

// moveSeconds is [cluster.Migration.Time] without its limits, in seconds.
func moveSeconds(m scenario.Migration, memory int64) float64 {
	return float64(memory)*m.BytesPerMemory*8/float64(m.BitsPerSecond) + m.Fixed.Seconds()
}

// begin creates the scheduler, the initial machines and the arrival events.
func (e *engine) begin(ctx context.Context) error {
	policy, s := e.input.Policy, e.input.Scenario
	configuration, own, err := BreakTies(policy.Scheduler(s), e.input.Seed)
	if err != nil {
		return err
	}
	if policy.Plugins != nil {
		plugins, err := policy.Plugins(s, e.clock)
		if err != nil {
			return fmt.Errorf("create the plugins of policy %s: %w", policy.Name, err)
		}
		maps.Copy(own, plugins)
	}
	e.sched, err = NewScheduler(ctx, SchedulerOptions{Configuration: configuration, Clock: e.clock, Plugins: own, Namespaces: namespaces(s)})
	if err != nil {
		return err
	}
	profile := e.sched.Profiles[corev1.DefaultSchedulerName]
	if profile == nil {
		return fmt.Errorf("the scheduler's configuration has no profile %s", corev1.DefaultSchedulerName)
	}
	e.less = profile.QueueSortFunc()
	e.learner = learning.Shared(ctx, e.sched.client)
	e.interval = s.SchedulingInterval
	if policy.Interval != nil {
		e.interval = min(policy.Interval(s), s.SchedulingInterval)
	}
	switch {
	case s.Autoscale && policy.Controller != nil:
		e.controller = policy.Controller(s)
	case !s.Autoscale && policy.Fixed != nil:
		e.controller = policy.Fixed(s)
	}
	e.result.begin(e.input)
	e.samples = newSampler(s.Horizon)
	for _, nodes := range s.Nodes {
		for range nodes.Count {
			if err := e.join(e.addMachine(e.flavor(nodes.Flavor), policy.classOf(nodes.Class))); err != nil {
				return err
			}
		}
	}
	e.result.NodesStart = len(e.machines)
	for i := range e.input.Pods {
		e.push(event{at: e.input.Pods[i].Arrival, kind: arrival, pod: &e.input.Pods[i]})
	}
	e.planTick()
	return nil
}

// flavor returns the flavor with the given name, or nil.
func (e *engine) flavor(name string) *scenario.Flavor {
	flavors := e.input.Scenario.Flavors
	at := slices.IndexFunc(flavors, func(f scenario.Flavor) bool { return f.Name == name })
	if at < 0 {
		return nil
	}
	return &flavors[at]
}

// loop processes all events at one time, then serves the queue and calls the controller, and
// continues with the next time.
func (e *engine) loop(ctx context.Context) error {
	for moments := 0; e.events.Len() > 0 && !e.over(); moments++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := e.events.First().at
		if at > maxVirtual {
			return fmt.Errorf("the run has not ended after %v", maxVirtual)
		}
		e.samples.until(e, at)
		e.now = at
		e.clock.set(at)
		ticks, all := false, false
		for e.events.Len() > 0 && e.events.First().at == at {
			ev := e.events.Pop()
			ticks = ticks || ev.kind == tick && ev.at == e.tickAt
			all = all || ev.kind == ready
			if err := e.happen(ev); err != nil {
				return err
			}
		}
		tries := ticks && e.tries()
		if err := e.serve(tries || all); err != nil {
			return err
		}
		if ticks {
			e.tickAt = -1
			if err := e.control(tries); err != nil {
				return err
			}
		}
		e.planTick()
		if e.input.Progress != nil && moments%256 == 0 {
			e.input.Progress(e.howFar())
		}
	}
	if e.input.Progress != nil {
		e.input.Progress(e.howFar())
	}
	return nil
}

// tries reports whether waiting pods are tried at this time.
func (e *engine) tries() bool {
	s := e.input.Scenario
	return e.now%s.SchedulingInterval == 0 || e.now%s.ScalingInterval == 0
}

func (e *engine) howFar() Progress {
	return Progress{Now: e.now, Arrived: e.arrived, Done: e.result.Completed, Total: len(e.input.Pods)}
}

func (e *engine) happen(ev event) error {
	if ev.kind == tick || ev.kind == end && ev.running.generation != ev.generation {
		return nil // a postponed end is void
	}
	e.dirty = true
	switch ev.kind {
	case arrival:
		e.arrive(ev.pod)
	case end:
		return e.end(ev.running)
	case expiry:
		e.expire(ev.queued)
	case moved:
		return e.arriveMoved(ev.running)
	case ready:
		if ev.machine.gone >= 0 {
			return nil // it was released before it became ready
		}
		e.count("machinesReady")
		return e.join(ev.machine)
	case gone:
		e.stopPaying(ev.machine, e.now)
		e.leaving = slices.DeleteFunc(e.leaving, func(m *machine) bool { return m == ev.machine })
	case tick:
	}
	return nil
}

func (e *engine) arrive(p *scenario.Pod) {
	e.arrived++
	e.result.Submitted++
	q := e.enqueue(p, 0)
	if reason := e.impossible(p); reason != "" {
		q.reason = reason
		e.lost = append(e.lost, q)
		return
	}
	if p.Class == class.Service {
		e.result.Services++
	}
	e.fresh = append(e.fresh, q)
	if e.controller != nil {
		e.recent = append(e.recent, q)
	}
}

func (e *engine) end(r *running) error {
	if err := e.leave(r); err != nil {
		return fmt.Errorf("end pod %s: %w", r.pod.Name, err)
	}
	e.result.Completed++
	if r.pod.Class == class.Batch {
		e.learner.Observe(r.object.Namespace, r.pod.Category, r.pod.Runtime)
		e.result.Makespan = e.now
		e.result.Runtimes = append(e.result.Runtimes, e.now-r.first)
		e.result.Responses = append(e.result.Responses, e.now-r.pod.Arrival)
	}
	e.record(fact{what: podEnded, pod: r.pod.Name, node: r.on.name})
	e.progress()
	return e.emptied(r.on)
}

// expire ends an evicted service whose lifetime ends before it is scheduled again.
func (e *engine) expire(q *queued) {
	before := len(e.parked)
	e.parked = slices.DeleteFunc(e.parked, func(other *queued) bool { return other == q })
	if len(e.parked) < before {
		e.result.Completed++
		e.result.serviceWaited(q.since, e.now)
		e.record(fact{what: podEnded, pod: q.pod.Name})
	}
}

// leave removes a pod from its machine.
func (e *engine) leave(r *running) error {
	if err := e.sched.RemovePod(r.object); err != nil {
		return err
	}
	r.generation++
	at := slices.Index(r.on.pods, r)
	r.on.pods = slices.Delete(r.on.pods, at, at+1)
	e.drop(r.on, r.pod.Size)
	e.result.BatchRunning -= batchOne(r.pod)
	e.roomier()
	return nil
}

// progress records that the run makes progress.
func (e *engine) progress() { e.lastStep = e.now }

func (e *engine) record(f fact) {
	if e.input.watch != nil {
		f.at = e.now
		e.input.watch(f)
	}
}

// planTick schedules the next tick: at the next multiple of the scheduling interval if parked pods
// may fit, at the next multiple of the scaling interval if pods wait for machines, and when the
// controller has something new to observe or requested a call.
func (e *engine) planTick() {
	s := e.input.Scenario
	next := time.Duration(-1)
	sooner := func(at time.Duration) {
		if next < 0 || at < next {
			next = at
		}
	}
	following := func(interval time.Duration) time.Duration {
		if e.now == 0 && e.sequence == len(e.input.Pods) { // nothing has happened yet
			return 0
		}
		return (e.now/interval + 1) * interval
	}
	if e.freed && len(e.parked) > 0 {
		sooner(following(s.SchedulingInterval))
	}
	if e.controller != nil {
		if e.dirty {
			sooner(following(e.interval))
		}
		if len(e.parked) > 0 {
			sooner(following(s.ScalingInterval))
		}
		if e.wakeAt >= 0 {
			sooner(max(following(e.interval), (e.wakeAt+e.interval-1)/e.interval*e.interval))
		}
	}
	if next >= 0 && (e.tickAt < 0 || next < e.tickAt) {
		e.tickAt = next
		e.push(event{at: next, kind: tick})
	}
}

// control calls the controller and executes its plan. tries enables another attempt for pods that
// fit as a result.
func (e *engine) control(tries bool) error {
	if e.controller == nil {
		return nil
	}
	state := e.observe()
	if state.Scaling {
		e.count("scalingRounds")
	}
	e.dirty = false
	plan := e.controller.Decide(e.clock.Now(), state)
	e.wakeAt = -1
	if plan.Wake > 0 {
		e.wakeAt = e.now + plan.Wake
	}
	if err := e.act(plan); err != nil {
		return err
	}
	return e.serve(tries && e.freed)
}

// over reports whether the run has ended: all pods have arrived, no batch pod runs or waits and may
// still be scheduled, and no event is left up to the horizon.
func (e *engine) over() bool {
	s := e.input.Scenario
	if e.arrived < len(e.input.Pods) || e.result.BatchRunning > 0 || e.events.First().at <= s.Horizon || len(e.fresh) > 0 {
		return false
	}
	waits := slices.ContainsFunc(e.parked, func(q *queued) bool { return q.pod.Class == class.Batch })
	if !waits {
		return true
	}
	stall := stallRounds*max(s.ScalingInterval, s.SchedulingInterval) + min(10*s.AcquisitionLag.Mean, scenario.MaxDuration)
	return e.controller != nil && e.now > max(e.lastStep, s.Horizon)+stall
}

// finish ends the run: it stops the remaining services and bills the machines. A run with
// unschedulable batch pods ends with the last step of any other pod.
func (e *engine) finish() error {
	over := max(e.input.Scenario.Horizon, e.result.Makespan)
	if slices.ContainsFunc(e.parked, func(q *queued) bool { return q.pod.Class == class.Batch }) {
		over = max(over, e.lastStep)
	}
	e.samples.until(e, over)
	e.result.EndWatts = e.endWatts()
	for _, m := range e.leaving {
		e.stopPaying(m, max(m.metered, min(m.gone, over)))
	}
	for _, m := range e.machines {
		e.stopPaying(m, max(m.metered, over))
	}
	e.result.Over = over
	if e.result.CostMicroDollars = e.bill(over); e.result.CostMicroDollars < 0 {
		return errors.New("the bill exceeds nine trillion dollars, the maximum")
	}
	e.samples.finish(e, over)
	for _, q := range e.parked {
		if q.pod.Class == class.Service {
			e.result.serviceWaited(q.since, over)
		}
	}
	for _, q := range append(e.lost, e.parked...) {
		e.result.Pending++
		e.result.PendingReasons[q.reason]++
	}
	slices.Sort(e.result.Waits)
	slices.Sort(e.result.Runtimes)
	slices.Sort(e.result.Responses)
	e.result.sortEnergy()
	return nil
}

func (e *engine) count(kind string) { e.result.Events[kind]++ }

// machine returns the machine with the given name, or nil.
func (e *engine) machine(name string) *machine {
	at, ok := slices.BinarySearchFunc(e.machines, &machine{name: name}, byName)
	if !ok {
		return nil
	}
	return e.machines[at]
}

var errPlan = errors.New("the plan cannot be carried out")

// act executes a plan.
func (e *engine) act(plan cluster.Plan) error {
	for _, s := range plan.Uncordon {
		if err := e.uncordon(s); err != nil {
			return err
		}
	}
	for _, p := range plan.Buy {
		if _, err := e.buy(p); err != nil {
			return err
		}
	}
	for _, d := range plan.Drains {
		if err := e.empty(d); err != nil {
			return err
		}
	}
	for _, t := range plan.Transfers {
		if err := e.transfer(t); err != nil {
			return err
		}
	}
	for _, r := range plan.Release {
		m := e.machine(r.Node)
		if m == nil || m.count() > 0 {
			return fmt.Errorf("%w: release %s, which is not an empty machine", errPlan, r.Node)
		}
		if err := e.release(m); err != nil {
			return err
		}
	}
	return nil
}

// buy orders a machine. Released machines count against the limit until they are gone.
func (e *engine) buy(p cluster.Purchase) (*machine, error) {
	flavor := e.flavor(p.Flavor)
	switch {
	case !e.input.Scenario.Autoscale:
		return nil, fmt.Errorf("%w: buy a machine of flavor %q in a fixed cluster", errPlan, p.Flavor)
	case flavor == nil:
		return nil, fmt.Errorf("%w: buy a machine of flavor %q, which is unknown", errPlan, p.Flavor)
	case len(e.machines)+len(e.leaving) >= int(e.input.Scenario.MaxNodes):
		return nil, fmt.Errorf("%w: buy a machine beyond the limit of %d", errPlan, e.input.Scenario.MaxNodes)
	}
	e.result.NodesAdded++
	lag := e.input.Scenario.AcquisitionLag.Draw(e.input.Seed, e.result.NodesAdded)
	m := e.addMachine(flavor, p.Class)
	e.push(event{at: e.now + max(lag, 1), kind: ready, machine: m}) // not at the current time
	return m, nil
}

// eventKind orders simultaneous events: room is freed before it is used.
type eventKind int

const (
	end eventKind = iota
	expiry
	moved
	gone
	ready
	arrival
	tick
)

// event is something that happens at a moment of virtual time.
type event struct {
	at       time.Duration
	kind     eventKind
	sequence int // creation order, the last tie-break
	pod      *scenario.Pod
	running  *running
	queued   *queued
	// generation is that of the running pod when the event was created. The event is void if the
	// pod's generation has changed.
	generation int
	machine    *machine
}

func (e *engine) push(ev event) {
	e.sequence++
	ev.sequence = e.sequence
	e.events.Push(ev)
}

// earlier orders events.
func earlier(a, b event) bool {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind, b.kind), cmp.Compare(a.sequence, b.sequence)) < 0
}
