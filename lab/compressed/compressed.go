// Package compressed configures Supercargo for a cluster in compressed time: machines start within
// seconds and pods live for seconds, so every wait is shortened in proportion. The demo and the
// comparison with other autoscalers use it.
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

// Lag is the start-up time of a machine of the demo, about a hundredth of the time in a cloud.
const Lag = 1500 * time.Millisecond

// Fleet returns a NodeFleet of all MachineDeployments in the namespace default. With stretch 1 its
// waits suit machines that start within [Lag]; stretch multiplies them and the lag expected at
// first. The billing period is one second for any stretch, and all machines may be released at
// once. Fields that are not set take the defaults of a NodeFleet.
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

// The waits of [Fleet] before a purchase with stretch 1: until no pod has arrived for BatchIdle,
// but at most BatchMax.
const (
	BatchIdle = 300 * time.Millisecond
	BatchMax  = time.Second
)

// SchedulerConfig returns the shipped scheduler configuration as modified by [Scheduler], with the
// scaling cycle of its time bins divided by timeScale, like lifetimes. With the cycle of real time,
// all pods of a compressed trace would fall into one bin. The plugin accepts no cycle below a
// second.
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

// Cycle returns the scaling cycle of [SchedulerConfig], the width of its time bins.
func Cycle(timeScale float64) time.Duration {
	return max(time.Second, time.Duration(float64(configv1.DefaultScalingCycle)/timeScale)).Round(time.Millisecond)
}

// Scheduler returns the configuration with a back-off of one second, the minimum, for unschedulable
// pods, instead of up to ten. Where pods live for seconds, pods with a longer back-off lose their
// room to others again and again.
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
