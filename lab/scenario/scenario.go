package scenario

import (
	"cmp"
	"time"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
)

// Scenario is a simulation's input as [Read] returns it: complete and checked.
// It is not changed after that, so it may be shared.
type Scenario struct {
	// Name is metadata.name, 1 to 253 bytes. Required.
	Name string
	// Horizon is when arrivals end. The run continues until all batch work has
	// ended. Required, above zero.
	Horizon time.Duration
	// SchedulingInterval is the longest time between two looks at the pending
	// queue. Above zero, by default 20 s.
	SchedulingInterval time.Duration
	// ScalingInterval is the time between two rounds of the node autoscaler.
	// Above zero, by default 5 min.
	ScalingInterval time.Duration
	// AcquisitionLag is from asking for a machine until it is Ready. By default
	// 150 s, always.
	AcquisitionLag Lag
	// BillingPeriod is the unit that is paid; every started one is paid in full.
	// Above zero, by default 1 min.
	BillingPeriod time.Duration
	// BilledFrom is when paying for a machine begins: when it is asked for, the
	// default, or when it is Ready.
	BilledFrom BilledFrom
	// ReleaseLag is from giving a machine back until it is no longer paid. By
	// default 5 s.
	ReleaseLag time.Duration
	// Migration is what moving a pod takes.
	Migration Migration
	// Flavors are the machines that can be had, one or more, of unlike names:
	// those of the file in its order, or those of a catalogue ordered by name.
	Flavors []Flavor
	// Electricity is what it costs and emits, by zone; there may be none.
	Electricity []Electricity
	// Namespaces are those about which there is something to say, of unlike names.
	Namespaces []Namespace
	// Rescheduling is how running pods are moved to machines that suit them better, by
	// policies that do.
	Rescheduling Rescheduling
	// Nodes are the machines that are there at the start; there may be none
	// where Autoscale is true. They are at most MaxNodes together.
	Nodes []Nodes
	// HomogeneousFlavor names the flavor that policies buy which know only one.
	// By default that of the first of Nodes, or the first of Flavors.
	HomogeneousFlavor string
	// Autoscale says whether machines are bought and released. By default true.
	Autoscale bool
	// MaxNodes is how many machines may be there at a time. By default 1000.
	MaxNodes int64
	// Workload is the work that arrives.
	Workload Workload
	// TaskKinds are the kinds of pods that patterns draw from, ordered by name:
	// the built-in ones and those of the file.
	TaskKinds []TaskKind
}

// BilledFrom is when paying for a machine begins.
type BilledFrom string

const (
	// FromOrder is when it is asked for: most clouds bill an instance that boots.
	FromOrder BilledFrom = "order"
	// FromReady is when it takes pods.
	FromReady BilledFrom = "ready"
)

// Lag is a time that varies around its mean. SD is the standard deviation; 0
// means always Mean.
type Lag struct {
	Mean, SD time.Duration
}

// Migration is what moving a pod takes: its checkpoint, BytesPerMemory times
// its memory request, goes over a link of BitsPerSecond, and Fixed comes on top.
type Migration struct {
	// BitsPerSecond is above zero, by default 1,200,000,000.
	BitsPerSecond int64
	// BytesPerMemory is a ratio from 0 to 1000, by default 1.
	BytesPerMemory float64
	// Fixed is by default 2 s.
	Fixed time.Duration
}

// Namespace is what is said about the pods of a namespace.
type Namespace struct {
	Name string
	// EnergyWeight is that of pods which state none; nil for none.
	EnergyWeight *float64
}

// WeightOf returns the weight of energy that is stated for a pod, by itself or else by its
// namespace; nil if none is.
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

// Rescheduling is how running pods are moved one by one to machines where the rest of their
// work takes less energy or time. The defaults are those of the descheduler's flags.
type Rescheduling struct {
	// Interval is the time between two looks, by default 1 min; 0 moves none.
	Interval time.Duration
	// Residence is for how long a pod must have been on its node, by default 10 min.
	Residence time.Duration
	// Gain is by how many points of 100 moving must score better than staying, from 1 to
	// 100, by default 10.
	Gain int64
	// Pods is how many may be on their way at once, by default 20.
	Pods int64
}

// Flavor is a kind of machine that can be had. As in a catalogue, except that
// Arch is amd64, MaxPods 110 and MachineType the flavor's name where the file
// does not state them. Power is 0 where not stated.
type Flavor struct {
	catalogue.Flavor

	// Speed divides the runtimes of batch pods: on a machine of speed 2 they take
	// half as long. Above zero and at most 1000, by default 1. A catalogue has no
	// speeds.
	Speed float64
	// PowerCurve has points between idle and full load, the lowest utilisation first;
	// empty for a straight line. See [Flavor.Power].
	PowerCurve []PowerPoint
	// Standby is nil for machines that are always on.
	Standby *Standby
	// Zone is where the machines are: one of the scenario's Electricity, or empty.
	Zone string
}

