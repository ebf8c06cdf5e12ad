package scenario

import (
	"cmp"
	"time"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
)

// Scenario is a simulation's input as returned by [Read]: complete and validated. It is immutable,
// so it may be shared.
type Scenario struct {
	// Name is metadata.name, 1 to 253 bytes. Required.
	Name string
	// Horizon is the end of arrivals. The run continues until all batch work has ended. Required,
	// above zero.
	Horizon time.Duration
	// SchedulingInterval is the longest time between two scheduling rounds of the pending queue.
	// Above zero, by default 20 s.
	SchedulingInterval time.Duration
	// ScalingInterval is the time between two rounds of the node autoscaler.
	// Above zero, by default 5 min.
	ScalingInterval time.Duration
	// AcquisitionLag is the time from ordering a machine until it is Ready. By default a constant
	// 150 s.
	AcquisitionLag Lag
	// BillingPeriod is the billing unit; every started period is paid in full. Above zero, by
	// default 1 min.
	BillingPeriod time.Duration
	// BilledFrom is when billing of a machine begins: when it is ordered, the default, or when it
	// is Ready.
	BilledFrom BilledFrom
	// ReleaseLag is the time from releasing a machine until billing ends. By default 5 s.
	ReleaseLag time.Duration
	// Migration is the cost of moving a pod.
	Migration Migration
	// Flavors are the machines that can be bought, at least one, with unique names: those of the
	// file in its order, or those of a catalogue ordered by name.
	Flavors []Flavor
	// Electricity has prices and emissions by zone; it may be empty.
	Electricity []Electricity
	// Namespaces have settings of namespaces, with unique names.
	Namespaces []Namespace
	// Rescheduling configures moves of running pods to more suitable machines, for policies that
	// make them.
	Rescheduling Rescheduling
	// Nodes are the initial machines, at most MaxNodes in total. There may be none if Autoscale is
	// true.
	Nodes []Nodes
	// HomogeneousFlavor is the flavor that single-flavor policies buy. By default that of the first
	// of Nodes, or the first of Flavors.
	HomogeneousFlavor string
	// Autoscale enables buying and releasing machines. By default true.
	Autoscale bool
	// MaxNodes is the maximum number of concurrent machines. By default 1000.
	MaxNodes int64
	// Workload is the arriving work.
	Workload Workload
	// TaskKinds are the pod kinds of patterns, ordered by name: the built-in ones and those of the
	// file.
	TaskKinds []TaskKind
}

// BilledFrom is when billing of a machine begins.
type BilledFrom string

const (
	// FromOrder bills from the order: most clouds bill an instance while it boots.
	FromOrder BilledFrom = "order"
	// FromReady bills from when the machine accepts pods.
	FromReady BilledFrom = "ready"
)

// Lag is a time that varies around its mean. SD is the standard deviation; 0 means that it is
// always Mean.
type Lag struct {
	Mean, SD time.Duration
}

// Migration is the cost of moving a pod: its checkpoint, BytesPerMemory times its memory request,
// is transferred over a link of BitsPerSecond, plus the time Fixed.
type Migration struct {
	// BitsPerSecond is above zero, by default 1,200,000,000.
	BitsPerSecond int64
	// BytesPerMemory is a ratio from 0 to 1000, by default 1.
	BytesPerMemory float64
	// Fixed is by default 2 s.
	Fixed time.Duration
}

// Namespace has the settings of a namespace.
type Namespace struct {
	Name string
	// EnergyWeight is the default for pods that state none, or nil.
	EnergyWeight *float64
}

// WeightOf returns the energy weight of a pod, stated by the pod or else by its namespace, or nil.
func (s *Scenario) WeightOf(p *Pod) *float64 {
	if p.EnergyWeight != nil {
		return p.EnergyWeight
	}
	for i := range s.Namespaces {
		if s.Namespaces[i].Name == cmp.Or(p.Namespace, "default") {
			return s.Namespaces[i].EnergyWeight
		}
	}
	return nil
}

// Rescheduling configures moves of single running pods to machines where the rest of their work
// takes less energy or time. The defaults are those of the descheduler's flags.
type Rescheduling struct {
	// Interval is the time between two rounds, by default 1 min; 0 disables moves.
	Interval time.Duration
	// Residence is the minimum time of a pod on its node before a move, by default 10 min.
	Residence time.Duration
	// Gain is the number of points of 100 by which a move must score better than staying, from 1 to
	// 100, by default 10.
	Gain int64
	// Pods is the maximum number of concurrent moves, by default 20.
	Pods int64
}

// Flavor is a machine type that can be bought, as in a catalogue. The defaults are amd64 for Arch,
// 110 for MaxPods and the flavor's name for MachineType. Power is 0 if not stated.
type Flavor struct {
	catalogue.Flavor

	// Speed divides the runtimes of batch pods: on a machine of speed 2 they take half as long.
	// Above zero and at most 1000, by default 1. A catalogue has no speeds.
	Speed float64
	// PowerCurve has points between idle and full load in order of utilization. Empty means a
	// straight line. See [Flavor.Power].
	PowerCurve []PowerPoint
	// Zone is the zone of the machines: one of the scenario's Electricity, or empty.
	Zone string
}

