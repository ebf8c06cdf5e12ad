package sim

import (
	"math"
	"time"
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
	// Migrations and Evictions count moves. Restarts are the evictions after which the pod was
	// restarted on a machine chosen for it. LostWork is the work lost by evictions, in time at
	// speed 1, and Frozen the total time that migrations froze pods.
	Migrations, Evictions, Restarts int
	LostWork, Frozen                time.Duration
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
