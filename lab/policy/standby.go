package policy

import (
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/baseline"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/lab/standby"
	"supercargo.dev/supercargo/plugins/energyperformance"
)

// heatsStandby is heats with standby: machines of one type are filled one after another, and
// machines that are not needed go into standby. The score ignores idle power, because otherwise it
// would keep pods on any machine that is already busy, however inefficient. Idle power counts when
// machines to wake are chosen. If machines are bought and released, this works as in default.
func heatsStandby(h string) sim.Policy {
	configuration := head + `profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 100
  plugins:
    multiPoint:
      enabled:
      - {name: ` + energyperformance.Name + `, weight: 1300}
      disabled:
      - {name: NodeResourcesBalancedAllocation}
  pluginConfig:
  - name: ` + energyperformance.Name + `
    args: {energyWeight: ` + h + `, idlePower: Ignore}
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - {name: cpu, weight: 1}
        - {name: memory, weight: 1}
`
	return sim.Policy{
		Scheduler: always(configuration), Plugins: probed, Asks: true,
		Controller: func(sc *scenario.Scenario) sim.Controller {
			return suiting(sc, number(h), true, baseline.ClusterAutoscaler(sc))
		},
		Fixed: func(sc *scenario.Scenario) sim.Controller {
			return suiting(sc, number(h), true, newSleeper(sc, number(h)))
		},
	}
}

// sleeper suspends and wakes machines.
type sleeper struct {
	flavors map[string]*scenario.Flavor
	ranks   map[string]float64 // by flavor
	longest time.Duration      // the longest wake time of a machine
	idle    map[string]time.Time
}

func newSleeper(sc *scenario.Scenario, h float64) *sleeper {
	s := &sleeper{flavors: map[string]*scenario.Flavor{}, ranks: ranks(sc.Flavors, h), idle: map[string]time.Time{}}
	for i := range sc.Flavors {
		f := &sc.Flavors[i]
		s.flavors[f.Name] = f
		if f.Standby != nil {
			s.longest = max(s.longest, f.Standby.Wake)
		}
	}
	return s
}

// ranks orders flavors by the HEATS score for work that fills a machine, including its idle power.
// The flavor with the best score has the lowest rank.
func ranks(flavors []scenario.Flavor, h float64) map[string]float64 {
	options, results := make([]score.Option, len(flavors)), make([]score.Result, len(flavors))
	for i := range flavors {
		f := &flavors[i]
		runtime := 1 / f.Speed
		joules := float64(f.MilliwattsFull) / float64(f.Size.MilliCPU) * runtime // of a core-second of work at speed 1
		options[i] = score.Option{
			Known: joules > 0, Energy: profile.Prediction{Value: joules, Trust: 1}, Runtime: profile.Prediction{Value: runtime, Trust: 1},
		}
	}
	score.Rank(h, options, results)
	byName := make(map[string]float64, len(flavors))
	for i, r := range results {
		byName[flavors[i].Name] = -(h*r.Energy + (1-h)*r.Rate)
	}
	return byName
}

// Decide implements sim.Controller. It expects the pods that arrived within the longest wake time
// to arrive again, as the policy supercargo does when it buys.
func (s *sleeper) Decide(now time.Time, state *cluster.State) cluster.Plan {
	machines := make([]standby.Machine, 0, len(state.Nodes))
	for i := range state.Nodes {
		machines = append(machines, s.machine(now, &state.Nodes[i]))
	}
	var expected []cluster.Pod
	for _, p := range state.Recent {
		if p.Waited <= s.longest {
			expected = append(expected, p)
		}
	}
	decided := standby.Decide(machines, state.Pending, expected)
	plan := cluster.Plan{Wake: decided.Recheck}
	for _, name := range decided.Sleep {
		plan.Suspend = append(plan.Suspend, cluster.Stay{Node: name, Reason: "it has idled for as long as waking it costs"})
	}
	for _, name := range decided.Wake {
		plan.Resume = append(plan.Resume, cluster.Stay{Node: name, Reason: "the awake machines have no room for pods that are pending or expected"})
	}
	if len(expected) > 0 && (plan.Wake == 0 || state.SchedulingInterval < plan.Wake) {
		plan.Wake = state.SchedulingInterval // the expectation expires
	}
	return plan
}

// machine returns a node in the form that the decision needs.
func (s *sleeper) machine(now time.Time, n *cluster.Node) standby.Machine {
	f := s.flavors[n.Flavor]
	free, pods := s.room(n)
	m := standby.Machine{
		Name: n.Name, Free: free, MaxPods: *n.MaxPods - pods, Arch: n.Arch, Rank: s.ranks[n.Flavor],
		Power: energy.Watts(float64(f.MilliwattsIdle) / 1000),
	}
	if f.Standby != nil {
		m.Asleep, m.Waking = energy.Watts(float64(f.Standby.Milliwatts)/1000), energy.Watts(float64(f.Standby.WakeMilliwatts)/1000)
		m.Wakes = f.Standby.Wake
	}
	switch {
	case n.Phase == cluster.Asleep:
		m.Phase = standby.Asleep
	case n.Phase != cluster.Ready:
		m.Phase = standby.Waking
	case len(n.Pods) == 0:
		since, known := s.idle[n.Name]
		if !known {
			since = now
			s.idle[n.Name] = now
		}
		m.Idle = new(now.Sub(since))
		return m
	}
	delete(s.idle, n.Name)
	return m
}

// room returns the free room of a node at the latest time when a machine that is woken now accepts
// pods, and its number of pods then: pods that are expected to end earlier are not counted.
func (s *sleeper) room(n *cluster.Node) (free packing.Size, pods int64) {
	free, pods = n.Free(), int64(len(n.Pods))
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.Class == class.Batch && p.Runtime > 0 && p.Runtime <= s.longest {
			free = packing.Size{MilliCPU: free.MilliCPU + p.Size.MilliCPU, MemoryBytes: free.MemoryBytes + p.Size.MemoryBytes}
			pods--
		}
	}
	return free, pods
}
