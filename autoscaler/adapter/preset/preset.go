// Package preset has the queries, in PromQL, that tell a law for replicas how a
// service does, for the programs that answer for it: names and a few parameters in,
// queries out.
//
// Every query answers one sample, or none where nothing is measured; none is never
// a zero. A mean or percentile is NaN while no request was answered. Counters that
// begin anew are rate's to mend. 5xx answers count as arrivals and not as response
// times: a service that fails at once is not a quick one.
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

// Queries are PromQL expressions; "" where there is none.
type Queries struct {
	// ArrivalRate is requests per second, over the window.
	ArrivalRate string
	// ResponseTime is the mean response time in seconds, of the requests answered
	// within the window.
	ResponseTime string
	// Percentile is the percentile of response times, in seconds, interpolated
	// within the buckets of a histogram.
	Percentile string
	// QueueLength is the requests inside, waiting and in service: [Little] or
	// [Connections].
	QueueLength string
	// Utilization is CPU use in percent of what is requested.
	Utilization string
}

// The presets.
const (
	// IngressNginx is for services behind an ingress-nginx controller.
	IngressNginx = "ingress-nginx"
	// Nginx is for services behind any nginx with the nginx-exporter beside it.
	Nginx = "nginx"
)

// Where the queue length comes from.
const (
	// Little is Little's law, L = λ·W: the response times of a window, summed up,
	// over its length. It knows only requests that were answered, so that it comes
	// late where a line grows quickly.
	Little = "little"
	// Connections are those with a request under way now, of a whole nginx.
	Connections = "connections"
)

// The parameters.
const (
	paramNamespace  = "namespace"
	paramIngress    = "ingress"
	paramService    = "service"
	paramWorkload   = "workload"
	paramJob        = "job"
	paramExported   = "exported"
	paramQueue      = "queue"
	paramWindow     = "window"
	paramPercentile = "percentile"
)

// Defaults.
const (
	defaultWindow     = time.Minute
	defaultPercentile = 0.95
	maxWindow         = 24 * time.Hour
)

// preset is one row of what New knows.
type preset struct {
	what   string
	params []string
	make   func(reader) Queries
}

var presets = map[string]preset{
	IngressNginx: {"an ingress-nginx controller, version 1.x",
		[]string{paramNamespace, paramIngress, paramService, paramWorkload, paramJob, paramExported, paramWindow, paramPercentile}, ingressNginx},
	Nginx: {"nginx with the nginx-exporter beside it",
		[]string{paramNamespace, paramService, paramWorkload, paramJob, paramQueue, paramWindow, paramPercentile}, nginx},
}

// Names lists the presets in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(presets)) }

// Describe says in a line what a preset is for and which parameters it takes; ""
// for an unknown one.
func Describe(name string) string {
	p, ok := presets[name]
	if !ok {
		return ""
	}
	return p.what + "; parameters " + strings.Join(p.params, ", ")
}

// New makes the queries of a preset. Parameters:
//
//   - namespace: of the ingress, or of the workload's pods. ingress-nginx needs it.
//   - ingress, service: what is measured. ingress-nginx needs one of them, and with
//     both measures the service's part of the ingress. For nginx, service is the
//     label that its log_format gives, and without one everything is measured.
//   - workload: the Deployment, StatefulSet or other whose pods' CPU is measured, by
//     cAdvisor and kube-state-metrics; pods are those named after it and a dash, so
//     that another whose name goes on like that counts too. Without it there is no
//     query for Utilization: metrics.k8s.io knows it as well.
//   - job: the Prometheus job, where several are scraped.
//   - exported: "true" where Prometheus has renamed the controller's labels to
//     exported_namespace and exported_service, as with a ServiceMonitor without
//     honorLabels.
//   - queue: [Little] or [Connections]. nginx without a service takes connections,
//     which do not tell services apart; everything else Little's law.
//   - window: what rates are taken over, such as 30s: at least twice, better four
//     times, as long as metrics are scraped. 1m if not given.
//   - percentile: above 0 and below 1. 0.95 if not given.
//
// It refuses an unknown name or parameter and impossible values, all of them at
// once. Values end up in quoted strings only.
func New(name string, params map[string]string) (Queries, error) {
	p, ok := presets[name]
	if !ok {
		return Queries{}, fmt.Errorf("preset %q is not known, want one of %s", name, strings.Join(Names(), ", "))
	}
	r := reader{params: params, window: defaultWindow, percentile: defaultPercentile, errs: new([]error)}
	for _, key := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(p.params, key) {
			r.refuse(key, "is not known, want one of "+strings.Join(p.params, ", "))
		}
	}
	r.readNumbers()
	q := p.make(r)
	if err := errors.Join(*r.errs...); err != nil {
		return Queries{}, fmt.Errorf("preset %s: %w", name, err)
	}
	return q, nil
}

// reader reads parameters and keeps what is wrong with them.
type reader struct {
	params     map[string]string
	window     time.Duration
	percentile float64
	errs       *[]error
}

func (r reader) refuse(key, why string) {
	*r.errs = append(*r.errs, fmt.Errorf("parameter %s %s", key, why))
}

// readNumbers reads window and percentile.
func (r *reader) readNumbers() {
	if s, ok := r.params[paramWindow]; ok {
		window, err := time.ParseDuration(s)
		if err != nil || window < time.Second || window > maxWindow || window%time.Millisecond != 0 {
			r.refuse(paramWindow, fmt.Sprintf("%q: want whole milliseconds from 1s to %v", s, maxWindow))
		}
		r.window = window
	}
	if s, ok := r.params[paramPercentile]; ok {
		percentile, err := strconv.ParseFloat(s, 64)
		if err != nil || !(percentile > 0 && percentile < 1) {
			r.refuse(paramPercentile, fmt.Sprintf("%q: want a number above 0 and below 1", s))
		}
		r.percentile = percentile
	}
}

// dnsName is what Kubernetes names may look like, in the widest sense.
var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// object reads the name of a Kubernetes object; "" if it is not given.
func (r reader) object(key string) string {
	s := r.params[key]
	if _, given := r.params[key]; given && !dnsName.MatchString(s) {
		r.refuse(key, fmt.Sprintf("%q: want the name of a Kubernetes object", s))
	}
	return s
}

// label reads the value of a label that others choose.
func (r reader) label(key string) string {
	s, given := r.params[key]
	if given && (s == "" || len(s) > 253 || !utf8.ValidString(s)) {
		r.refuse(key, fmt.Sprintf("%q: want 1 to 253 bytes of UTF-8", s))
	}
	return s
}

// choice reads one of some words; the first if it is not given.
func (r reader) choice(key string, words ...string) string {
	s, given := r.params[key]
	if !given {
		return words[0]
	}
	if !slices.Contains(words, s) {
		r.refuse(key, fmt.Sprintf("%q: want %s", s, strings.Join(words, " or ")))
	}
	return s
}
