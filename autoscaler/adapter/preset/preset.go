// Package preset has queries for metrics that many services have.
//
// A preset is a function of its parameters to PromQL, one query for each
// measurement that it knows. Everything a parameter says ends up inside a quoted
// label value, so that it can narrow a query and not change it, and the namespace
// is always that of the policy.
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
)

// Queries are PromQL, each answering one sample; empty where there is none.
type Queries struct {
	// ArrivalRate is requests per second.
	ArrivalRate string
	// ResponseTime is seconds.
	ResponseTime string
	// QueueLength is the requests inside, waiting and in service.
	QueueLength string
	// Utilization is the mean load of a Ready replica in percent of what it requests.
	Utilization string
}

// The presets.
const (
	// IngressNginx is the metrics of ingress-nginx's controller.
	IngressNginx = "ingress-nginx"
	// ContainerCPU is the CPU that containers use, as kubelets tell it, in percent of
	// what they request, as kube-state-metrics tells it.
	ContainerCPU = "container-cpu"
)

// DefaultWindow is over what time rates are taken: two samples must be inside, so
// that it is at least twice the scrape interval.
const DefaultWindow = time.Minute

type entry struct {
	name string
	// required and optional are the parameters.
	required, optional []string
	make               func(p *parameters) Queries
}

var entries = []entry{
	{IngressNginx, []string{"ingress"}, []string{"service", "window", "percentile", "honorLabels"}, ingressNginx},
	{ContainerCPU, []string{"pods"}, []string{"container", "window"}, containerCPU},
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
	at := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	if at < 0 {
		return Queries{}, fmt.Errorf("preset %q is not known, want one of %s", name, strings.Join(Names(), ", "))
	}
	e := entries[at]
	p := &parameters{namespace: namespace, given: given}
	for _, required := range e.required {
		if given[required] == "" {
			p.fault(required, "is missing")
		}
	}
	known := slices.Concat(e.required, e.optional)
	for _, parameter := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, parameter) {
			p.fault(parameter, "is not known, want one of "+strings.Join(known, ", "))
		}
	}
	q := e.make(p)
	if err := errors.Join(p.faults...); err != nil {
		return Queries{}, fmt.Errorf("preset %s: %w", name, err)
	}
	return q, nil
}

// parameters reads what was given and gathers what is wrong with it.
type parameters struct {
	namespace string
	given     map[string]string
	faults    []error
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

// matcher is one label matcher, with the value quoted.
func matcher(label, op, value string) string { return label + op + strconv.Quote(value) }

// selector is a label selector of what is not empty.
func selector(matchers ...string) string {
	return "{" + strings.Join(slices.DeleteFunc(matchers, func(m string) bool { return m == "" }), ",") + "}"
}

// ingressNginx reads one ingress. Requests are counted when they have been answered,
// so that arrivals show with the delay of a response. The requests inside are, by
// Little's law, the response times that add up in a second. Prometheus calls labels
// that a target has beside those of its own discovery exported_...; with
// honorLabels, as the scrape configuration says, they keep their names.
func ingressNginx(p *parameters) Queries {
	prefix := "exported_"
	if p.flag("honorLabels") {
		prefix = ""
	}
	service := ""
	if name := p.given["service"]; name != "" {
		service = matcher(prefix+"service", "=", name)
	}
	of := selector(matcher(prefix+"namespace", "=", p.namespace), matcher("ingress", "=", p.given["ingress"]), service)
	window := p.window()
	rate := func(metric string) string {
		return fmt.Sprintf("rate(nginx_ingress_controller_%s%s[%s])", metric, of, window)
	}
	seconds := "sum(" + rate("request_duration_seconds_sum") + ")"
	q := Queries{
		ArrivalRate:  "sum(" + rate("requests") + ")",
		ResponseTime: seconds + " / sum(" + rate("request_duration_seconds_count") + ")",
		QueueLength:  seconds,
	}
	if share := p.percentile(); share > 0 {
		q.ResponseTime = fmt.Sprintf("histogram_quantile(%g, sum by (le) (%s))", share, rate("request_duration_seconds_bucket"))
	}
	return q
}

// containerCPU reads the containers of the pods whose names match a regular
// expression, whole.
func containerCPU(p *parameters) Queries {
	pods := p.given["pods"]
	if _, err := regexp.Compile(pods); err != nil {
		p.fault("pods", fmt.Sprintf("is %q, want a regular expression: %v", pods, err))
	}
	container := matcher("container", "!=", "")
	if name := p.given["container"]; name != "" {
		container = matcher("container", "=", name)
	}
	namespace, named := matcher("namespace", "=", p.namespace), matcher("pod", "=~", pods)
	return Queries{Utilization: fmt.Sprintf("100 * sum(rate(container_cpu_usage_seconds_total%s[%s])) / sum(kube_pod_container_resource_requests%s)",
		selector(namespace, named, container), p.window(),
		selector(namespace, named, container, matcher("resource", "=", "cpu")))}
}
