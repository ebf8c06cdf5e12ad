package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/lab/baseline"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/plugins/energyperformance"
)

const heatsPrefix = "heats-"

// weight matches a plain number from 0 to 1. Other notations, such as 1e-1, would be additional
// names of the same policy.
var weight = regexp.MustCompile(`^(0(\.[0-9]{1,6})?|1(\.0{1,6})?)$`)

// weighted returns the policy for a weight that is part of its name.
func weighted(name, h string, of func(h string) sim.Policy) (sim.Policy, error) {
	if !weight.MatchString(h) {
		return sim.Policy{}, fmt.Errorf("policy %q: the weight %q must be a number from 0 to 1 with up to six decimals, such as 0.618", name, h)
	}
	p := of(h)
	p.Name = name
	return p, nil
}

// heats is HEATS with one energy weight for all pods. Its score, computed by the scheduler's own
// plugin, alone decides between machine types, and the stock scores decide between nodes of one
// type. Running pods move where that score is better including the cost of the move. As in the
// paper, idle power is not attributed to pods. Machines are bought and released as in default, if
// at all.
func heats(h string) sim.Policy {
	// One point of the score outweighs all stock scores together, which reach 12 times 100.
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
			return suiting(sc, number(h), baseline.ClusterAutoscaler(sc))
		},
		Fixed: func(sc *scenario.Scenario) sim.Controller { return suiting(sc, number(h), nil) },
	}
}

// number parses a weight that matches the pattern.
func number(h string) float64 {
	w, err := strconv.ParseFloat(h, 64)
	if err != nil {
		panic(err)
	}
	return w
}

// known are constant profiles.
type known profile.Set

// Machines implements energyperformance.Machines.
func (k known) Machines() profile.Set { return profile.Set(k) }

// probed configures the plugin EnergyPerformance with the learned profiles.
func probed(sc *scenario.Scenario, clk clock.PassiveClock) (runtime.Registry, error) {
	machines, err := learned(sc)
	if err != nil {
		return nil, err
	}
	return runtime.Registry{energyperformance.Name: energyperformance.New(clk, known(machines))}, nil
}

// learned returns the profiles that probes of the scenario's machines yield. As in a cluster, a
// machine type without a stated power is unknown, because nothing can be learned from its probes.
func learned(sc *scenario.Scenario) (profile.Set, error) {
	machines := profile.Set{}
	for i := range sc.Flavors {
		f := &sc.Flavors[i]
		if _, done := machines[f.MachineType]; done {
			continue
		}
		models, _, err := profile.Learn(sim.ProfileSamples(f))
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
