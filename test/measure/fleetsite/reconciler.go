package fleetsite

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
	"supercargo.dev/supercargo/internal/platform/pause"
)

// NewReconciler returns the reconciler that the autoscaler runs, on a server. Its manager is never started: the caller
// calls Reconcile.
func NewReconciler(api *Server, c clock.PassiveClock) (*fleet.Reconciler, error) {
	templates := clusterapi.NewTemplates(c)
	r := &fleet.Reconciler{
		Client: Cached{Server: api}, Live: Live{api}, Events: &events.FakeRecorder{}, Clock: c,
		Pause: &pause.Switch{Client: Cached{Server: api}, Namespace: pause.DefaultNamespace},
		NewProvider: func(f *v1alpha1.NodeFleet, nodes map[string]*corev1.Node) (provider.Provider, error) {
			return clusterapi.New(Live{api}, Cached{Server: api}, clusterapi.Fleet{Name: f.Name, Spec: *f.Spec.ClusterAPI}, nodes, templates), nil
		},
	}
	skip := true
	m, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme: api.Scheme(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) {
			return &informertest.FakeInformers{Scheme: api.Scheme()}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return r, r.SetupWithManager(m, fleet.Changes{})
}
