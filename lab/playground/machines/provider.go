package machines

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options configures a provider. All fields are required.
//
// +kubebuilder:object:generate=false
type Options struct {
	// Config connects to the API server, with an administrator's rights.
	Config *rest.Config
	// Workload connects to the cluster that has the Nodes, with an administrator's rights.
	Workload *rest.Config
	// Kubeconfig is the kubeconfig with which cluster-api connects to that cluster.
	Kubeconfig []byte
	// Node returns the Node of a machine, without its provider ID.
	Node func(*KwokMachine) (*corev1.Node, error)
	// Log is the logger of the controllers.
	Log logr.Logger
}

// workers is the number of concurrent reconciles per kind.
const workers = 16

// Run reconciles the objects of this package's kinds until ctx ends. Their CRDs must be installed.
// It closes synced when its caches have synced.
func Run(ctx context.Context, opts Options, synced chan<- struct{}) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("register the API types: %w", err)
		}
	}
	direct, err := client.New(opts.Config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	if err := refreshKubeconfigs(ctx, direct, opts.Kubeconfig); err != nil {
		return err
	}
	// Nodes are read rarely, and a cache would hold all of the cluster's.
	nodes, err := client.New(opts.Workload, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make client of the workload cluster: %w", err)
	}
	mgr, err := ctrl.NewManager(opts.Config, manager.Options{
		Scheme:  scheme,
		Logger:  opts.Log,
		Metrics: server.Options{BindAddress: "0"},
		// Several playgrounds may run in one process, and their controllers have the same names.
		Controller: config.Controller{SkipNameValidation: ptr(true), MaxConcurrentReconciles: workers},
		// Secrets and ConfigMaps are read rarely, too.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
	if err != nil {
		return fmt.Errorf("set up controllers: %w", err)
	}
	c := mgr.GetClient()
	for _, controller := range []struct {
		object     client.Object
		reconciler reconcile.Reconciler
	}{
		{&KwokCluster{}, &clusterReconciler{client: c, kubeconfig: opts.Kubeconfig}},
		{&KwokControlPlane{}, &controlPlaneReconciler{client: c}},
		{&KwokMachineTemplate{}, &templateReconciler{client: c}},
		{&KwokMachine{}, &machineReconciler{client: c, live: mgr.GetAPIReader(), nodes: nodes, clock: clock.RealClock{}, node: opts.Node}},
	} {
		if err := ctrl.NewControllerManagedBy(mgr).For(controller.object).Complete(controller.reconciler); err != nil {
			return fmt.Errorf("set up controller of %T: %w", controller.object, err)
		}
	}
	go func() {
		if mgr.GetCache().WaitForCacheSync(ctx) {
			close(synced)
		}
	}()
	return mgr.Start(ctx)
}

// ptr returns a pointer to a copy of v.
func ptr[T any](v T) *T { return &v }