// Nodes are identical initial machines.
type Nodes struct {
	// Flavor is the name of one of the scenario's flavors.
	Flavor string
	// Count is at least 1, by default 1.
	Count int64
	// Class is the class of pods that they accept, by default [class.Any].
	Class class.Class
}

// Workload is the arriving work: any mix of listed, recorded and random pods. It may be empty.
type Workload struct {
	Pods     []Task
	Traces   []Trace
	Patterns []Pattern
}

// Task is a pod that the file lists, or several identical ones.
type Task struct {
	// Pod is the pod. Its arrival is 0 by default.
	Pod
	// Count is at least 1, by default 1. Above 1 the pods are named Name-0 to Name-(Count-1).
	Count int64
}

// Trace is a recorded workload.
type Trace struct {
	// Name, if not empty, is a prefix of the pod names, followed by a hyphen. It distinguishes two
	// traces with the same pod names.
	Name string
	// TimeScale is the number of seconds of the recording per second of the run: arrivals and
	// runtimes are divided by it. Above zero, by default 1.
	TimeScale float64
	// Limit is the maximum number of pods, the earliest first; 0, the default, means all.
	Limit int64
	// Pods are the selected pods, scaled, ordered by arrival and then by recorded name. Pods that
	// arrive after the horizon are dropped. A pod without a class is batch. A batch pod's runtime
	// may be 0: it ends when it starts.
	Pods []Pod
}

// Pattern draws random pods: a Poisson process with a time-dependent rate or, for [Burst], a fixed
// number at random times. The task kind of each pod is drawn from Mix. See [Pattern.Rate] for the
// shapes.
type Pattern struct {
	// Name is the prefix of the pod names. Together with the seed it determines the random numbers.
	// By default pattern-N, with N counting the patterns from 0.
	Name string
	// Shape determines which of the fields below apply; the others are 0.
	Shape Shape
	// BaseRate is the rate outside peaks, or in bursts for [OnOff].
	BaseRate Rate
	// PeakRate is the highest rate, for [Growing] and [Cycle].
	PeakRate Rate
	// Exponent is the steepness of [Growing], by default 2. Above zero, at most 100.
	Exponent float64
	// Period is the length of one cycle of [Cycle], [OnOff] and [Burst].
	Period time.Duration
	// On is the length of the burst at the beginning of each period of [OnOff] and [Burst].
	On time.Duration
	// Count is the exact number of pods in each period of [Burst].
	Count int64
	// Bursts is the number of bursts of [Burst]; 0 means one in every Period up to the horizon.
	Bursts int64
	// Mix is ordered by kind and has at least one element.
	Mix []Share
}

// Share is the weight of a kind.
type Share struct {
	// Kind is the name of a task kind of the scenario.
	Kind string
	// Weight is in millionths and above zero. A kind is drawn with the probability of its weight in
	// the sum of all weights of its pattern.
	Weight int64
}

// Rate is a number of pods per second.
type Rate float64

// TaskKind is a kind of pod for patterns.
type TaskKind struct {
	// Name is up to 63 lower-case letters, digits, '-' and '_'.
	Name string
	// Class is batch or service.
	Class class.Class
	// Size is the request of a pod.
	Size packing.Size
	// MinRuntime and MaxRuntime limit the runtime of a batch pod or the lifetime of a service,
	// drawn uniformly among whole milliseconds, both ends included. They are in whole milliseconds.
	// If both are 0, for services only, the service runs to the end of the run.
	MinRuntime, MaxRuntime time.Duration
	// Category is by default the name.
	Category string
	// Arch is the CPU architecture as in GOARCH; empty means any.
	Arch string
	// Namespace, EnergyWeight and Migration are as for [Pod].
	Namespace    string
	EnergyWeight *float64
	Migration    Migratable
	// Weights, if not nil, is the range from which the EnergyWeight of each pod is drawn.
	Weights *WeightRange
}

// WeightRange is a range of energy weights, both ends included. Weights are drawn uniformly from
// 1001 values at equal distances.
type WeightRange struct {
	Least, Most float64
}

// BuiltInKinds returns the four kinds of HTAS (Zhong and Buyya, ACM TOIT 2020, table 4), ordered by
// name. Memory is rounded up to a byte. The nginx service runs to the end of the run.
func BuiltInKinds() []TaskKind {
	batch := func(name string, tenths, milliCPU int64, shortest, longest time.Duration) TaskKind {
		return TaskKind{
			Name: name, Class: class.Batch, Size: packing.Size{MemoryBytes: tenthsOfGiB(tenths), MilliCPU: milliCPU},
			MinRuntime: shortest, MaxRuntime: longest, Category: name,
		}
	}
	return []TaskKind{
		batch("batch_large", 9, 300, 9*time.Minute, 12*time.Minute),
		batch("batch_med", 6, 200, 4*time.Minute, 8*time.Minute),
		batch("batch_small", 3, 100, time.Minute, 4*time.Minute),
		{
			Name: "nginx", Class: class.Service, Size: packing.Size{MemoryBytes: tenthsOfGiB(4), MilliCPU: 100},
			Category: "nginx",
		},
	}
}

// tenthsOfGiB returns n/10 GiB in bytes, rounded up.
func tenthsOfGiB(n int64) int64 { return (n<<30 + 9) / 10 }
