// Package preset provides queries for metrics of common services.
//
// A preset is a function from its parameters to PromQL, with one query for each measurement
// that it supports. Parameters appear only inside quoted label values, so that they can
// restrict a query but not change it, and the namespace of the measured objects is that of
// the policy by default.
//
// Every query returns one sample, or none if there is no measurement; none does not mean
// zero. A response time is NaN while no request is answered. rate handles counter resets.
// Responses of class 5xx count as arrivals but not in response times: a service that fails at
// once is not fast. Responses of class 1xx, such as those of web sockets, are no requests: they
// are logged when the connection ends, with its duration.
//
// If several jobs scrape one target, each has a complete copy of its series. A sum counts each
// target once, see once.
package preset

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Queries are PromQL expressions that return one sample each; empty if the preset has none.
type Queries struct {
	// ArrivalRate is in requests per second.
	ArrivalRate string
	// ResponseTime is in seconds: the mean over the requests answered within the window or,
	// with the parameter percentile, that percentile.
	ResponseTime string
	// Percentile is a percentile of response times in seconds, interpolated within the
	// buckets of a histogram; [DefaultPercentile] without the parameter.
	Percentile string
	// QueueLength is the number of requests in the system, waiting and in service: by
	// Little's law, or the number of connections with a request in progress.
	QueueLength string
	// Utilization is the mean CPU usage of Ready replicas in percent of their requests.
	Utilization string
}

// The presets.
const (
	// IngressNginx reads the metrics of the ingress-nginx controller.
	IngressNginx = "ingress-nginx"
	// Nginx reads the metrics of the nginx-exporter next to any nginx.
	Nginx = "nginx"
	// ContainerCPU is the CPU usage of containers of Ready pods, from kubelets, in percent of
	// their requests; requests and readiness come from kube-state-metrics.
	ContainerCPU = "container-cpu"
	// PodUsage is the CPU usage of pods in percent of their requests, as the metrics adapter
	// records them from metrics.k8s.io.
	PodUsage = "pod-usage"
	// WorkQueue reads the tasks of a Work Queue manager, as the metrics adapter records them.
	WorkQueue = "work-queue"
)

// DefaultWindow is the range of rates. A window must contain two samples, so it must be at
// least twice the scrape interval.
const DefaultWindow = time.Minute

// DefaultPercentile is the fraction of requests that are no slower.
const DefaultPercentile = 0.95

type entry struct {
	name string
	// required and optional are the names of the parameters.
	required, optional []string
	make               func(p *parameters) Queries
	// serve returns the owner of the series, for use by the metrics APIs.
	serve func(p *parameters) owner
}

var entries = []entry{
	{IngressNginx, []string{"ingress"}, []string{"service", "window", "percentile", "honorLabels"}, ingressNginx, ofIngresses},
	{Nginx, nil, []string{"upstream", "namespace", "job", "queue", "window", "percentile"}, nginx, ofNginx},
	{ContainerCPU, []string{"pods"}, []string{"container", "window"}, containerCPU, ofPods},
	{PodUsage, []string{"pods"}, nil, podUsage, ofPods},
	{WorkQueue, []string{"manager"}, []string{"category", "window"}, workQueue, ofManagers},
}

// find returns the preset with a name.
func find(name string) (entry, error) {
	at := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	if at < 0 {
		return entry{}, fmt.Errorf("preset %q is unknown, must be one of %s", name, strings.Join(Names(), ", "))
	}
	return entries[at], nil
}

// Names returns the names of the presets.
func Names() []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.name)
	}
	return names
}

// New returns the queries of a preset for a service in a namespace. It returns an error for
// an unknown preset, and for unknown, missing or invalid parameters, all of which it lists.
func New(name, namespace string, given map[string]string) (Queries, error) {
	e, err := find(name)
	if err != nil {
		return Queries{}, err
	}
	p := &parameters{namespace: namespace, given: given}
	for _, required := range e.required {
		if given[required] == "" {
			p.fault(required, "is required")
		}
	}
	p.check(e)
	q := e.make(p)
	return q, p.err(e)
}

