package sim

import (
	"math"
	"time"

	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/lab/outcome"
)

// Placement is one pod's start on a node.
type Placement struct {
	At time.Duration
	// Pod, Node and Flavor are names.
	Pod, Node, Flavor string
	// Reason is the reason for the placement in words.
	Reason string
}

// Result is the result of a run.
type Result struct {
	// Submitted, Scheduled and Completed count pods. Pending counts those that wait at the end, and
	// Failed those that were evicted too often. A service that runs to the end is not completed.
	Submitted, Scheduled, Completed, Pending, Failed int
	// PendingReasons counts the pending pods by reason.
	PendingReasons map[string]int64
	// BatchRunning is the number of running batch pods, 0 at the end.
	BatchRunning int
	// Placements are in time order.
	Placements []Placement
	// Waits are the times from arrival to first start of the scheduled pods, ascending.
	Waits []time.Duration
	// Services counts the services that some machine can hold. ServiceWait is the total time that
	// they were without a machine between their arrival and their end, or that of the run: before
	// their start and after evictions.
	Services    int
	ServiceWait time.Duration
	// Runtimes are the times from first start to end of the completed batch pods, and Responses the
	// times from arrival to end. Both are ascending.
	Runtimes, Responses []time.Duration
	// Makespan is the end of the last batch pod.
	Makespan time.Duration
	// Over is the end of the run.
	Over time.Duration
	// CostMicroDollars is the bill of all machines up to the end of the run.
	CostMicroDollars int64
	// EnergyJoules is the energy that the machines drew while they were billed.
	EnergyJoules float64
	// ElectricityDollars and CarbonGrams are its price and emission, as far as the scenario states
	// them.
	ElectricityDollars, CarbonGrams float64
	// EndWatts is the power of the machines at the end of the run.
	EndWatts float64
	// Energy is the energy by machine type, ordered by machine type.
	Energy []*MachineEnergy
	// UsedMilliCPUSeconds and UsedMemoryByteSeconds are requests times the time they were held.
	// PaidMilliCPUSeconds and PaidMemoryByteSeconds are the capacity of the machines while they
	// were billed.
	UsedMilliCPUSeconds, UsedMemoryByteSeconds float64
	PaidMilliCPUSeconds, PaidMemoryByteSeconds float64
	// NodesStart, NodesPeak, NodesAdded and NodesRemoved count machines.
	NodesStart, NodesPeak, NodesAdded, NodesRemoved int
	// MachineSeconds is the total time for which machines were billed, before rounding to billing
	// periods.
	MachineSeconds float64
	// Migrations and Evictions count moves. LostWork is the work lost by evictions, in time at
	// speed 1, and Frozen the total time that migrations froze pods.
	Migrations, Evictions int
	LostWork, Frozen      time.Duration
	// SavedJoules is what single moves were expected to save when they were decided, and
	// AddedJoules what others were expected to cost.
	SavedJoules, AddedJoules float64
	// Events counts events by kind.
	Events map[string]int64
	// Samples show the run at multiples of Step, and finally at its end.
	Step    time.Duration
	Samples []Sample
}

// MeanServiceWait returns ServiceWait per service, rounded up, or 0 if there are no services.
func (r *Result) MeanServiceWait() time.Duration {
	n := time.Duration(r.Services)
	if n == 0 {
		return 0
	}
	mean := r.ServiceWait / n
	if r.ServiceWait%n > 0 {
		mean++
	}
	return mean
}

// MeanWait returns the mean of Waits, rounded up, or 0 if there are none.
func (r *Result) MeanWait() time.Duration {
	var sum, rest time.Duration
	n := time.Duration(len(r.Waits))
	for _, w := range r.Waits {
		sum, rest = sum+w/n, rest+w%n
	}
	if n == 0 {
		return 0
	}
	return sum + (rest+n-1)/n
}

// serviceWaited records that a service was without a machine between two times.
func (r *Result) serviceWaited(from, to time.Duration) {
	if waited := to - from; waited > 0 {
		r.ServiceWait += min(waited, math.MaxInt64-r.ServiceWait)
	}
}

func (r *Result) begin(input Input) {
	r.Placements = make([]Placement, 0, len(input.Pods))
	r.Waits = make([]time.Duration, 0, len(input.Pods))
	r.PendingReasons = map[string]int64{}
	r.Events = map[string]int64{}
}

// Bounds are lower bounds of the cost of a run, in micro-dollars.
type Bounds struct {
	// Lower is the result of [LowerBound], Served that of [ServedBound] with ServiceWait.
	Lower, Served int64
	ServiceWait   time.Duration
}

