package app

import (
	"testing"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
)

// TestTargetsMayNotHaveTheJobOfDiscoveredTargets: two jobs of one name would end the adapter at its start.
func TestTargetsMayNotHaveTheJobOfDiscoveredTargets(t *testing.T) {
	for _, job := range []string{target.PodsJob, target.ServicesJob, target.KubeletsJob, target.MetersJob} {
		c := &adapterv1alpha1.MetricsAdapterConfiguration{Targets: []adapterv1alpha1.TargetGroup{{Job: job, Addresses: []string{"a:1"}}}}
		adapterv1alpha1.SetDefaults(c)
		if errs := adapterv1alpha1.Validate(c); len(errs) != 1 || errs[0].Field != "targets[0].job" {
			t.Errorf("job %s: %v, want one error that names targets[0].job", job, errs)
		}
	}
}