// check reports parameters that the preset does not have, and values that are not UTF-8.
func (p *parameters) check(e entry) {
	known := slices.Concat(e.required, e.optional)
	for _, parameter := range slices.Sorted(maps.Keys(p.given)) {
		if !slices.Contains(known, parameter) {
			p.fault(parameter, "is unknown, must be one of "+strings.Join(known, ", "))
		}
		if !utf8.ValidString(p.given[parameter]) {
			p.fault(parameter, fmt.Sprintf("is %q, must be valid UTF-8", p.given[parameter]))
		}
	}
}

// err returns all errors in the parameters.
func (p *parameters) err(e entry) error {
	if err := errors.Join(p.faults...); err != nil {
		return fmt.Errorf("preset %s: %w", e.name, err)
	}
	return nil
}

// parameters reads parameters and collects their errors.
type parameters struct {
	// namespace is the namespace of the measured objects. If serving is set, the server adds
	// the namespace to the queries instead.
	namespace string
	serving   bool
	// by is the label by which samples are grouped; if empty, they are added up.
	by     string
	given  map[string]string
	faults []error
}

func (p *parameters) fault(parameter, what string) {
	p.faults = append(p.faults, fmt.Errorf("parameter %s %s", parameter, what))
}

// window returns the range of rates as a PromQL duration.
func (p *parameters) window() string {
	text, ok := p.given["window"]
	if !ok {
		return promDuration(DefaultWindow)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > time.Hour {
		p.fault("window", fmt.Sprintf("is %q, must be a duration from 1s to 1h", text))
		return promDuration(DefaultWindow)
	}
	return promDuration(d)
}

func promDuration(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// percentile returns the percentile as a fraction; 0 means the mean.
func (p *parameters) percentile() float64 {
	text, ok := p.given["percentile"]
	if !ok {
		return 0
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share > 0 && share < 100) {
		p.fault("percentile", fmt.Sprintf("is %q, must be a number above 0 and below 100", text))
		return 0
	}
	return share / 100
}

// flag returns a boolean parameter.
func (p *parameters) flag(name string) bool {
	text, ok := p.given[name]
	if !ok {
		return false
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		p.fault(name, fmt.Sprintf("is %q, must be true or false", text))
	}
	return is
}

// matcher returns a label matcher with a quoted value: in ASCII, because PromQL rejects a
// literal U+FFFD.
func matcher(label, op, value string) string { return label + op + strconv.QuoteToASCII(value) }

// selector returns a label selector of the matchers that are not empty; "" if all are.
func selector(matchers ...string) string {
	matchers = slices.DeleteFunc(slices.Clone(matchers), func(m string) bool { return m == "" })
	if len(matchers) == 0 {
		return ""
	}
	return "{" + strings.Join(matchers, ",") + "}"
}

// value returns a parameter, or otherwise if it is not given.
func (p *parameters) value(name, otherwise string) string {
	if text, ok := p.given[name]; ok {
		return text
	}
	return otherwise
}

// equal returns an equality matcher; "" for an empty value, which means no restriction.
func equal(label, value string) string {
	if value == "" {
		return ""
	}
	return matcher(label, "=", value)
}

// inNamespace returns the matcher of the namespace; "" if the server adds it.
func (p *parameters) inNamespace(label string) string {
	if p.serving {
		return ""
	}
	return matcher(label, "=", p.namespace)
}

// sum returns the beginning of a sum over all series, or by a label.
func (p *parameters) sum() string {
	if p.by == "" {
		return "sum("
	}
	return "sum by (" + p.by + ") ("
}

// once returns the sum of an expression that counts each scraped target once. Each job that
// scrapes a target has all of its series, so the sums of the jobs are equal, except while one of
// them misses a scrape. Copies have the same label instance, the address of the target; a relabeling
// that gives them different instances makes them different targets.
func (p *parameters) once(expression string) string {
	by := func(labels ...string) string {
		if p.by != "" {
			labels = append(labels, p.by)
		}
		return " by (" + strings.Join(labels, ", ") + ") ("
	}
	return p.sum() + "max" + by("instance") + "sum" + by("job", "instance") + expression + ")))"
}

// ingressNginx reads one ingress. By default, Prometheus renames labels of a target that
// conflict with its own to exported_...; with honorLabels, as in the scrape configuration,
// they keep their names.
func ingressNginx(p *parameters) Queries {
	prefix := p.exported()
	return p.web("nginx_ingress_controller_requests", "nginx_ingress_controller_request_duration_seconds", "1..", "5..",
		p.inNamespace(prefix+"namespace"), equal("ingress", p.given["ingress"]), equal(prefix+"service", p.given["service"]))
}

// exported returns the prefix of target labels that conflict with Prometheus' own.
func (p *parameters) exported() string {
	if p.flag("honorLabels") {
		return ""
	}
	return "exported_"
}

// nginx reads one nginx, or several whose requests are added up. The namespace is that of the
// policy unless a parameter names the one that nginx runs in; an empty one means no
// restriction, for servers without namespaces. Without an upstream, the queue is the number
// of connections with a request in progress, minus the one of each scrape of the status page;
// connections do not distinguish upstreams. Without an upstream, arrivals are the requests on
// the status page minus those for that page; if there is no status page, they are the
// answered requests, which are fewer while a queue grows.
//
// An open web socket is a connection in progress, but no request. Connections do not show which
// they are, so once an upgraded connection has been logged, the queue is by Little's law.
func nginx(p *parameters) Queries {
	of := []string{equal("job", p.given["job"]), equal("namespace", p.value("namespace", p.namespace))}
	q := p.web("nginx_log_requests_total", "nginx_log_request_duration_seconds", "1xx", "5xx",
		append(slices.Clone(of), equal("upstream", p.given["upstream"]))...)
	if where := selector(of...); p.given["upstream"] == "" {
		q.ArrivalRate = fmt.Sprintf("clamp_min(%s - %s, 0) or %s",
			p.once("rate(nginx_http_requests_total"+where+"["+p.window()+"])"), p.once("rate(nginx_status_reads_total"+where+"["+p.window()+"])"), q.ArrivalRate)
	}
	counted := "connections"
	if p.serving {
		counted = "little" // the client may select an upstream
	}
	switch queue := p.value("queue", counted); {
	case queue == "little":
	case queue != "connections":
		p.fault("queue", fmt.Sprintf("is %q, must be one of connections, little", queue))
	case p.given["upstream"] == "":
		where := selector(of...)
		upgraded := "sum(nginx_log_requests_total" + selector(append(of, matcher("status", "=~", "1xx"))...) + ") > 0"
		q.QueueLength = p.once("clamp_min(nginx_connections_reading"+where+" + nginx_connections_writing"+where+" - 1, 0)") +
			" unless on () (" + upgraded + ") or " + q.QueueLength
	case p.given["queue"] != "":
		p.fault("queue", "is \"connections\", must be little with an upstream, because connections are not counted by upstream")
	}
	return q
}

// web returns the queries for a counter of requests and a histogram of their response times, both
// with a label status, of which the regular expressions upgraded and failed match 1xx and 5xx.
// Requests are counted when answered, so arrivals
// are late by the response time. By Little's law, the number of requests in the system is the
// sum of response times per second: it misses requests that are not answered yet, so it lags
// while a queue grows quickly.
func (p *parameters) web(counter, histogram, upgraded, failed string, of ...string) Queries {
	window := p.window()
	all, answered := selector(append(of, matcher("status", "!~", upgraded))...), selector(append(of, matcher("status", "!~", upgraded+"|"+failed))...)
	rate := func(metric, of string) string { return fmt.Sprintf("rate(%s%s[%s])", metric, of, window) }
	q := Queries{
		ArrivalRate:  p.once(rate(counter, all)),
		ResponseTime: p.sum() + rate(histogram+"_sum", answered) + ") / " + p.sum() + rate(histogram+"_count", answered) + ")",
		QueueLength:  p.once(rate(histogram+"_sum", all)),
	}
	share := p.percentile()
	by := "le"
	if p.by != "" {
		by += ", " + p.by
	}
	quantile := func(share float64) string {
		return fmt.Sprintf("histogram_quantile(%g, sum by (%s) (%s))", share, by, rate(histogram+"_bucket", answered))
	}
	if q.Percentile = quantile(DefaultPercentile); share > 0 {
		q.Percentile = quantile(share)
		q.ResponseTime = q.Percentile
	}
	return q
}

// containerCPU reads the containers of the pods whose whole names match a regular expression.
// Both sums are over the same pods: those with usage and requests and, for a policy, Ready. A
// law multiplies by its Ready replicas: if the requests of starting pods were in the divisor,
// utilisation would fall as soon as they are requested, and they would be removed again. A
// server may be queried for one container, which has no readiness: it counts all measured
// pods.
func containerCPU(p *parameters) Queries {
	container := matcher("container", "!=", "")
	if name := p.given["container"]; name != "" {
		container = matcher("container", "=", name)
	}
	namespace, named := p.inNamespace("namespace"), p.pods()
	used := ofContainers(fmt.Sprintf("sum without (cpu) (rate(container_cpu_usage_seconds_total%s[%s]))", selector(namespace, named, container), p.window()))
	requested := ofContainers("kube_pod_container_resource_requests" + selector(namespace, named, container, matcher("resource", "=", "cpu")))
	const ofPod = " and on (namespace, pod) "
	ready := ofPod + "kube_pod_status_ready" + selector(namespace, named, matcher("condition", "=", "true")) + " == 1"
	if p.serving {
		ready = ""
	}
	return Queries{Utilization: "100 * " + p.sum() + used + ofPod + requested + ready + ") / " + p.sum() + requested + ofPod + used + ready + ")"}
}

// ofContainers returns the value of each container, of which each copy of kube-state-metrics and
// each job that scrapes a kubelet has a series.
func ofContainers(series string) string { return "max by (namespace, pod, container) (" + series + ")" }

// pods returns the matcher of the pods whose whole names match a regular expression; "" if
// serving and there is none.
func (p *parameters) pods() string {
	pods := p.given["pods"]
	if _, err := regexp.Compile(pods); err != nil {
		p.fault("pods", fmt.Sprintf("is %q, must be a regular expression: %v", pods, err))
	}
	if pods == "" && p.serving {
		return ""
	}
	return matcher("pod", "=~", pods)
}

// podUsage reads the series of pods that the metrics adapter records. Pods without usage, or
// not Ready, are in neither sum.
func podUsage(p *parameters) Queries {
	where := selector(p.inNamespace("namespace"), p.pods(), matcher("resource", "=", "cpu"))
	return Queries{Utilization: fmt.Sprintf("100 * %[1]ssupercargo_pod_used%[2]s and supercargo_pod_requested%[2]s) / %[1]ssupercargo_pod_requested%[2]s and supercargo_pod_used%[2]s)", p.sum(), where)}
}

// workQueue reads a manager, or one category of its tasks. A task arrives when it is
// submitted, and is in the system while it waits, is sent to a worker, runs there, or has
// results to be returned. Managers do not report submitted tasks by category, so a category
// has no arrival rate.
func workQueue(p *parameters) Queries {
	of := []string{p.inNamespace("namespace"), equal("manager", p.given["manager"])}
	window := p.window()
	if category := p.given["category"]; category != "" {
		where := selector(append(of, matcher("category", "=", category))...)
		return Queries{QueueLength: p.sum() + "supercargo_workqueue_category_tasks_waiting" + where + " + supercargo_workqueue_category_tasks_on_workers" + where + ")"}
	}
	where := selector(of...)
	return Queries{
		ArrivalRate: fmt.Sprintf("%srate(supercargo_workqueue_tasks_submitted_total%s[%s]))", p.sum(), where, window),
		QueueLength: p.sum() + "supercargo_workqueue_tasks_waiting" + where + " + supercargo_workqueue_tasks_on_workers" + where + ")",
	}
}
