// Package app assembles the metrics adapter.
//
// The files in the order of construction: options.go, app.go (runs everything), cluster.go
// (watches), measure.go (the store, or a Prometheus server), server.go (the APIs),
// registration.go (the APIServices).
package app

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/cmd/options"

	"supercargo.dev/supercargo/autoscaler/adapter/desired"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/energy/meterapi"
)

// Options configure the metrics adapter.
type Options struct {
	// Server configures the address, the certificate, and authentication and authorisation of
	// clients, which are delegated to the cluster's API server.
	Server *options.CustomMetricsAdapterServerOptions
	// Config is the configuration of the client for the cluster.
	Config *rest.Config
	// Configuration is the path of the configuration file; empty for none.
	Configuration string
	// Service is the Service, as namespace/name, through which the cluster's API server
	// reaches the adapter. The APIServices refer to it.
	Service string
	// Custom and External say which APIs are served.
	Custom, External bool
	// Store and Scrape configure the embedded store and its scrapes.
	Store  store.Options
	Scrape store.ScrapeOptions
	// ScrapePods and ScrapeServices enable discovery by annotations, in ScrapeNamespaces or,
	// if empty, in all namespaces. TargetLimit is the maximum number of discovered targets.
	ScrapePods, ScrapeServices bool
	ScrapeNamespaces           []string
	TargetLimit                int
	// PolicySources are the names of the embedded store in ReplicaPolicies. PolicyTargetLimit
	// is the maximum number of targets to scrape more often because ReplicaPolicies sample
	// their metrics more often; 0 disables this.
	PolicySources     []string
	PolicyTargetLimit int
	// Kubelets configures scraping of kubelets for the CPU time of pods.
	Kubelets Kubelets
	// Meters configures scraping of node meters for the power of nodes.
	Meters Meters
	// History records the nodes of the cluster and the pods on them.
	History bool
	// Usage records the usage of pods, from metrics.k8s.io, and their requests.
	Usage bool
	// StaleAfter plus the longest interval of its law is the maximum age of the observation
	// of a ReplicaPolicy.
	StaleAfter time.Duration
	// QueryAddress is where the store answers PromQL over plain HTTP without authentication,
	// as host:port; "0" disables it.
	QueryAddress string
	Log          logr.Logger
}

// Kubelets configures scraping of kubelets.
type Kubelets struct {
	// Scrape enables scraping, if there is a token to authenticate with.
	Scrape bool
	// TokenFile contains that token; empty uses the token file of the client for the API
	// server.
	TokenFile string
	// CAFile contains the certificate authorities of kubelets; empty uses those of the API
	// server. Insecure disables verification of their certificates.
	CAFile   string
	Insecure bool
}

// Meters configures scraping of node meters.
type Meters struct {
	// Scrape enables scraping, if there is a token to authenticate with.
	Scrape bool
	// Namespace is the namespace of the node meters and of the ConfigMap with their
	// certificate authorities.
	Namespace string
	// Port is the port of the node meters.
	Port int
	// TokenFile contains the token to authenticate with.
	TokenFile string
}

// Defaults returns the default options.
func Defaults() Options {
	server := options.NewCustomMetricsAdapterServerOptions()
	server.SecureServing.BindPort = 6443
	// Without a given certificate, the replicas create one and share it.
	server.SecureServing.ServerCert.CertDirectory = ""
	s := store.Defaults()
	s.Dir = "/var/lib/supercargo-metrics"
	return Options{
		Server: server, Service: "supercargo-system/supercargo-metrics-adapter", Custom: true, External: true,
		Store: s, Scrape: store.ScrapeDefaults(), ScrapePods: true, ScrapeServices: true, TargetLimit: 1000,
		PolicySources: []string{"default"}, PolicyTargetLimit: 200,
		Kubelets: Kubelets{Scrape: true},
		Meters:   Meters{Scrape: true, Namespace: meterapi.Namespace, Port: meterapi.Port, TokenFile: meterapi.TokenFile},
		History:  true, StaleAfter: desired.DefaultStaleAfter, QueryAddress: "127.0.0.1:9090",
	}
}

