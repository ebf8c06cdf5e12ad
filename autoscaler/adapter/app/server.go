package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	apimetrics "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver/metrics"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/desired"
	"supercargo.dev/supercargo/autoscaler/adapter/serve"
	"supercargo.dev/supercargo/internal/platform/servingcert"
)

// PrometheusPath is the path, before /api/v1, of Prometheus' HTTP API with authentication and
// authorisation.
const PrometheusPath = "/prometheus"

// apiMetrics registers the library's metrics, once per process.
var apiMetrics = sync.OnceValue(func() error { return apimetrics.RegisterMetrics(legacyregistry.Register) })

// server serves the APIs.
type server struct {
	options Options
	generic *apiserver.CustomMetricsAdapterServer
	// certificate is the one that the replicas share; nil if one was given.
	certificate *certificate
}

func newServer(ctx context.Context, o Options, c *adapterv1alpha1.MetricsAdapterConfiguration, m *measurements, cl cluster.Cluster, registry *prometheus.Registry) (*server, error) {
	s := &server{options: o}
	config, informers, err := s.configure(ctx, cl)
	if err != nil {
		return nil, err
	}
	custom, external, err := providers(o, c, m, cl)
	if err != nil {
		return nil, err
	}
	complete := config.Complete(informers)
	// A nil pointer in an interface is not nil, so each is passed only if it is set.
	switch {
	case custom != nil && external != nil:
		s.generic, err = complete.New("metrics-adapter", custom, external)
	case custom != nil:
		s.generic, err = complete.New("metrics-adapter", custom, nil)
	default:
		s.generic, err = complete.New("metrics-adapter", nil, external)
	}
	if err != nil {
		return nil, fmt.Errorf("set up the server: %w", err)
	}
	return s, s.add(m, registry)
}

// configure returns the configuration of the server, including the certificate.
func (s *server) configure(ctx context.Context, cl cluster.Cluster) (*apiserver.Config, informers.SharedInformerFactory, error) {
	service, err := s.options.service()
	if err != nil {
		return nil, nil, err
	}
	if serving := s.options.Server.SecureServing; serving.ServerCert.CertKey.CertFile == "" {
		host := service.Name + "." + service.Namespace
		s.certificate = newCertificate(servingcert.Secret{
			Client: cl.GetClient(), Live: cl.GetAPIReader(), Name: types.NamespacedName{Namespace: service.Namespace, Name: service.Name + "-certificate"},
			Hosts: []string{host + ".svc", host, "localhost", "127.0.0.1"}, Log: s.options.Log,
		}, clock.RealClock{})
		if err := s.certificate.start(ctx); err != nil {
			return nil, nil, fmt.Errorf("make a certificate: %w", err)
		}
		serving.ServerCert.GeneratedCert = s.certificate
	}
	client, err := kubernetes.NewForConfig(s.options.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the cluster: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	config, err := recommended(s.options, factory)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the server: %w", err)
	}
	return &apiserver.Config{GenericConfig: &config.Config}, factory, nil
}

// providers returns the providers of the APIs that are served.
func providers(o Options, c *adapterv1alpha1.MetricsAdapterConfiguration, m *measurements, cl cluster.Cluster) (custom *serve.Custom, external *serve.External, err error) {
	if o.Custom {
		objects, err := metadata.NewForConfig(o.Config)
		if err != nil {
			return nil, nil, fmt.Errorf("reach the cluster: %w", err)
		}
		if custom, err = serve.NewCustom(c.Custom, m, cl.GetRESTMapper(), objects, clock.RealClock{}); err != nil {
			return nil, nil, fmt.Errorf("check the configuration: %w", err)
		}
	}
	if o.External {
		source := &desired.Source{Reader: cl.GetClient(), Clock: clock.RealClock{}, StaleAfter: o.StaleAfter}
		if external, err = serve.NewExternal(c.External, m, source, clock.RealClock{}); err != nil {
			return nil, nil, fmt.Errorf("check the configuration: %w", err)
		}
	}
	return custom, external, nil
}

// add adds the handlers that are served besides the APIs.
func (s *server) add(m *measurements, registry *prometheus.Registry) error {
	if err := apiMetrics(); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	mux := s.generic.GenericAPIServer.Handler.NonGoRestfulMux
	mux.Handle("/metrics", promhttp.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, registry}, promhttp.HandlerOpts{}))
	if m.store != nil {
		mux.HandlePrefix(PrometheusPath+"/", http.StripPrefix(PrometheusPath, m.store.Handler(time.Now)))
	}
	return nil
}

// run serves until ctx ends.
func (s *server) run(ctx context.Context) error {
	if err := s.generic.GenericAPIServer.PrepareRun().RunWithContext(ctx); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
