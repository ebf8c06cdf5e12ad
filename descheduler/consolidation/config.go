package consolidation

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/moves"
)

// Mode is whether decisions are carried out.
type Mode string

const (
	// Off makes no decisions.
	Off Mode = "Off"
	// Observe makes decisions and reports them, but moves nothing.
	Observe Mode = "Observe"
	// Act moves pods.
	Act Mode = "Act"
)

// Policy is the rule that selects nodes to empty.
type Policy string

const (
	// CostAware empties nodes if that is expected to save more than it costs.
	CostAware Policy = "CostAware"
	// HTAS empties nodes that have been under-used for a while when no batch pod is pending
	// (HTAS, algorithm 5), whatever the cost.
	HTAS Policy = "HTAS"
)

// Config configures which nodes are emptied, and when.
type Config struct {
	// Mode is whether decisions are carried out, and Policy how they are made.
	Mode   Mode
	Policy Policy
	// NodeSelector selects nodes by their labels; empty for all. Nodes of the control plane and
	// of NodeFleets are never emptied.
	NodeSelector string
	// Interval is the time between decisions.
	Interval time.Duration
	// ThresholdPercent is the utilization of a node below which it is under-used, as the mean of
	// CPU and memory, for policy HTAS.
	ThresholdPercent int
	// After is how long a node must have been under-used, and QueueEmpty how long no batch pod
	// may have been pending.
	After, QueueEmpty time.Duration
	// Residence is how long a pod must have been on its node before it is moved.
	Residence time.Duration
	// MaxNodes is the maximum number of nodes to empty at the same time, and MaxPods the maximum
	// number of pods to move at the same time.
	MaxNodes, MaxPods int
	// DrainTimeout is how long pods may take to leave, beyond the expected time, before the node
	// is uncordoned.
	DrainTimeout time.Duration
	// Horizon is how long the cluster is assumed to stay the same.
	Horizon time.Duration
	// BillingPeriod is the billing period of machines: each started one is paid in full.
	BillingPeriod time.Duration
	// MoveServices allows pods of services to be moved too.
	MoveServices bool
	// CPUHour and GiBHour are prices in dollars, for nodes without the price annotation.
	CPUHour, GiBHour float64
	// Bandwidth is the expected bandwidth of checkpoint transfers, in bits per second.
	Bandwidth int64
	// Energy configures the moves of single pods to machines that suit them better.
	Energy Energy
}

// Energy configures the moves of single running pods to machines where the rest of their work
// takes less energy or time, according to MachineProfiles.
type Energy struct {
	// Mode is whether decisions are carried out.
	Mode Mode
	// Interval is the time between decisions.
	Interval time.Duration
	// Gain is by how many points of 100 the score of a move must exceed that of staying.
	Gain int
	// Weight is H of pods without the annotation, on themselves or on their namespace.
	Weight float64
	// IdleCounts counts the idle power of a machine without pods as saved.
	IdleCounts bool
	// Tariff weighs joules by their cost or emissions in the zone of a node.
	Tariff Tariff
}

// Defaults returns the defaults of the flags.
func Defaults() Config {
	return Config{
		Mode: Observe, Policy: CostAware, Interval: 20 * time.Second, ThresholdPercent: 50,
		After: 5 * time.Minute, QueueEmpty: 5 * time.Minute, Residence: 10 * time.Minute, MaxNodes: 2, MaxPods: 20,
		DrainTimeout: 15 * time.Minute, Horizon: time.Hour, BillingPeriod: time.Minute, CPUHour: 0.03, GiBHour: 0.004,
		Bandwidth: cluster.DefaultMigration.BitsPerSecond,
		Energy: Energy{Mode: Observe, Interval: time.Minute, Gain: moves.DefaultGain, Weight: score.DefaultWeight, IdleCounts: true,
			Tariff: Tariff{Unit: tariff.Dollars, MaxAge: tariff.DefaultMaxAge}},
	}
}

