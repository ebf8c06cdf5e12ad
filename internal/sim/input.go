package sim

import (
	"time"

	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/packing"
)

// Pod is one pod of the workload.
type Pod struct {
	// Name is unique.
	Name string
	// Class is batch or service.
	Class class.Class
	// Size is what the pod requests.
	Size packing.Size
	// Arrival is when it is created, since the start of the run.
	Arrival time.Duration
	// Runtime is how long it runs once placed. A service of runtime 0 runs to the
	// end of the run.
	Runtime time.Duration
	// Category groups batch pods whose runtimes are alike; it may be empty. A
	// batch pod with a category does not declare its runtime: it is learned.
	Category string
}

// Flavor is a kind of machine.
type Flavor struct {
	// Name is unique.
	Name string
	// Size is what pods can use of it.
	Size packing.Size
	// MaxPods is how many pods it runs.
	MaxPods int64
	// MicroDollarsPerHour is its price.
	MicroDollarsPerHour int64
}

// Machine is a machine that is there from the start.
type Machine struct {
	// Name is unique.
	Name string
	// Flavor is the kind of machine.
	Flavor Flavor
	// Class is which pods it takes.
	Class class.Class
}

// Input is all that a run depends on.
type Input struct {
	// Pods are the workload, in any order.
	Pods []Pod
	// Machines are there from the start to the end.
	Machines []Machine
	// Configuration is the scheduler's, a KubeSchedulerConfiguration in YAML.
	// All pods name its profile default-scheduler.
	Configuration []byte
	// SchedulingInterval is how often pods that found no room are tried again, if
	// room has come free since. New pods are tried at once.
	SchedulingInterval time.Duration
	// BillingPeriod is the least time a machine is paid for; every started one is
	// paid in full.
	BillingPeriod time.Duration
	// Horizon is when services end that run to the end, unless batch work ends
	// later.
	Horizon time.Duration
	// Seed breaks ties between equally good nodes.
	Seed uint64
}