// Nodes are equal machines that are there at the start.
type Nodes struct {
	// Flavor names one of the scenario's flavors.
	Flavor string
	// Count is 1 or more, by default 1.
	Count int64
	// Class is which pods they take, by default [class.Any].
	Class class.Class
}

// Workload is the work that arrives: any mix of pods that are written out,
// recorded and drawn at random. It may be empty.
type Workload struct {
	Pods     []Task
	Traces   []Trace
	Patterns []Pattern
}

// Task is a pod that the file writes out, or several equal ones.
type Task struct {
	// Pod is the pod. Its arrival is 0 by default.
	Pod
	// Count is 1 or more, by default 1. Above 1 the pods are called Name-0 to
	// Name-(Count-1).
	Count int64
}

// Trace is a recorded workload.
type Trace struct {
	// Name stands before the names of its pods, with a hyphen, when it is not
	// empty. It keeps two traces with pods of equal names apart.
	Name string
	// File is the path as the scenario states it.
	File string
	// TimeScale is how many seconds of the recording pass in one second of the
	// run: arrivals and runtimes are divided by it. Above zero, by default 1.
	TimeScale float64
	// Limit is how many pods are taken, the earliest first; 0, the default, takes
	// all.
	Limit int64
	// Pods are those taken, scaled, ordered by arrival and then name as recorded.
	// Pods that arrive after the horizon are left out. A pod without class is
	// batch. A batch pod's runtime may be 0: it ends as it starts.
	Pods []Pod
}

// Pattern draws pods at random: a Poisson process whose rate depends on the
// time, or for [Burst] a given number at random times. Each pod is of a task kind drawn from Mix. See [Pattern.Rate] for the
// shapes.
type Pattern struct {
	// Name stands before the names of its pods, and with the seed it decides
	// what is drawn. By default pattern-N, N counting the patterns from 0.
	Name string
	// Shape decides which of the numbers below apply; the others are 0.
	Shape Shape
	// BaseRate is the rate outside peaks, or in bursts for [OnOff].
	BaseRate Rate
	// PeakRate is the highest rate, for [Growing] and [Cycle].
	PeakRate Rate
	// Exponent says how sharply [Growing] turns upwards, by default 2. Above
	// zero, at most 100.
	Exponent float64
	// Period is one round of [Cycle], [OnOff] and [Burst].
	Period time.Duration
	// On is how long the burst takes that each period of [OnOff] and [Burst] begins with.
	On time.Duration
	// Count is how many pods each period of [Burst] has, no more and no less.
	Count int64
	// Bursts is how many of them [Burst] has; 0 is one in every Period up to the horizon.
	Bursts int64
	// Mix is ordered by kind. There is at least one.
	Mix []Share
}

// Share is how often a kind is drawn.
type Share struct {
	// Kind names a task kind of the scenario.
	Kind string
	// Weight is in millionths and above zero. A kind is drawn with the chance
	// that its weight has in the sum of all weights of its pattern.
	Weight int64
}

// Rate is in pods per second.
type Rate float64

// TaskKind is a kind of pod that patterns draw from.
type TaskKind struct {
	// Name is up to 63 lower-case letters, digits, '-' and '_'.
	Name string
	// Class is batch or service.
	Class class.Class
	// Size is what a pod requests.
	Size packing.Size
	// MinRuntime and MaxRuntime bound the runtime of a batch pod or the lifetime
	// of a service, drawn uniformly among the whole milliseconds between them,
	// both included. They are in whole milliseconds. Both 0, for services only:
	// to the end of the run.
	MinRuntime, MaxRuntime time.Duration
	// Category is by default the name.
	Category string
	// Arch is the CPU architecture as in GOARCH; empty means any.
	Arch string
	// Namespace, EnergyWeight and Migration are as for [Pod].
	Namespace    string
	EnergyWeight *float64
	Migration    Migratable
	// Weights, if not nil, is what the EnergyWeight of each pod is drawn from.
	Weights *WeightRange
}

// WeightRange is a range of weights of energy, both ends included. They are drawn uniformly
// from a thousand and one in equal steps.
type WeightRange struct {
	Least, Most float64
}

// BuiltInKinds returns the four kinds of HTAS (Zhong and Buyya, ACM TOIT 2020,
// table 4), ordered by name. Memory is rounded up to a byte. The nginx service
// runs to the end of the run.
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
