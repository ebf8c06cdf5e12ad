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
	// Reason says in words why the pod came there.
	Reason string
}

// Result is what a run came to.
type Result struct {
	// Submitted, Scheduled and Completed count pods; Pending those that wait at the
	// end, Failed those that were evicted too often. A service that runs to the end is not completed.
	Submitted, Scheduled, Completed, Pending, Failed int
	// PendingReasons counts the pending pods by what they wait for.
	PendingReasons map[string]int64
	// BatchRunning is how many batch pods run; at the end none does.
	BatchRunning int
	// Placements are in the order they happened.
	Placements []Placement
	// Waits are the times from arrival to first start of the scheduled pods,
	// ascending.
	Waits []time.Duration
	// Services counts the services that some machine can hold. ServiceWait is how long
	// they were without a machine between their arrival and their end, or that of the
	// run, all together: before they started, and after an eviction.
	Services    int
	ServiceWait time.Duration
	// Runtimes are the times from first start to end of the completed batch pods, Responses
	// those from arrival to end; both ascending.
	Runtimes, Responses []time.Duration
	// Makespan is when the last batch pod ended.
	Makespan time.Duration
	// Over is when the run ended.
	Over time.Duration
	// CostMicroDollars is the bill of all machines to the end of the run.
	CostMicroDollars int64
	// EnergyJoules is what the machines drew while they were paid for.
	EnergyJoules float64
	// ElectricityDollars and CarbonGrams are what that cost and emitted, as far as the
	// scenario's electricity says.
	ElectricityDollars, CarbonGrams float64
	// EndWatts is what they drew at the end of the run.
	EndWatts float64
	// Energy says which machines drew it, ordered by machine type.
	Energy []*MachineEnergy
	// UsedMilliCPUSeconds and UsedMemoryByteSeconds are requests times the time
	// they were held; those Paid what the machines offered while they were paid for.
	UsedMilliCPUSeconds, UsedMemoryByteSeconds float64
	PaidMilliCPUSeconds, PaidMemoryByteSeconds float64
	// NodesStart, NodesPeak, NodesAdded and NodesRemoved count machines.
	NodesStart, NodesPeak, NodesAdded, NodesRemoved int
	// MachineSeconds is the sum of the times for which machines were paid, before
	// rounding to billing periods.
	MachineSeconds float64
	// Migrations and Evictions count moves, Restarts those of the latter that were started
	// anew on a machine chosen for them. LostWork is the work that evictions threw away, in
	// time at speed 1, Frozen for how long migrations freeze pods, all together.
	Migrations, Evictions, Restarts int
	LostWork, Frozen                time.Duration
	// SavedJoules is what single moves were expected to save when they were decided,
	// AddedJoules what others were expected to cost.
	SavedJoules, AddedJoules float64
	// Events counts what happened, by kind.
	Events map[string]int64
	// Samples show the run at multiples of Step, and at last its end.
	Step    time.Duration
	Samples []Sample
}

// MeanServiceWait is ServiceWait for each of the services, rounded up; 0 if there is
// none.
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

// MeanWait is the mean of Waits, rounded up; 0 if there is none.
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

// serviceWaited notes that a service was without a machine from one time to another.
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
