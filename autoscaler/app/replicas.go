package app

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	kinds, err := scaleKinds(m.GetRESTMapper(), o)
	if err != nil {
		return err
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

// scaleKinds returns the kinds of the resources that may be scaled. It omits resources that the
// cluster does not have.
func scaleKinds(mapper meta.RESTMapper, o Options) (map[schema.GroupKind]schema.GroupVersionKind, error) {
	named := o.ScaleKinds
	if len(named) == 0 {
		named = DefaultScaleKinds()
	}
	kinds := make(map[schema.GroupKind]schema.GroupVersionKind, len(named))
	for _, name := range named {
		kind, err := mapper.KindFor(schema.ParseGroupResource(name).WithVersion(""))
		switch {
		case meta.IsNoMatchError(err):
			o.Log.Info("Ignoring a resource of --scale-kinds that the cluster does not have", "resource", name)
		case err != nil:
			return nil, fmt.Errorf("--scale-kinds: find the kind of %s: %w", name, err)
		default:
			kinds[kind.GroupKind()] = kind
		}
	}
	return kinds, nil
}
