package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MetricsAdapterConfiguration says what the metrics adapter measures and serves.
//
// +kubebuilder:object:root=true
type MetricsAdapterConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// prometheus is a server that is asked in place of the embedded store, which then is
	// not opened.
	Prometheus *PrometheusServer `json:"prometheus,omitempty"`

	// targets are scraped by the embedded store, beside the pods and Services that announce
	// themselves.
	Targets []TargetGroup `json:"targets,omitempty"`

	// workQueues are Work Queue managers that are asked what they have to do. What they
	// answer is kept in the embedded store, as series that begin with supercargo_workqueue_.
	WorkQueues []WorkQueue `json:"workQueues,omitempty"`

	// external are the metrics of external.metrics.k8s.io.
	External []ExternalMetric `json:"external,omitempty"`

	// custom are the metrics of custom.metrics.k8s.io.
	Custom []CustomMetric `json:"custom,omitempty"`

	// presets serve metrics of programs that are often there, in both APIs, without a query.
	Presets []MetricPreset `json:"presets,omitempty"`
}

// MetricPreset names queries for well-known metrics. Each that the preset has is served
// under a name of its own: PREFIX_requests_per_second, PREFIX_response_seconds,
// PREFIX_response_percentile_seconds, PREFIX_queue_length, PREFIX_utilization_percent.
type MetricPreset struct {
	// name is that of the preset: ingress-nginx, nginx, container-cpu, pod-usage or work-queue.
	Name string `json:"name"`

	// prefix begins the names of its metrics. Default: the name of the preset, with _ for -.
	Prefix string `json:"prefix,omitempty"`

	// parameters are those of the preset, none of which is required here: what they leave
	// open, such as the ingress, the client asks for.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// PrometheusServer is a server with Prometheus' HTTP API.
type PrometheusServer struct {
	// url is where it is, without /api/v1.
	URL string `json:"url"`

	// caFile has the authorities that its certificate is checked with, in PEM; default:
	// those of the system.
	CAFile string `json:"caFile,omitempty"`

	// bearerTokenFile has what it knows the adapter by.
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
}

// TargetGroup is targets that are scraped alike.
type TargetGroup struct {
	// job is the label job of their series. Each is used once.
	Job string `json:"job"`

	// addresses are host:port.
	Addresses []string `json:"addresses"`

	// path is where the metrics are. Default: /metrics.
	Path string `json:"path,omitempty"`

	// scheme is http or https. Default: http.
	Scheme string `json:"scheme,omitempty"`

	// interval is how often they are scraped. Default: --scrape-interval.
	Interval metav1.Duration `json:"interval,omitempty"`

	// labels are given to their series.
	Labels map[string]string `json:"labels,omitempty"`

	// honorLabels lets the targets' own labels win.
	HonorLabels bool `json:"honorLabels,omitempty"`

	// caFile has the authorities that their certificates are checked with, in PEM.
	CAFile string `json:"caFile,omitempty"`

	// insecureSkipVerify takes any certificate.
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`

	// bearerTokenFile has what they know the adapter by.
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
}

// WorkQueue is a Work Queue manager of cctools, and how to talk to it.
type WorkQueue struct {
	// manager is the label manager of its series.
	Manager string `json:"manager"`

	// namespace is the label namespace of its series: who may read external metrics there
	// may read what presets make of them. A namespace has each manager once.
	Namespace string `json:"namespace"`

	// address is host:port. Give it or catalog.
	Address string `json:"address,omitempty"`

	// catalog finds the manager by the name of its project, again each time.
	Catalog *WorkQueueCatalog `json:"catalog,omitempty"`

	// passwordFile has the manager's password: the same bytes as the file that the manager
	// reads it from, a line end included. It is read each time.
	PasswordFile string `json:"passwordFile,omitempty"`

	// tls is for managers that were started with --ssl. One of which a catalog server says
	// so is asked over TLS without it too.
	TLS *WorkQueueTLS `json:"tls,omitempty"`

	// interval is how often it is asked. Default: 15s.
	Interval metav1.Duration `json:"interval,omitempty"`

	// timeout bounds finding and asking it together. Default: 15s.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// WorkQueueCatalog names catalog servers and the project of a manager.
type WorkQueueCatalog struct {
	// servers are asked one after the other, each as host:port.
	Servers []string `json:"servers"`

	// project is the name that the manager was started with (-N).
	Project string `json:"project"`
}

// WorkQueueTLS says how to check the manager's certificate.
type WorkQueueTLS struct {
	// caFile has the authorities that it is checked with, in PEM; default: those of the
	// system.
	CAFile string `json:"caFile,omitempty"`

	// serverName is the name in the certificate, where it is not the host of the address.
	ServerName string `json:"serverName,omitempty"`
}

// SelectBy says what the labels that a client selects by are looked for in.
type SelectBy string

// The values of [SelectBy].
const (
	// SelectSeries narrows every series that the query reads.
	SelectSeries SelectBy = "Series"
	// SelectAnswer leaves the query as it is, and drops what its answer has too much.
	SelectAnswer SelectBy = "Answer"
)

// Query is an expression and how it is narrowed to what a client asks for.
type Query struct {
	// query is in PromQL. Each sample of its answer is a value of the metric.
	Query string `json:"query"`

	// namespaceLabel is the label that has the namespace of a series. Every series that the
	// query reads is narrowed to the namespace that the client asks in, so that who may
	// read metrics in one namespace sees nothing of another. Default: namespace.
	NamespaceLabel string `json:"namespaceLabel,omitempty"`

	// selectBy says what the labels of the client's selector are looked for in. Default:
	// Series.
	SelectBy SelectBy `json:"selectBy,omitempty"`

	// labels are the names that labels of the client's selector have in the series, where
	// they differ: a Kubernetes label's name to that of a series.
	Labels map[string]string `json:"labels,omitempty"`
}

// ExternalMetric is a metric that belongs to no object.
type ExternalMetric struct {
	// name is what clients know it by.
	Name string `json:"name"`

	Query `json:",inline"`

	// allNamespaces serves the same in every namespace: the query is not narrowed, and
	// whoever may read metrics in any namespace may read it.
	AllNamespaces bool `json:"allNamespaces,omitempty"`
}

// CustomMetric is a metric that objects of one resource have.
type CustomMetric struct {
	// name is what clients know it by.
	Name string `json:"name"`

	Query `json:",inline"`

	// group is the API group of the resource; empty is the core group.
	Group string `json:"group,omitempty"`

	// resource is plural: pods, services, ingresses.
	Resource string `json:"resource"`

	// clusterScoped is for resources without a namespace, such as nodes.
	ClusterScoped bool `json:"clusterScoped,omitempty"`

	// objectLabel is the label of the series, and of the answer, that has the name of the
	// object: pod, service, node.
	ObjectLabel string `json:"objectLabel"`
}
