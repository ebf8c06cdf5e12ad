// Package app assembles the autoscaler.
package app

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetobserve"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
	"supercargo.dev/supercargo/autoscaler/provider/karpenter"
	"supercargo.dev/supercargo/autoscaler/provider/openstack"
	"supercargo.dev/supercargo/autoscaler/worker"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/podcache"
	"supercargo.dev/supercargo/internal/platform/promql/source"
	"supercargo.dev/supercargo/internal/world"
)

// name is the name of the program.
const name = "autoscaler"

// The actions of the autoscaler.
const (
	// ActMachines buys and releases machines, as NodeFleets say.
	ActMachines = "machines"
	// ActServices scales services, as ReplicaPolicies say.
	ActServices = "services"
	// ActWorkers creates and deletes workers, as WorkerPools say.
	ActWorkers = "workers"
)

// Actions returns the actions of the autoscaler.
func Actions() []string { return []string{ActMachines, ActServices, ActWorkers} }

var _ world.PodSharer = podcache.Client{} // otherwise every round would copy all pods

// Options configure the autoscaler.
type Options struct {
	operator.Options
	// ClusterAPIConfig is the client configuration of the cluster with the MachineDeployments; nil
	// if it is the same cluster. The autoscaler also starts while that cluster cannot be reached.
	ClusterAPIConfig *rest.Config
	// MetricSources are the servers that ReplicaPolicies may query.
	MetricSources []source.Config
	// ScaleKinds are the resources that ReplicaPolicies may scale, as resource.group; empty means
	// DefaultScaleKinds.
	ScaleKinds []string
}

// Run runs the autoscaler until ctx ends or an error occurs that a restart may fix.
func Run(ctx context.Context, o Options) error {
	if err := o.CheckActions(Actions()); err != nil {
		return err
	}
	fence := o.Fence(name)
	o.Config = fence(o.Config)
	if o.ClusterAPIConfig != nil {
		o.ClusterAPIConfig = fence(o.ClusterAPIConfig)
	}
	m, err := operator.NewManager(name, o.Options, clientgoscheme.AddToScheme, v1alpha1.AddToScheme, clusterapi.AddToScheme)
	if err != nil {
		return err
	}
	if err := addFleets(ctx, m, o); err != nil {
		return err
	}
	if err := addPolicies(m, o); err != nil {
		return err
	}
	if err := addPools(m, o); err != nil {
		return err
	}
	return operator.Run(ctx, name, m)
}

// addPools adds the controller of WorkerPools, if the CRD is installed.
func addPools(m ctrl.Manager, o Options) error {
	served, err := operator.Served(m, &v1alpha1.WorkerPool{})
	if err != nil {
		return err
	}
	if len(served) == 0 {
		o.Log.Info("The CRD of WorkerPools is not installed: to scale the workers of Work Queue managers, install it and restart")
		return nil
	}
	r := &worker.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Events: m.GetEventRecorder("supercargo-autoscaler"), Clock: clock.RealClock{}, DryRun: o.DryRun,
		Pause: o.PauseOf(m, name, ActWorkers),
	}
	return r.SetupWithManager(m)
}

// addFleets adds the controller of NodeFleets.
func addFleets(ctx context.Context, m ctrl.Manager, o Options) error {
	machines, changes, err := machinesOf(m, o)
	if err != nil {
		return err
	}
	claimed, err := claimsOf(ctx, m, o)
	if err != nil {
		return err
	}
	migrations, err := operator.Served(m, &v1alpha1.Migration{})
	if err != nil {
		return err
	}
	if len(migrations) == 0 {
		o.Log.Info("The CRD of Migrations is not installed: to move pods with their state, install it and the descheduler and restart")
	}
	templates := clusterapi.NewTemplates(clock.RealClock{})
	claims := &karpenter.Claims{
		Live: m.GetAPIReader(), Writer: m.GetClient(), Mapper: m.GetRESTMapper(), Clock: clock.RealClock{},
		Rediscover: func() (meta.RESTMapper, error) { return apiutil.NewDynamicRESTMapper(m.GetConfig(), m.GetHTTPClient()) },
	}
	clouds := &openstack.Clouds{Live: m.GetAPIReader(), Writer: m.GetClient(), Clock: clock.RealClock{}}
	r := &fleet.Reconciler{
		Client: podcache.NewClient(m), Live: m.GetAPIReader(), Events: m.GetEventRecorder("supercargo-autoscaler"), Clock: clock.RealClock{}, DryRun: o.DryRun,
		Pause: o.PauseOf(m, name, ActMachines), Migrations: len(migrations) > 0,
		NewProvider: func(f *v1alpha1.NodeFleet, nodes map[string]*corev1.Node) (provider.Provider, error) {
			types := func(ctx context.Context) ([]catalogue.Flavor, error) {
				known, err := fleetobserve.ReadPrices(ctx, m.GetAPIReader(), &f.Spec.Pricing)
				if err != nil {
					return nil, err
				}
				return known.Types(), nil
			}
			switch f.Spec.Provider {
			case v1alpha1.FleetOpenStack:
				return clouds.For(f, nodes), nil
			case v1alpha1.FleetKarpenter:
				return claims.For(f, nodes, types), nil
			case v1alpha1.FleetClusterAPI:
			}
			if _, err := metav1.LabelSelectorAsSelector(f.Spec.ClusterAPI.Selector); err != nil {
				return nil, fmt.Errorf("read spec.clusterAPI.selector: %w", err)
			}
			of := clusterapi.Fleet{Name: f.Name, Spec: *f.Spec.ClusterAPI, Types: types}
			return clusterapi.New(machines.GetAPIReader(), machines.GetClient(), of, nodes, templates), nil
		},
	}
	return r.SetupWithManager(m, changes, claimed)
}