// AddFlags adds the flags. The current values of the options are their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Server.AddFlags(flags)
	flags.StringVar(&o.Configuration, "config", o.Configuration, "`file` with a MetricsAdapterConfiguration: metrics to serve, further targets to scrape, and Work Queue managers to query")
	flags.StringVar(&o.Service, "service", o.Service, "Service of the APIServices, as `namespace/name`; the serving certificate is made for it and kept in the Secret NAME-certificate in the same namespace")
	flags.BoolVar(&o.Custom, "custom-metrics", o.Custom, "serve custom.metrics.k8s.io")
	flags.BoolVar(&o.External, "external-metrics", o.External, "serve external.metrics.k8s.io, with the desired replicas of ReplicaPolicies")
	flags.DurationVar(&o.StaleAfter, "desired-replicas-stale-after", o.StaleAfter, "how long after its last observation, plus the longest interval of its law, to stop serving a ReplicaPolicy's desired replicas")
	flags.BoolVar(&o.History, "history", o.History, "record the nodes of the cluster and their pods as series in the embedded store")
	flags.BoolVar(&o.Usage, "pod-usage", o.Usage, "record the CPU and memory usage of each pod, from metrics.k8s.io, and its requests, as four series per pod in the embedded store; required by the preset pod-usage")
	flags.StringVar(&o.QueryAddress, "query-bind-address", o.QueryAddress, "`host:port` for PromQL over HTTP without authentication; 0 to disable. PromQL with authentication is always served at /prometheus")
	o.addStoreFlags(flags)
	o.addScrapeFlags(flags)
}

func (o *Options) addStoreFlags(flags *pflag.FlagSet) {
	s := &o.Store
	flags.StringVar(&s.Dir, "store-dir", s.Dir, "`directory` of the embedded store")
	flags.DurationVar(&s.Retention, "store-retention", s.Retention, "how long to keep samples")
	flags.Int64Var(&s.MaxBytes, "store-max-bytes", s.MaxBytes, "maximum `bytes` of samples on disk, not counting a write-ahead log of about 45 minutes; 0 for no limit")
	flags.IntVar(&s.MaxSeries, "store-max-series", s.MaxSeries, "maximum series in memory; scrapes that would exceed it fail")
	flags.DurationVar(&s.Lookback, "store-lookback", s.Lookback, "how long a sample is current; at least twice the longest scrape interval")
	flags.DurationVar(&s.Timeout, "query-timeout", s.Timeout, "timeout of a query")
	flags.IntVar(&s.MaxSamples, "query-max-samples", s.MaxSamples, "maximum samples that a query can hold in memory, 16 bytes each")
	flags.IntVar(&s.MaxQueries, "query-concurrency", s.MaxQueries, "maximum concurrent queries")
}

