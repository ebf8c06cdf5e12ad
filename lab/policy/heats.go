package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/energy/profile"
	"supercargo.dev/supercargo/lab/baseline"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/plugins/energyperformance"
)

const (
	heatsPrefix   = "heats-"
	standbyPrefix = "standby-"
)

// weight is a plain number from 0 to 1. Other ways to write one, as 1e-1, would be further
// names of the same policy.
var weight = regexp.MustCompile(`^(0(\.[0-9]{1,6})?|1(\.0{1,6})?)$`)

// weighted returns the policy of a weight that stands in its name.
func weighted(name, h string, of func(h string) sim.Policy) (sim.Policy, error) {
	if !weight.MatchString(h) {
		return sim.Policy{}, fmt.Errorf("policy %q: %q is no weight of energy, want a number from 0 to 1 with up to six decimals, such as 0.618", name, h)
	}
	p := of(h)
	p.Name = name
	return p, nil
}

// heats is HEATS with one weight of energy for all pods: its score alone, by the
// scheduler's own plugin, decides between machine types, and the stock scores between
// nodes of one type, and running pods move where that score, with what the move takes, is
// better. As in the paper, idle power is not the pod's. Machines are bought and released
// as in default, if at all.
func heats(h string) sim.Policy {
	// One point of the score weighs more than all stock scores together, 12 times 100.
	configuration := head + `profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 100
  plugins:
    multiPoint:
      enabled:
      - {name: ` + energyperformance.Name + `, weight: 1300}
  pluginConfig:
  - name: ` + energyperformance.Name + `
    args: {energyWeight: ` + h + `, idlePower: Ignore}
`
	return sim.Policy{
		Scheduler: always(configuration), Plugins: probed, Asks: true,
		Controller: func(sc *scenario.Scenario) sim.Controller {
			return suiting(sc, number(h), false, baseline.ClusterAutoscaler(sc))
		},
		Fixed: func(sc *scenario.Scenario) sim.Controller { return suiting(sc, number(h), false, nil) },
	}
}

// number is a weight that has been matched.
func number(h string) float64 {
	w, err := strconv.ParseFloat(h, 64)
	if err != nil {
		panic(err)
	}
	return w
}

// known are profiles that do not change.
type known profile.Set

// Machines implements energyperformance.Machines.
func (k known) Machines() profile.Set { return profile.Set(k) }

// probed gives the plugin EnergyPerformance what is learned.
func probed(sc *scenario.Scenario, clk clock.PassiveClock) (runtime.Registry, error) {
	machines, err := learned(sc)
	if err != nil {
		return nil, err
	}
	return runtime.Registry{energyperformance.Name: energyperformance.New(clk, known(machines))}, nil
}

// learned is what can be learned from probes of the scenario's machines. As in a cluster, a
// machine type from whose probes nothing can be learned, since no power is stated, is
// unknown.
func learned(sc *scenario.Scenario) (profile.Set, error) {
	machines := profile.Set{}
	for i := range sc.Flavors {
		f := &sc.Flavors[i]
		if _, done := machines[f.MachineType]; done {
			continue
		}
		models, _, err := profile.Learn(sim.Probe(f))
		if errors.Is(err, profile.ErrTooFew) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("learn from probes of machine type %s: %w", f.MachineType, err)
		}
		machines[f.MachineType] = &profile.Machine{Type: f.MachineType, Object: f.MachineType, Profile: models, Learned: sim.Epoch, Power: f.Power()}
	}
	return machines, nil
}
