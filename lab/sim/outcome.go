package sim

import (
	"time"

	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/lab/outcome"
)

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
			Migrations: r.Migrations, Evictions: r.Evictions, Restarts: r.Restarts,
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