func (o *Options) addScrapeFlags(flags *pflag.FlagSet) {
	s := &o.Scrape
	flags.BoolVar(&o.ScrapePods, "scrape-pods", o.ScrapePods, "scrape pods with the annotation prometheus.io/scrape: \"true\"")
	flags.BoolVar(&o.ScrapeServices, "scrape-services", o.ScrapeServices, "scrape the ready endpoints of Services with the annotation prometheus.io/scrape: \"true\"")
	k := &o.Kubelets
	flags.BoolVar(&k.Scrape, "scrape-kubelets", k.Scrape, "scrape kubelets for the CPU time of pods, if there is a token to authenticate with")
	flags.StringVar(&k.TokenFile, "kubelet-token", k.TokenFile, "`file` with the token for kubelets (default: the ServiceAccount's)")
	flags.StringVar(&k.CAFile, "kubelet-authorities", k.CAFile, "PEM `file` with the certificate authorities of kubelets (default: those of the API server)")
	flags.BoolVar(&k.Insecure, "kubelet-insecure-tls", k.Insecure, "do not verify the certificates of kubelets; anyone who impersonates a kubelet then gets the token")
	m := &o.Meters
	flags.BoolVar(&m.Scrape, "scrape-node-meters", m.Scrape, "scrape node meters for the power of nodes, if there is a token to authenticate with")
	flags.StringVar(&m.Namespace, "node-meter-namespace", m.Namespace, "`namespace` of the node meters, with ConfigMap "+meterapi.Name+", which has the authorities of their certificate")
	flags.IntVar(&m.Port, "node-meter-port", m.Port, "`port` of the node meters")
	flags.StringVar(&m.TokenFile, "node-meter-token", m.TokenFile, "`file` with the token for node meters, for audience "+meterapi.Audience)
	flags.StringSliceVar(&o.ScrapeNamespaces, "scrape-namespaces", o.ScrapeNamespaces, "`namespaces` whose annotated pods and Services are scraped (default all)")
	flags.IntVar(&o.TargetLimit, "scrape-target-limit", o.TargetLimit, "maximum annotated targets to scrape, the first by address")
	flags.IntVar(&o.PolicyTargetLimit, "policy-target-limit", o.PolicyTargetLimit, "maximum targets to scrape more often, down to once a second, because ReplicaPolicies sample their metrics more often; 0 to disable")
	flags.StringSliceVar(&o.PolicySources, "policy-sources", o.PolicySources, "`names` of this store in the autoscaler: the values of metrics.source in ReplicaPolicies that --policy-target-limit considers")
	flags.DurationVar(&s.Interval, "scrape-interval", s.Interval, "scrape interval of targets that do not state one")
	flags.UintVar(&s.SampleLimit, "scrape-sample-limit", s.SampleLimit, "maximum samples in a scrape; larger scrapes fail")
	flags.Int64Var(&s.BodyLimit, "scrape-body-limit", s.BodyLimit, "maximum `bytes` of a scrape; larger scrapes fail")
	flags.UintVar(&s.LabelLimit, "scrape-label-limit", s.LabelLimit, "maximum labels of a series; scrapes that exceed it fail")
	flags.UintVar(&s.LabelNameLimit, "scrape-label-name-limit", s.LabelNameLimit, "maximum bytes of a label name")
	flags.UintVar(&s.LabelValueLimit, "scrape-label-value-limit", s.LabelValueLimit, "maximum bytes of a label value")
}

// UseKubeconfig sets the kubeconfig for authentication and authorisation of clients, unless
// another one is given for them.
func (o *Options) UseKubeconfig(file string) {
	for _, to := range []*string{&o.Server.Authentication.RemoteKubeConfigFile, &o.Server.Authorization.RemoteKubeConfigFile} {
		if *to == "" {
			*to = file
		}
	}
}

// Validate returns all errors in the options.
func (o *Options) Validate() error {
	errs := o.Server.Validate()
	if !o.Custom && !o.External {
		errs = append(errs, errors.New("--custom-metrics and --external-metrics: at least one of them must be true"))
	}
	if _, err := o.service(); err != nil {
		errs = append(errs, err)
	}
	if o.StaleAfter <= 0 {
		errs = append(errs, fmt.Errorf("--desired-replicas-stale-after: must be above 0, is %v", o.StaleAfter))
	}
	if o.TargetLimit < 0 {
		errs = append(errs, fmt.Errorf("--scrape-target-limit: must be 0 or more, is %d", o.TargetLimit))
	}
	if o.PolicyTargetLimit < 0 {
		errs = append(errs, fmt.Errorf("--policy-target-limit: must be 0 or more, is %d", o.PolicyTargetLimit))
	}
	if o.Kubelets.CAFile != "" && o.Kubelets.Insecure {
		errs = append(errs, errors.New("--kubelet-authorities and --kubelet-insecure-tls are mutually exclusive"))
	}
	if m := o.Meters; m.Scrape && (m.Namespace == "" || m.TokenFile == "" || m.Port < 1 || m.Port > 65535) {
		errs = append(errs, errors.New("--node-meter-namespace, --node-meter-port and --node-meter-token are required unless --scrape-node-meters=false"))
	}
	if _, _, err := net.SplitHostPort(o.QueryAddress); o.QueryAddress != "0" && err != nil {
		errs = append(errs, fmt.Errorf("--query-bind-address: %w", err))
	}
	return errors.Join(append(errs, o.Store.Validate(), o.Scrape.Validate(o.Store.Lookback))...)
}

func (o *Options) service() (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(o.Service, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("--service: must be namespace/name, is %q", o.Service)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
