package cli

import (
	"fmt"
	"time"

	"sigs.k8s.io/yaml"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/plugins/timebin"
)

// demoScheduler is the shipped scheduler configuration with the scaling cycle of
// its time bins divided by timeScale, as lifetimes are: with the cycle of real
// time all pods of a compressed trace would fall into one bin. The plugin takes
// no cycle below a second.
func demoScheduler(timeScale float64) ([]byte, error) {
	var config map[string]any
	if err := yaml.Unmarshal(manifests.SchedulerConfig, &config); err != nil {
		return nil, fmt.Errorf("read the shipped scheduler configuration: %w", err)
	}
	cycle := max(time.Second, time.Duration(float64(configv1.DefaultScalingCycle)/timeScale)).Round(time.Millisecond)
	profiles, _ := config["profiles"].([]any)
	for _, p := range profiles {
		p.(map[string]any)["pluginConfig"] = []any{
			map[string]any{"name": timebin.Name, "args": map[string]any{"scalingCycle": cycle.String()}},
		}
	}
	return yaml.Marshal(config)
}