// AddFlags adds the flags. The values of c are their defaults.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&c.Mode), "consolidation", string(c.Mode), "what to do about under-used nodes that belong to no NodeFleet: Off, Observe (report what it would do) or Act")
	flags.StringVar((*string)(&c.Policy), "consolidation-policy", string(c.Policy), "CostAware drains nodes if that saves more than it costs, HTAS drains nodes below --under-used-below")
	flags.StringVar(&c.NodeSelector, "consolidation-node-selector", c.NodeSelector, "label `selector` of the nodes that can be drained (default: all except those of the control plane)")
	flags.DurationVar(&c.Interval, "consolidation-interval", c.Interval, "how often to decide")
	flags.IntVar(&c.ThresholdPercent, "under-used-below", c.ThresholdPercent, "`percent` of CPU and memory, as the mean of both, below which HTAS considers a node under-used")
	flags.DurationVar(&c.After, "under-used-for", c.After, "how long a node must have been under-used without interruption")
	flags.DurationVar(&c.QueueEmpty, "queue-empty-for", c.QueueEmpty, "how long no batch pod may have been pending")
	flags.DurationVar(&c.Residence, "pod-residence", c.Residence, "how long a pod must have been on its node before it can be moved")
	flags.IntVar(&c.MaxNodes, "max-nodes-emptied", c.MaxNodes, "maximum nodes to drain at the same time")
	flags.IntVar(&c.MaxPods, "max-pods-moving", c.MaxPods, "maximum pods that leave drained nodes at the same time")
	flags.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long pods may take to leave, beyond the expected time, before the node is uncordoned")
	flags.DurationVar(&c.Horizon, "consolidation-horizon", c.Horizon, "how far into the future to count savings")
	flags.DurationVar(&c.BillingPeriod, "billing-period", c.BillingPeriod, "billing period of machines: each started one is paid in full")
	flags.BoolVar(&c.MoveServices, "move-services", c.MoveServices, "also move pods of services that allow it")
	flags.Float64Var(&c.CPUHour, "default-price-per-cpu-hour", c.CPUHour, "`dollars` per CPU and hour, for nodes without the annotation supercargo.dev/price-per-hour")
	flags.Float64Var(&c.GiBHour, "default-price-per-gib-hour", c.GiBHour, "`dollars` per GiB of memory and hour, for nodes without that annotation")
	flags.Int64Var(&c.Bandwidth, "migration-bandwidth", c.Bandwidth, "expected bandwidth of checkpoint transfers, in `bits` per second")
	c.Energy.addFlags(flags)
}

func (e *Energy) addFlags(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&e.Mode), "energy-moves", string(e.Mode), "what to do about pods that other machines suit better by their MachineProfiles: Off, Observe (report what it would do) or Act")
	flags.DurationVar(&e.Interval, "energy-moves-interval", e.Interval, "how often to decide about energy moves")
	flags.IntVar(&e.Gain, "energy-moves-gain", e.Gain, "by how many points of 100 the score of a move, with all its costs, must exceed that of staying")
	flags.Float64Var(&e.Weight, "default-energy-weight", e.Weight, "`weight` of energy against runtime, from 0 to 1, for pods and namespaces without the annotation supercargo.dev/energy-weight")
	flags.BoolVar(&e.IdleCounts, "idle-power-counts", e.IdleCounts, "count the idle power of an emptied machine as saved, because it will be switched off or deleted")
	flags.StringVar(&e.Tariff.File, "energy-tariff-file", e.Tariff.File, "CSV `file` with columns time, zone and dollars_per_kwh or grams_per_kwh, read again each time; weighs energy by its cost in the zone of a node (default: the same everywhere)")
	flags.StringVar((*string)(&e.Tariff.Unit), "energy-tariff-unit", string(e.Tariff.Unit), "unit in which to weigh energy: Dollars, or Grams of CO2 equivalent")
	flags.DurationVar(&e.Tariff.MaxAge, "energy-tariff-max-age", e.Tariff.MaxAge, "how long a value of the file is valid if no later value of its zone follows")
}

