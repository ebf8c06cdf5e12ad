package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MetricsAdapterConfiguration configures what the metrics adapter scrapes and serves.
//
// +kubebuilder:object:root=true
type MetricsAdapterConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// prometheus specifies a Prometheus server that is queried instead of the embedded store.
	// If set, the embedded store is not opened.
	Prometheus *PrometheusServer `json:"prometheus,omitempty"`

	// targets are scraped by the embedded store, in addition to annotated pods and Services.
	Targets []TargetGroup `json:"targets,omitempty"`

	// workQueues are Work Queue managers whose state is queried and recorded in the embedded
	// store. The names of the series begin with supercargo_workqueue_.
	WorkQueues []WorkQueue `json:"workQueues,omitempty"`

	// external are the metrics of external.metrics.k8s.io.
	External []ExternalMetric `json:"external,omitempty"`

	// custom are the metrics of custom.metrics.k8s.io.
	Custom []CustomMetric `json:"custom,omitempty"`

	// presets serve metrics of well-known programs in both APIs, with predefined queries.
	Presets []MetricPreset `json:"presets,omitempty"`
}

// MetricPreset specifies predefined queries for well-known metrics. Each metric of the preset
// has a name of its own: PREFIX_requests_per_second, PREFIX_response_seconds,
// PREFIX_response_percentile_seconds, PREFIX_queue_length or PREFIX_utilization_percent.
type MetricPreset struct {
	// name is the name of the preset: ingress-nginx, nginx, container-cpu, pod-usage or
	// work-queue.
	Name string `json:"name"`

	// prefix is the prefix of the names of the metrics. Default: the name of the preset, with
	// each - replaced by _.
	Prefix string `json:"prefix,omitempty"`

	// parameters are the parameters of the preset. All are optional here: the client's
	// selector specifies what they do not, such as the ingress.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// PrometheusServer is a server with the HTTP API of Prometheus.
type PrometheusServer struct {
	// url is the URL of the server, without /api/v1.
	URL string `json:"url"`

	// caFile is the path of a file with the CA certificates that verify the server's
	// certificate, in PEM. Default: the CA certificates of the system.
	CAFile string `json:"caFile,omitempty"`

	// bearerTokenFile is the path of a file with the bearer token that is sent to the server.
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
}

// TargetGroup is a group of targets with the same scrape settings.
type TargetGroup struct {
	// job is the value of the label job of the scraped series. It must be unique.
	Job string `json:"job"`

	// addresses are the addresses of the targets, as host:port.
	Addresses []string `json:"addresses"`

	// path is the HTTP path of the metrics. Default: /metrics.
	Path string `json:"path,omitempty"`

	// scheme is http or https. Default: http.
	Scheme string `json:"scheme,omitempty"`

	// interval is the time between two scrapes. Default: the value of --scrape-interval.
	Interval metav1.Duration `json:"interval,omitempty"`

	// labels are added to the scraped series.
	Labels map[string]string `json:"labels,omitempty"`

	// honorLabels specifies that the labels of the targets take precedence over labels added
	// by the adapter.
	HonorLabels bool `json:"honorLabels,omitempty"`

	// caFile is the path of a file with the CA certificates that verify the targets'
	// certificates, in PEM.
	CAFile string `json:"caFile,omitempty"`

	// insecureSkipVerify disables the verification of the targets' certificates.
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`

	// bearerTokenFile is the path of a file with the bearer token that is sent to the targets.
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
}

// WorkQueue specifies a Work Queue manager of cctools and how to connect to it.
type WorkQueue struct {
	// manager is the value of the label manager of its series.
	Manager string `json:"manager"`

	// namespace is the value of the label namespace of its series. Clients that may read
	// external metrics in this namespace may read what presets compute from these series. The
	// name of a manager must be unique in its namespace.
	Namespace string `json:"namespace"`

	// address is the address of the manager, as host:port. Exactly one of address and catalog
	// must be set.
	Address string `json:"address,omitempty"`

	// catalog specifies catalog servers that know the address of the manager. They are queried
	// each time.
	Catalog *WorkQueueCatalog `json:"catalog,omitempty"`

	// passwordFile is the path of a file with the manager's password. Its content must be
	// identical to that of the manager's password file, including a trailing newline. The file
	// is read each time.
	PasswordFile string `json:"passwordFile,omitempty"`

	// tls specifies TLS settings. Set it if the manager was started with --ssl. TLS is also
	// used without it if a catalog server reports that the manager uses TLS.
	TLS *WorkQueueTLS `json:"tls,omitempty"`

	// interval is the time between two queries. Default: 15s.
	Interval metav1.Duration `json:"interval,omitempty"`

	// timeout is the maximum duration of finding and querying the manager. Default: 15s.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// WorkQueueCatalog specifies catalog servers and the project name of a manager.
type WorkQueueCatalog struct {
	// servers are the addresses of catalog servers, as host:port. They are queried in this
	// order.
	Servers []string `json:"servers"`

	// project is the project name with which the manager was started (-N).
	Project string `json:"project"`
}

// WorkQueueTLS specifies how the manager's certificate is verified.
type WorkQueueTLS struct {
	// caFile is the path of a file with the CA certificates that verify the manager's
	// certificate, in PEM. Default: the CA certificates of the system.
	CAFile string `json:"caFile,omitempty"`

	// serverName is the name in the manager's certificate, if it differs from the host of the
	// address.
	ServerName string `json:"serverName,omitempty"`
}

// SelectBy specifies what a client's label selector applies to.
type SelectBy string

// The values of [SelectBy].
const (
	// SelectSeries applies the selector to every series that the query reads.
	SelectSeries SelectBy = "Series"
	// SelectAnswer does not change the query, and applies the selector to its result.
	SelectAnswer SelectBy = "Answer"
)

// Query is an expression, and specifies how it is restricted to what a client requests.
type Query struct {
	// query is a PromQL expression. Each sample of its result is a value of the metric.
	Query string `json:"query"`

	// namespaceLabel is the label that contains the namespace of a series. Every series that
	// the query reads is restricted to the namespace of the client's request, so that a client
	// that may read metrics in one namespace cannot read those of another. Default: namespace.
	NamespaceLabel string `json:"namespaceLabel,omitempty"`

	// selectBy specifies what the client's label selector applies to: Series or Answer.
	// Default: Series.
	SelectBy SelectBy `json:"selectBy,omitempty"`

	// labels maps names of labels in the client's selector to names of labels of the series,
	// where they differ.
	Labels map[string]string `json:"labels,omitempty"`
}

// ExternalMetric is a metric that is not associated with an object.
type ExternalMetric struct {
	// name is the name of the metric.
	Name string `json:"name"`

	Query `json:",inline"`

	// allNamespaces specifies that the metric is the same in every namespace. The query is
	// then not restricted to a namespace, and every client that may read external metrics in
	// any namespace may read it.
	AllNamespaces bool `json:"allNamespaces,omitempty"`
}

// CustomMetric is a metric of the objects of one resource.
type CustomMetric struct {
	// name is the name of the metric.
	Name string `json:"name"`

	Query `json:",inline"`

	// group is the API group of the resource. Empty means the core group.
	Group string `json:"group,omitempty"`

	// resource is the plural name of the resource, such as pods, services or ingresses.
	Resource string `json:"resource"`

	// clusterScoped specifies that the resource has no namespace, such as nodes.
	ClusterScoped bool `json:"clusterScoped,omitempty"`

	// objectLabel is the label, in the series and in the result, that contains the name of the
	// object, such as pod, service or node.
	ObjectLabel string `json:"objectLabel"`
}
