// Package preset has queries for metrics that many services have.
//
// A preset is a function of its parameters to PromQL, one query for each
// measurement that it knows. Everything a parameter says ends up inside a quoted
// label value, so that it can narrow a query and not change it, and the namespace
// of what is measured is always that of the policy.
//
// Every query answers one sample, or none where nothing is measured; none is not a
// zero. A response time is NaN while no request was answered. Counters that begin
// anew are for rate to mend. Answers of class 5xx count as arrivals and not as
// response times: a service that fails at once is not a quick one.
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

// Queries are PromQL, each answering one sample; empty where there is none.
type Queries struct {
	// ArrivalRate is requests per second.
	ArrivalRate string
	// ResponseTime is seconds, the mean of the requests answered within the window;
	// with a parameter percentile that percentile of them.
	ResponseTime string
	// Percentile is the percentile of response times in seconds, interpolated within
	// the buckets of a histogram; [DefaultPercentile] without the parameter.
	Percentile string
	// QueueLength is the requests inside, waiting and in service: by Little's law, or
	// connections with a request under way.
	QueueLength string
	// Utilization is the mean load of a Ready replica in percent of what it requests.
	Utilization string
}

// The presets.
const (
	// IngressNginx is the metrics of ingress-nginx's controller.
	IngressNginx = "ingress-nginx"
	// Nginx is the metrics of the nginx-exporter beside any nginx.
	Nginx = "nginx"
	// ContainerCPU is the CPU that containers of Ready pods use, as kubelets tell it, in
	// percent of what they request, both as kube-state-metrics tells it.
	ContainerCPU = "container-cpu"
	// PodUsage is the CPU that pods use in percent of what they request, as the metrics
	// adapter keeps it from metrics.k8s.io.
	PodUsage = "pod-usage"
	// WorkQueue is the tasks of a Work Queue manager, as the metrics adapter asks it.
	WorkQueue = "work-queue"
)

// DefaultWindow is over what time rates are taken: two samples must be inside, so
// that it is at least twice the scrape interval.
const DefaultWindow = time.Minute

// DefaultPercentile is the share of requests that are no slower.
const DefaultPercentile = 0.95

type entry struct {
	name string
	// required and optional are the parameters.
	required, optional []string
	make               func(p *parameters) Queries
	// serve says whose the series are, where a server is asked for any of them.
	serve func(p *parameters) owner
}

var entries = []entry{
	{IngressNginx, []string{"ingress"}, []string{"service", "window", "percentile", "honorLabels"}, ingressNginx, ofIngresses},
	{Nginx, nil, []string{"upstream", "namespace", "job", "queue", "window", "percentile"}, nginx, ofNginx},
	{ContainerCPU, []string{"pods"}, []string{"container", "window"}, containerCPU, ofPods},
	{PodUsage, []string{"pods"}, nil, podUsage, ofPods},
	{WorkQueue, []string{"manager"}, []string{"category", "window"}, workQueue, ofManagers},
}

// find returns the preset of a name.
func find(name string) (entry, error) {
	at := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	if at < 0 {
		return entry{}, fmt.Errorf("preset %q is not known, want one of %s", name, strings.Join(Names(), ", "))
	}
	return entries[at], nil
}

// Names lists the presets.
func Names() []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.name)
	}
	return names
}

// New returns the queries of a preset for a service in a namespace. It fails for an
// unknown preset, and for parameters that are unknown, missing or no good; it then
// names all of them.
func New(name, namespace string, given map[string]string) (Queries, error) {
	e, err := find(name)
	if err != nil {
		return Queries{}, err
	}
	p := &parameters{namespace: namespace, given: given}
	for _, required := range e.required {
		if given[required] == "" {
			p.fault(required, "is missing")
		}
	}
	p.check(e)
	q := e.make(p)
	return q, p.err(e)
}

// check finds parameters that the preset does not have, and text that is none.
func (p *parameters) check(e entry) {
	known := slices.Concat(e.required, e.optional)
	for _, parameter := range slices.Sorted(maps.Keys(p.given)) {
		if !slices.Contains(known, parameter) {
			p.fault(parameter, "is not known, want one of "+strings.Join(known, ", "))
		}
		if !utf8.ValidString(p.given[parameter]) {
			p.fault(parameter, fmt.Sprintf("is %q, want UTF-8", p.given[parameter]))
		}
	}
}

