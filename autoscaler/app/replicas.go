package app

import (
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
	"supercargo.dev/supercargo/internal/platform/promql/source"
)

// DefaultScaleKinds returns the resources that ReplicaPolicies may scale by default.
func DefaultScaleKinds() []string {
	return []string{"deployments.apps", "statefulsets.apps", "replicasets.apps"}
}

// addPolicies adds the controller of ReplicaPolicies, if the CRD is installed.
func addPolicies(m ctrl.Manager, o Options) error {
	if err := source.Validate(o.MetricSources); err != nil {
		return fmt.Errorf("metric sources: %w", err)
	}
	served, err := operator.Served(m, &v1alpha1.ReplicaPolicy{})
	if err != nil {
		return err
	}
	if len(served) == 0 {
		o.Log.Info("The CRD of ReplicaPolicies is not installed: to scale services, install it and restart")
		return nil
	}
	scaled := o.ScaleKinds
	if len(scaled) == 0 {
		scaled = DefaultScaleKinds()
	}
	kinds, err := replica.NewKinds(m.GetRESTMapper(), scaled)
	if err != nil {
		return err
	}
	for _, missing := range kinds.Missing() {
		o.Log.Info("The cluster does not have a resource of --scale-kinds yet", "resource", missing.String())
	}
	sources := make(map[string]*replica.Source, len(o.MetricSources))
	for _, c := range o.MetricSources {
		client, err := prometheus.New(c.How())
		if err != nil {
			return fmt.Errorf("metric source %s: %w", c.Name, err)
		}
		sources[c.Name] = replica.NewSource(c.Name, client, c.Wait())
	}
	r := &replica.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Scaler: replica.NewScaler(m.GetClient()), Kinds: kinds, Sources: sources,
		Events: m.GetEventRecorder("supercargo-autoscaler"), Clock: clock.RealClock{}, DryRun: o.DryRun,
		Pause: o.PauseOf(m, name, ActServices),
	}
	return r.SetupWithManager(m)
}
