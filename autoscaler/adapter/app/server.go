package app

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	apimetrics "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver/metrics"

	adapterv1alpha1 "supercargo.dev/supercargo/api/adapter/v1alpha1"
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/serve"
	"supercargo.dev/supercargo/autoscaler/adapter/wanted"
	"supercargo.dev/supercargo/internal/operator"
)

// PrometheusPath is where Prometheus' HTTP API is served to those who may, with
// authentication and authorisation, before /api/v1.
const PrometheusPath = "/prometheus"

// renewBefore is how long before the end of a certificate made here the program asks to be
// restarted, which makes a new one.
const renewBefore = 30 * 24 * time.Hour

// apiMetrics registers the library's metrics, which a process has once.
var apiMetrics = sync.OnceValue(func() error { return apimetrics.RegisterMetrics(legacyregistry.Register) })

// server serves the APIs.
type server struct {
	options Options
	generic *apiserver.CustomMetricsAdapterServer
	made    []byte // the certificate that was made here, in PEM; nil if one was given
}

func newServer(o Options, c *adapterv1alpha1.MetricsAdapterConfiguration, m *measurements, cl cluster.Cluster, registry *prometheus.Registry) (*server, error) {
	s := &server{options: o}
	config, informers, err := s.configure()
	if err != nil {
		return nil, err
	}
	custom, external, err := providers(o, c, m, cl)
	if err != nil {
		return nil, err
	}
	complete := config.Complete(informers)
	// A nil pointer in an interface is not nil: each is passed only where it is there.
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

// configure returns the configuration of the server, with a certificate.
func (s *server) configure() (*apiserver.Config, informers.SharedInformerFactory, error) {
	service, err := s.options.service()
	if err != nil {
		return nil, nil, err
	}
	host := service.Name + "." + service.Namespace
	serving := s.options.Server.SecureServing
	if err := serving.MaybeDefaultWithSelfSignedCerts(host+".svc", []string{host, "localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	if generated := serving.ServerCert.GeneratedCert; generated != nil {
		s.made, _ = generated.CurrentCertKeyContent()
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

// providers returns what answers each API that is served.
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
		policies, err := operator.Served(cl, &v1alpha1.ReplicaPolicy{})
		if err != nil {
			return nil, nil, err
		}
		var source *wanted.Source
		if len(policies) > 0 {
			source = &wanted.Source{Reader: cl.GetClient(), Clock: clock.RealClock{}, StaleAfter: o.StaleAfter}
		} else {
			o.Log.Info("ReplicaPolicies are not installed: install their definition and restart to have " + adapterv1alpha1.WantedReplicas)
		}
		if external, err = serve.NewExternal(c.External, m, source, clock.RealClock{}); err != nil {
			return nil, nil, fmt.Errorf("check the configuration: %w", err)
		}
	}
	return custom, external, nil
}

// add adds what is served beside the APIs.
func (s *server) add(m *measurements, registry *prometheus.Registry) error {
	if err := apiMetrics(); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	mux := s.generic.GenericAPIServer.Handler.NonGoRestfulMux
	mux.Handle("/metrics", promhttp.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, registry}, promhttp.HandlerOpts{}))
	if m.store != nil {
		mux.HandlePrefix(PrometheusPath+"/", http.StripPrefix(PrometheusPath, m.store.Handler(time.Now)))
	}
	if s.made == nil {
		return nil
	}
	until, err := end(s.made)
	if err != nil {
		return err
	}
	return s.generic.GenericAPIServer.AddLivezChecks(0, healthz.NamedCheck("serving-certificate", func(*http.Request) error {
		if left := time.Until(until); left < renewBefore {
			return fmt.Errorf("the certificate ends in %v: a restart makes a new one", left.Round(time.Minute))
		}
		return nil
	}))
}

// end returns when the first certificate of a chain in PEM ends.
func end(chain []byte) (time.Time, error) {
	block, _ := pem.Decode(chain)
	if block == nil {
		return time.Time{}, errors.New("read the certificate that was made: it is not PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the certificate that was made: %w", err)
	}
	return c.NotAfter, nil
}

// run serves until ctx ends.
func (s *server) run(ctx context.Context) error {
	if err := s.generic.GenericAPIServer.PrepareRun().RunWithContext(ctx); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