// err is everything that is wrong with the parameters.
func (p *parameters) err(e entry) error {
	if err := errors.Join(p.faults...); err != nil {
		return fmt.Errorf("preset %s: %w", e.name, err)
	}
	return nil
}

// parameters reads what was given and gathers what is wrong with it.
type parameters struct {
	// namespace is that of what is measured; with serving there is none, and no query
	// says it.
	namespace string
	serving   bool
	// by is the label by which samples are told apart; empty: they are added up.
	by     string
	given  map[string]string
	faults []error
}

func (p *parameters) fault(parameter, what string) {
	p.faults = append(p.faults, fmt.Errorf("parameter %s %s", parameter, what))
}

// window is over what time rates are taken, in PromQL's words.
func (p *parameters) window() string {
	text, ok := p.given["window"]
	if !ok {
		return promDuration(DefaultWindow)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > time.Hour {
		p.fault("window", fmt.Sprintf("is %q, want a duration from 1s to 1h", text))
		return promDuration(DefaultWindow)
	}
	return promDuration(d)
}

func promDuration(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// percentile is the share of requests, 0 for the mean.
func (p *parameters) percentile() float64 {
	text, ok := p.given["percentile"]
	if !ok {
		return 0
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share > 0 && share < 100) {
		p.fault("percentile", fmt.Sprintf("is %q, want a number above 0 and below 100", text))
		return 0
	}
	return share / 100
}

// flag is a parameter that is true or false.
func (p *parameters) flag(name string) bool {
	text, ok := p.given[name]
	if !ok {
		return false
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		p.fault(name, fmt.Sprintf("is %q, want true or false", text))
	}
	return is
}

// matcher is one label matcher, with the value quoted: in ASCII, since PromQL does not
// take U+FFFD as it is.
func matcher(label, op, value string) string { return label + op + strconv.QuoteToASCII(value) }

// selector is a label selector of what is not empty; "" if nothing is left.
func selector(matchers ...string) string {
	matchers = slices.DeleteFunc(slices.Clone(matchers), func(m string) bool { return m == "" })
	if len(matchers) == 0 {
		return ""
	}
	return "{" + strings.Join(matchers, ",") + "}"
}

// value is that of a parameter, or what it is without one.
func (p *parameters) value(name, otherwise string) string {
	if text, ok := p.given[name]; ok {
		return text
	}
	return otherwise
}

// equal is a matcher; "" for no value, which is no bound.
func equal(label, value string) string {
	if value == "" {
		return ""
	}
	return matcher(label, "=", value)
}

// inNamespace is the matcher of the namespace; "" where a server narrows to it.
func (p *parameters) inNamespace(label string) string {
	if p.serving {
		return ""
	}
	return matcher(label, "=", p.namespace)
}

// sum begins a sum over all series, or over those with the same value of a label.
func (p *parameters) sum() string {
	if p.by == "" {
		return "sum("
	}
	return "sum by (" + p.by + ") ("
}

// ingressNginx reads one ingress. Prometheus calls labels that a target has beside
// those of its own discovery exported_...; with honorLabels, as the scrape
// configuration says, they keep their names.
func ingressNginx(p *parameters) Queries {
	prefix := p.exported()
	return p.web("nginx_ingress_controller_requests", "nginx_ingress_controller_request_duration_seconds", matcher("status", "!~", "5.."),
		p.inNamespace(prefix+"namespace"), equal("ingress", p.given["ingress"]), equal(prefix+"service", p.given["service"]))
}

// exported is what the names of labels of a target begin with that its discovery has too.
func (p *parameters) exported() string {
	if p.flag("honorLabels") {
		return ""
	}
	return "exported_"
}

// nginx reads one nginx, or several whose requests count together. The namespace is
// that of the policy unless a parameter names the one that nginx runs in; an empty
// one is no bound, for servers that know no namespaces. Without an upstream the
// queue is the connections with a request under way, of which each scrape of the
// status page makes one; they do not tell upstreams apart. Arrivals without an upstream
// are the requests that have begun, as the status page counts them, less those for that
// page; where there is no such count, those that have been answered: fewer, as long as a
// line grows.
func nginx(p *parameters) Queries {
	of := []string{equal("job", p.given["job"]), equal("namespace", p.value("namespace", p.namespace))}
	q := p.web("nginx_log_requests_total", "nginx_log_request_duration_seconds", matcher("status", "!=", "5xx"),
		append(slices.Clone(of), equal("upstream", p.given["upstream"]))...)
	if where := selector(of...); p.given["upstream"] == "" {
		q.ArrivalRate = fmt.Sprintf("clamp_min(sum(rate(nginx_http_requests_total%[1]s[%[2]s])) - sum(rate(nginx_status_reads_total%[1]s[%[2]s])), 0) or %[3]s",
			where, p.window(), q.ArrivalRate)
	}
	counted := "connections"
	if p.serving {
		counted = "little" // an upstream may be asked for
	}
	switch queue := p.value("queue", counted); {
	case queue == "little":
	case queue != "connections":
		p.fault("queue", fmt.Sprintf("is %q, want connections or little", queue))
	case p.given["upstream"] == "":
		where := selector(of...)
		q.QueueLength = "sum(clamp_min(nginx_connections_reading" + where + " + nginx_connections_writing" + where + " - 1, 0))"
	case p.given["queue"] != "":
		p.fault("queue", "is \"connections\", want little with an upstream: connections do not tell upstreams apart")
	}
	return q
}

// web has the queries of a counter of requests and a histogram of their response
// times, of which good leaves out the failed ones. Requests are counted when they have
// been answered, so that arrivals show with the delay of a response. The requests
// inside are, by Little's law, the response times that add up in a second: those that
// wait and were not answered yet are missing, so that it comes late where a line grows
// quickly.
func (p *parameters) web(counter, histogram, good string, of ...string) Queries {
	window, all, answered := p.window(), selector(of...), selector(append(of, good)...)
	rate := func(metric, of string) string { return fmt.Sprintf("rate(%s%s[%s])", metric, of, window) }
	q := Queries{
		ArrivalRate:  p.sum() + rate(counter, all) + ")",
		ResponseTime: p.sum() + rate(histogram+"_sum", answered) + ") / " + p.sum() + rate(histogram+"_count", answered) + ")",
		QueueLength:  p.sum() + rate(histogram+"_sum", all) + ")",
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

// containerCPU reads the containers of the pods whose names match a regular expression,
// whole. Both sums are of the same pods: those that are measured and request something and,
// for a policy, are Ready. A law multiplies by its Ready replicas: with the requests of pods
// that still start among the divisor, utilisation would fall as soon as they are asked for,
// and they would be cancelled. A server may be asked for one container, which readiness is
// not of: there the pods that are measured count.
func containerCPU(p *parameters) Queries {
	container := matcher("container", "!=", "")
	if name := p.given["container"]; name != "" {
		container = matcher("container", "=", name)
	}
	namespace, named := p.inNamespace("namespace"), p.pods()
	used := fmt.Sprintf("rate(container_cpu_usage_seconds_total%s[%s])", selector(namespace, named, container), p.window())
	requested := "kube_pod_container_resource_requests" + selector(namespace, named, container, matcher("resource", "=", "cpu"))
	const ofPod = " and on (namespace, pod) "
	ready := ofPod + "kube_pod_status_ready" + selector(namespace, named, matcher("condition", "=", "true")) + " == 1"
	if p.serving {
		ready = ""
	}
	return Queries{Utilization: "100 * " + p.sum() + used + ofPod + requested + ready + ") / " + p.sum() + requested + ofPod + used + ready + ")"}
}

// pods is the matcher of the pods whose names match a regular expression, whole; "" where
// a server is asked for any.
func (p *parameters) pods() string {
	pods := p.given["pods"]
	if _, err := regexp.Compile(pods); err != nil {
		p.fault("pods", fmt.Sprintf("is %q, want a regular expression: %v", pods, err))
	}
	if pods == "" && p.serving {
		return ""
	}
	return matcher("pod", "=~", pods)
}

// podUsage reads pods as the metrics adapter keeps them. Pods that have not been measured
// yet, or are not Ready, are in neither sum.
func podUsage(p *parameters) Queries {
	where := selector(p.inNamespace("namespace"), p.pods(), matcher("resource", "=", "cpu"))
	return Queries{Utilization: fmt.Sprintf("100 * %[1]ssupercargo_pod_used%[2]s and supercargo_pod_requested%[2]s) / %[1]ssupercargo_pod_requested%[2]s and supercargo_pod_used%[2]s)", p.sum(), where)}
}

// workQueue reads a manager, or one category of its tasks. A task has arrived when it was
// submitted, and is inside while it waits, is on its way to a worker, runs there, or has
// results that are still to come back. Managers do not say of which category the tasks were
// that they were given.
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
