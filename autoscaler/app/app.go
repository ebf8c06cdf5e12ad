// Package app puts the autoscaler together.
package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
	"supercargo.dev/supercargo/autoscaler/provider/openstack"
)

// Options say how the autoscaler runs.
type Options struct {
	// Config reaches the cluster whose pods are looked after.
	Config *rest.Config
	// ClusterAPIConfig reaches the cluster that has the MachineDeployments; nil if that
	// is the same.
	ClusterAPIConfig *rest.Config
	// DryRun logs what would be decided, and writes nothing. There is no election: others
	// may act meanwhile.
	DryRun bool
	// LeaderElection lets several run, of which one acts. Its Lease is in
	// LeaderElectionNamespace.
	LeaderElection          bool
	LeaderElectionNamespace string
	// MetricsAddress and ProbeAddress are where HTTP is served, as host:port; "0" is
	// nowhere.
	MetricsAddress, ProbeAddress string
	// Log takes what is worth a line.
	Log logr.Logger
}

// Run runs the autoscaler until ctx ends or something fails that a restart may mend.
func Run(ctx context.Context, o Options) error {
	m, err := newManager(o)
	if err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run the autoscaler: %w", err)
	}
	return nil
}

func newManager(o Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, clusterapi.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	m, err := ctrl.NewManager(o.Config, ctrl.Options{
		Scheme: scheme, Logger: o.Log,
		Cache:          cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:        server.Options{BindAddress: o.MetricsAddress},
		LeaderElection: o.LeaderElection && !o.DryRun, LeaderElectionID: "autoscaler." + v1alpha1.GroupName, LeaderElectionNamespace: o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        o.ProbeAddress,
		// Several may run in one process: the names of their controllers are the same.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the autoscaler: %w", err)
	}
	for name, add := range map[string]func(string, healthz.Checker) error{"healthz": m.AddHealthzCheck, "readyz": m.AddReadyzCheck} {
		if err := add(name, healthz.Ping); err != nil {
			return nil, fmt.Errorf("set up health probes: %w", err)
		}
	}
	return m, addFleets(m, o)
}

// addFleets adds the controller of NodeFleets.
func addFleets(m ctrl.Manager, o Options) error {
	var machines cluster.Cluster = m
	if o.ClusterAPIConfig != nil {
		var err error
		machines, err = cluster.New(o.ClusterAPIConfig, func(c *cluster.Options) {
			c.Scheme = m.GetScheme()
			c.Cache.DefaultTransform = cache.TransformStripManagedFields()
		})
		if err != nil {
			return fmt.Errorf("reach the cluster that has the MachineDeployments: %w", err)
		}
		if err := m.Add(machines); err != nil {
			return fmt.Errorf("reach the cluster that has the MachineDeployments: %w", err)
		}
	}
	watched, err := served(machines, clusterapi.Kinds())
	if err != nil {
		return err
	}
	if len(watched) == 0 {
		o.Log.Info("cluster-api is not installed: install its v1beta2 API and restart for fleets with provider ClusterAPI")
	}
	clouds := &openstack.Clouds{Live: m.GetAPIReader(), Writer: m.GetClient(), Clock: clock.RealClock{}}
	r := &fleet.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Events: m.GetEventRecorder("supercargo-autoscaler"), Clock: clock.RealClock{}, DryRun: o.DryRun,
		NewProvider: func(f *v1alpha1.NodeFleet, nodes map[string]*corev1.Node) (provider.Provider, error) {
			if f.Spec.Provider == v1alpha1.FleetOpenStack {
				return clouds.For(f, nodes), nil
			}
			if _, err := metav1.LabelSelectorAsSelector(f.Spec.ClusterAPI.Selector); err != nil {
				return nil, fmt.Errorf("read spec.clusterAPI.selector: %w", err)
			}
			return clusterapi.New(machines.GetAPIReader(), machines.GetClient(), *f.Spec.ClusterAPI, nodes), nil
		},
	}
	return r.SetupWithManager(m, machines.GetCache(), watched...)
}

// served returns those of the objects whose kinds the cluster has.
func served(c cluster.Cluster, objects []client.Object) ([]client.Object, error) {
	var found []client.Object
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, c.GetScheme())
		if err != nil {
			return nil, fmt.Errorf("find the kind of %T: %w", object, err)
		}
		switch _, err = c.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); {
		case err == nil:
			found = append(found, object)
		case !meta.IsNoMatchError(err):
			return nil, fmt.Errorf("look for kind %s: %w", kind.Kind, err)
		}
	}
	return found, nil
}

// Throttle sets how fast a client may ask, where nothing is set: a fleet of some
// hundred machines is read in a few requests, but evictions come in bursts.
func Throttle(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	if c.QPS == 0 {
		c.QPS, c.Burst = 50, 100
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return c
}
