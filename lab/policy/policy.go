// Package policy has the named policies of the simulator. Each consists of a scheduler
// configuration and a controller that decides about machines and moves. The policy supercargo runs
// the decision of a NodeFleet, autoscaler/fleet/fleetdecide. The policies that it is compared with are
// in package baseline.
package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/baseline"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/plugins/timebin"
)

// Names returns the names of all policies, the baseline first, except heats-H, which exists for
// every number H.
func Names() []string {
	return []string{"default", "most-allocated", "coca", "stratus", "htas", "supercargo"}
}

// ByName returns a policy. The error for an unknown name lists the known ones.
func ByName(name string) (sim.Policy, error) {
	p, ok := map[string]sim.Policy{
		"default":        {Scheduler: stock, Controller: baseline.ClusterAutoscaler},
		"most-allocated": {Scheduler: mostAllocated, Controller: baseline.ClusterAutoscaler},
		"coca":           {Scheduler: bestFit, Controller: baseline.COCA},
		"stratus":        {Scheduler: runtimeBins, Plugins: baseline.BinPlugins, Controller: baseline.Stratus},
		"htas":           {Scheduler: timeBins(manifests.SchedulerConfig), Groups: true, Controller: baseline.HTAS},
		"supercargo":     {Scheduler: always(string(manifests.SchedulerConfig)), Controller: supercargo, Asks: true, Interval: promptly},
	}[name]
	if p, is, err := priced(name); is {
		return p, err
	}
	if text, is := strings.CutPrefix(name, heatsPrefix); is {
		return weighted(name, text, heats)
	}
	if !ok {
		return sim.Policy{}, fmt.Errorf("policy %q must be one of %s, or heats-H with H from 0 to 1, with -dollars or -grams appended to weigh the cost or the emissions of energy", name, strings.Join(Names(), ", "))
	}
	p.Name = name
	return p, nil
}

// promptly makes a controller run within a second of any event, the minimum interval between rounds
// of a NodeFleet.
func promptly(*scenario.Scenario) time.Duration { return time.Second }

// HTASWith is the policy htas with other values for two times that the paper leaves open: how long
// a machine must have been under-used, and how long no batch pod may have waited, before the
// machine is emptied.
func HTASWith(underUsedFor, queueEmpty time.Duration) sim.Policy {
	return htasBy(baseline.HTASWith(underUsedFor, queueEmpty))
}

// HTASMoving is the policy htas with another method of moving pods off emptied machines. With
// [cluster.Wait], no pod is moved.
func HTASMoving(m cluster.Method) sim.Policy { return htasBy(baseline.HTASMoving(m)) }

func htasBy(c func(*scenario.Scenario) sim.Controller) sim.Policy {
	p, err := ByName("htas")
	if err != nil {
		panic(err) // it is in the list
	}
	p.Controller = c
	return p
}

// The configurations do not depend on the scenario, except for the width of time bins.
var (
	stock         = always(head)
	mostAllocated = always(head + `profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: # as the documentation of Kubernetes has it for bin packing
        type: MostAllocated
        resources:
        - {name: cpu, weight: 1}
        - {name: memory, weight: 1}
`)
	// bestFit packs by best fit, without node classes and in the stock queue order.
	bestFit = always(head + `profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 100
  plugins:
    multiPoint:
      enabled:
      - {name: BestFit, weight: 10000}
    postFilter:
      enabled:
      - name: BestFit
`)
	// runtimeBins groups pods by runtime and spreads them inside a bin: one bin outweighs all stock
	// scores together.
	runtimeBins = always(head + `profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 100
  plugins:
    multiPoint:
      enabled:
      - {name: ` + baseline.BinName + `, weight: 2000}
`)
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func always(configuration string) func(*scenario.Scenario) []byte {
	return func(*scenario.Scenario) []byte { return []byte(configuration) }
}

// timeBins sets the width of the time bins to the scaling interval of the scenario, within the
// limits of the plugin.
func timeBins(configuration []byte) func(*scenario.Scenario) []byte {
	return func(s *scenario.Scenario) []byte {
		return withScalingCycle(configuration, s.ScalingInterval)
	}
}

// withScalingCycle sets the argument of TimeBin in every profile, within the limits of the plugin.
func withScalingCycle(configuration []byte, cycle time.Duration) []byte {
	cycle = min(max(cycle, time.Second), 24*time.Hour)
	var config map[string]any
	if err := yaml.Unmarshal(configuration, &config); err != nil {
		panic(fmt.Sprintf("the embedded scheduler configuration is not valid YAML: %v", err))
	}
	timeBin := map[string]any{"name": timebin.Name, "args": map[string]any{"scalingCycle": cycle.String()}}
	for _, profile := range config["profiles"].([]any) {
		p := profile.(map[string]any)
		have, _ := p["pluginConfig"].([]any)
		if usesTimeBin, _ := json.Marshal(p["plugins"]); strings.Contains(string(usesTimeBin), `"`+timebin.Name+`"`) {
			p["pluginConfig"] = append(have, timeBin)
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		panic(fmt.Sprintf("write a scheduler configuration: %v", err))
	}
	return text
}