// Outcome converts the result of a policy to its presentation. wall is the duration of the
// simulation.
func (r *Result) Outcome(policy string, least Bounds, wall time.Duration) outcome.Policy {
	p := outcome.Policy{
		Name: policy, CostDollars: dollars.Of(r.CostMicroDollars), LowerBoundDollars: dollars.Of(least.Lower),
		ServedBoundDollars: dollars.Of(least.Served), ServedBoundWaitSeconds: least.ServiceWait.Seconds(), ServiceWaitSeconds: r.MeanServiceWait().Seconds(),
		EnergyJoules: r.EnergyJoules, Energy: r.energyOutcome(), Runtime: spans(r.Runtimes), Response: spans(r.Responses),
		MakespanSeconds: r.Makespan.Seconds(), EndSeconds: r.Over.Seconds(),
		Pods: outcome.Pods{
			Submitted: r.Submitted, Scheduled: r.Scheduled, Completed: r.Completed, Pending: r.Pending, Failed: r.Failed,
		},
		Scheduling:  waits(r.Waits),
		Utilization: outcome.Utilization{CPU: ratio(r.UsedMilliCPUSeconds, r.PaidMilliCPUSeconds), Memory: ratio(r.UsedMemoryByteSeconds, r.PaidMemoryByteSeconds)},
		Nodes: outcome.Nodes{
			Start: r.NodesStart, Peak: r.NodesPeak, Added: r.NodesAdded, Removed: r.NodesRemoved, Hours: r.MachineSeconds / 3600,
		},
		Moves: outcome.Moves{
			Migrations: r.Migrations, Evictions: r.Evictions,
			LostWorkSeconds: r.LostWork.Seconds(), FrozenSeconds: r.Frozen.Seconds(), ExpectedSavedJoules: r.SavedJoules, ExpectedAddedJoules: r.AddedJoules,
		},
		Events:         r.Events,
		PendingReasons: r.PendingReasons,
		WallSeconds:    wall.Seconds(),
		Series:         outcome.Series{StepSeconds: r.Step.Seconds()},
	}
	for _, s := range r.Samples {
		p.Series.CostDollars = append(p.Series.CostDollars, dollars.Of(s.CostMicroDollars))
		p.Series.CPU = append(p.Series.CPU, s.CPU)
		p.Series.Memory = append(p.Series.Memory, s.Memory)
		p.Series.Machines = append(p.Series.Machines, s.Machines)
		p.Series.Pending = append(p.Series.Pending, s.Pending)
		p.Series.Moves = append(p.Series.Moves, s.Moves)
	}
	return p
}

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// energyOutcome returns nil if no machine drew energy.
func (r *Result) energyOutcome() *outcome.Energy {
	if r.EnergyJoules <= 0 || len(r.Energy) == 0 {
		return nil
	}
	all := &outcome.Energy{EndWatts: r.EndWatts, Dollars: r.ElectricityDollars, CarbonGrams: r.CarbonGrams}
	for _, e := range r.Energy {
		all.TaskJoules += e.TaskJoules
		all.IdleJoules += e.IdleJoules
		all.MachineTypes = append(all.MachineTypes, outcome.MachineEnergy(*e))
	}
	return all
}

// spans summarizes ascending times. It returns nil if there are none.
func spans(sorted []time.Duration) *outcome.Waits {
	if len(sorted) == 0 {
		return nil
	}
	w := waits(sorted)
	return &w
}

// waits summarizes ascending times.
func waits(sorted []time.Duration) outcome.Waits {
	if len(sorted) == 0 {
		return outcome.Waits{}
	}
	var sum time.Duration
	for _, w := range sorted {
		sum += w / time.Duration(len(sorted)) // in whole nanoseconds; the sum of all could overflow
	}
	rank := func(percent int) float64 { return sorted[(len(sorted)*percent+99)/100-1].Seconds() }
	return outcome.Waits{Mean: sum.Seconds(), P50: rank(50), P95: rank(95), Max: sorted[len(sorted)-1].Seconds()}
}

// maxSamples is the maximum number of samples of a run. If there are more, every other sample is
// dropped and the interval doubled.
const maxSamples = 600

// Sample is the state of a run at one moment.
type Sample struct {
	// CostMicroDollars is the bill so far.
	CostMicroDollars int64
	// CPU and Memory are the shares of all machines' capacity that are requested.
	CPU, Memory float64
	// Machines is the number of billed machines, Pending that of waiting pods, and Moves that of
	// moves so far.
	Machines, Pending, Moves int
}

// sampler takes samples at equal intervals.
type sampler struct {
	step    time.Duration
	samples []Sample
}

// newSampler returns a sampler with a step of about 1/300 of the horizon, in whole seconds.
func newSampler(horizon time.Duration) sampler {
	return sampler{step: max(time.Second, (horizon / 300).Truncate(time.Second))}
}

// until takes the samples before the given time, for which the state since the last event is valid.
func (s *sampler) until(e *engine, at time.Duration) {
	for {
		next := time.Duration(len(s.samples)) * s.step
		if next >= at {
			return
		}
		s.samples = append(s.samples, e.sample(next))
		if len(s.samples) > maxSamples {
			s.thin()
		}
	}
}

// finish adds a sample at the end of the run.
func (s *sampler) finish(e *engine, over time.Duration) {
	s.samples = s.samples[:min(len(s.samples), int((over+s.step-1)/s.step))] // later samples show only unschedulable pods
	s.samples = append(s.samples, e.sample(over))
	e.result.Step, e.result.Samples = s.step, s.samples
}

func (s *sampler) thin() {
	kept := s.samples[:0]
	for i := 0; i < len(s.samples); i += 2 {
		kept = append(kept, s.samples[i])
	}
	s.samples, s.step = kept, 2*s.step
}

// sample returns the state since the last event. Cost: that of bill.
func (e *engine) sample(at time.Duration) Sample {
	return Sample{
		CostMicroDollars: e.bill(at), CPU: quotient(e.used.MilliCPU, e.capacity.MilliCPU), Memory: quotient(e.used.MemoryBytes, e.capacity.MemoryBytes),
		Machines: e.paid, Pending: len(e.parked) + len(e.lost), Moves: e.result.Migrations + e.result.Evictions,
	}
}

func quotient(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
