package cli

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestPodsThatNobodyWouldScheduleAreNamed: with a configuration for one schedulerName, all other pods
// stay pending.
func TestPodsThatNobodyWouldScheduleAreNamed(t *testing.T) {
	t.Parallel()
	energy := testfile.Read(t, "../../../manifests/scheduler/config/energy.yaml")
	for _, tc := range []struct{ name, configuration, says string }{
		{"none given", "", ""},
		{"not any", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", ""},
		{"without a name", "profiles: [{}]", ""},
		{"the default one among others", "profiles: [{schedulerName: a}, {schedulerName: default-scheduler}]", ""},
		{"others", "profiles: [{schedulerName: a}, {schedulerName: b}]", "schedulerName is a or b"},
		{"the example", string(energy), "schedulerName is energy"},
		{"no configuration", "\x00", ""},
	} {
		if got := unservedPods([]byte(tc.configuration)); (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.says)
		}
	}
}