func (e *Energy) validate() error {
	if e.Mode != Off && e.Mode != Observe && e.Mode != Act {
		return fmt.Errorf("--energy-moves: %q: must be Off, Observe or Act", e.Mode)
	}
	if e.Interval < time.Second {
		return fmt.Errorf("--energy-moves-interval: %v: must be at least 1s", e.Interval)
	}
	if e.Gain < 1 || e.Gain > score.Best {
		return fmt.Errorf("--energy-moves-gain: %d: must be from 1 to %d", e.Gain, score.Best)
	}
	if !(e.Weight >= 0 && e.Weight <= 1) {
		return fmt.Errorf("--default-energy-weight: %v: must be from 0 to 1", e.Weight)
	}
	return e.Tariff.validate()
}

// Off reports whether no decisions are made at all.
func (c *Config) Off() bool { return c.Mode == Off && c.Energy.Mode == Off }

// Validate returns the first error in the configuration, with the name of its flag.
func (c *Config) Validate() error {
	if err := c.Energy.validate(); err != nil {
		return err
	}
	if c.Mode != Off && c.Mode != Observe && c.Mode != Act {
		return fmt.Errorf("--consolidation: %q: must be Off, Observe or Act", c.Mode)
	}
	if c.Policy != CostAware && c.Policy != HTAS {
		return fmt.Errorf("--consolidation-policy: %q: must be CostAware or HTAS", c.Policy)
	}
	if _, err := labels.Parse(c.NodeSelector); err != nil {
		return fmt.Errorf("--consolidation-node-selector: %w", err)
	}
	if c.ThresholdPercent < 1 || c.ThresholdPercent > 100 {
		return fmt.Errorf("--under-used-below: %d: must be from 1 to 100", c.ThresholdPercent)
	}
	for _, f := range []struct {
		flag       string
		got, least int64
	}{
		{"consolidation-interval", int64(c.Interval), int64(time.Second)}, {"under-used-for", int64(c.After), 0}, {"queue-empty-for", int64(c.QueueEmpty), 0},
		{"pod-residence", int64(c.Residence), 0}, {"max-nodes-emptied", int64(c.MaxNodes), 1}, {"max-pods-moving", int64(c.MaxPods), 1},
		{"drain-timeout", int64(c.DrainTimeout), int64(time.Second)}, {"consolidation-horizon", int64(c.Horizon), int64(time.Minute)},
		{"billing-period", int64(c.BillingPeriod), 0}, {"migration-bandwidth", c.Bandwidth, 1},
	} {
		if f.got < f.least {
			return fmt.Errorf("--%s: %d: must be at least %d", f.flag, f.got, f.least)
		}
	}
	if !(c.CPUHour >= 0 && c.CPUHour <= 1000) || !(c.GiBHour >= 0 && c.GiBHour <= 1000) {
		return fmt.Errorf("--default-price-per-cpu-hour, --default-price-per-gib-hour: must be from 0 to 1000 dollars")
	}
	return nil
}

// planner returns the configuration of the planner.
func (c *Config) planner() moves.DrainConfig {
	m := moves.DrainConfig{
		After: c.After, QueueEmpty: max(c.QueueEmpty, 1), Method: cluster.Evict, MoveServices: c.MoveServices,
		PodResidence: c.Residence, Budget: moves.Budget{Machines: c.MaxNodes, Pods: c.MaxPods}, Explain: true,
		Patience: c.DrainTimeout,
	}
	if c.Policy == HTAS {
		m.Threshold = float64(c.ThresholdPercent) / 100
		return m
	}
	m.Threshold, m.Worthwhile, m.Margin, m.Horizon = 1, true, moves.DefaultMargin, c.Horizon
	return m
}
