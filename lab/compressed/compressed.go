// Package compressed configures Supercargo for a cluster in which time is compressed:
// machines come within seconds and pods live for seconds, so every wait is shortened in
// proportion. The demo and the comparison with other autoscalers use it.
package compressed

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/plugins/timebin"
)

// Lag is how long a machine of the demo takes from its order to its Node, about a hundredth
// of what it takes in a cloud.
const Lag = 1500 * time.Millisecond

// Fleet is a NodeFleet of all MachineDeployments in the namespace default. With stretch 1
// its waits suit machines that come within [Lag]; a greater stretch makes them, and the lag
// expected at first, so much longer. Machines are paid for by the second all the same, and
// all may be released at a time. What it does not state is the default of a NodeFleet.
func Fleet(name string, stretch float64) *v1alpha1.NodeFleet {
	after := func(d time.Duration) metav1.Duration {
		return metav1.Duration{Duration: time.Duration(float64(d) * stretch)}
	}
	residence := after(3 * time.Second)
	return &v1alpha1.NodeFleet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeFleetSpec{
			ClusterAPI: &v1alpha1.ClusterAPIFlavors{Namespace: metav1.NamespaceDefault, Selector: &metav1.LabelSelector{}},
			Pricing:    v1alpha1.FleetPricing{BillingPeriod: metav1.Duration{Duration: time.Second}},
			Scaling: v1alpha1.FleetScaling{
				Interval: after(2 * time.Second), BatchIdle: after(BatchIdle), BatchMax: after(BatchMax),
				JoinTimeout: after(time.Minute), BackOff: after(10 * time.Second), ExpectedLag: after(Lag),
			},
			Consolidation: v1alpha1.FleetConsolidation{
				QueueEmptyFor: after(time.Second), MaxUnavailable: "100%",
				DrainTimeout: after(30 * time.Second), ReleaseDelay: after(300 * time.Millisecond),
				PodResidence: &residence, Horizon: after(time.Hour),
			},
		},
	}
}

// What [Fleet] waits for with stretch 1 before it buys: until no pod has come for BatchIdle,
// but BatchMax at most.
const (
	BatchIdle = 300 * time.Millisecond
	BatchMax  = time.Second
)

// SchedulerConfig is the shipped scheduler configuration as [Scheduler] returns it, with
// the scaling cycle of its time bins divided by timeScale, as lifetimes are: with the cycle
// of real time all pods of a compressed trace would fall into one bin. The plugin takes no
// cycle below a second.
func SchedulerConfig(timeScale float64) ([]byte, error) {
	config, err := read(manifests.SchedulerConfig)
	if err != nil {
		return nil, err
	}
	cycle := Cycle(timeScale)
	profiles, _ := config["profiles"].([]any)
	for _, p := range profiles {
		p.(map[string]any)["pluginConfig"] = []any{
			map[string]any{"name": timebin.Name, "args": map[string]any{"scalingCycle": cycle.String()}},
		}
	}
	return yaml.Marshal(config)
}

// Cycle is the scaling cycle of [SchedulerConfig]: the width of its time bins.
func Cycle(timeScale float64) time.Duration {
	return max(time.Second, time.Duration(float64(configv1.DefaultScalingCycle)/timeScale)).Round(time.Millisecond)
}

// Scheduler is a scheduler configuration in which a pod that found no room is looked at
// again after a second, the least there is, in place of up to ten: where pods live for
// seconds, those that are looked at seldom lose their room to others again and again.
func Scheduler(config []byte) ([]byte, error) {
	fields, err := read(config)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(fields)
}

func read(config []byte) (map[string]any, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(config, &fields); err != nil {
		return nil, fmt.Errorf("read the scheduler configuration: %w", err)
	}
	fields["podInitialBackoffSeconds"], fields["podMaxBackoffSeconds"] = 1, 1
	return fields, nil
}
