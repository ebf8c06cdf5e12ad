package plugins_test

import (
	"testing"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/runtimes"
)

// The API must not import packages that decide, so both define these defaults.
func TestArgumentsDefaultToWhatDecisionsDefaultTo(t *testing.T) {
	tests := []struct {
		name      string
		got, want any
	}{
		{"the weight of energy", configv1.DefaultEnergyWeight, score.DefaultWeight},
		{"how long a tariff's last value holds", configv1.DefaultTariffMaxAge, tariff.DefaultMaxAge},
		{"the runtime of an unknown batch pod", configv1.DefaultRuntime, runtimes.Default},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("the API's default is %v, that of decisions %v", tc.got, tc.want)
			}
		})
	}
}
