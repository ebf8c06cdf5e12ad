package nginx

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Buckets are the upper bounds, in seconds, of the histograms of response times: dense where
// SLOs usually are, for accurate percentiles.
var Buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 30}

// other is the upstream label of requests beyond maxUpstreams.
const other = "other"

// Log counts the requests in the access log.
type Log struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	upstream *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	garbled  prometheus.Counter
	last     prometheus.Gauge
	readable prometheus.Gauge

	mu           sync.Mutex
	upstreams    map[string]bool
	maxUpstreams int
	latest       float64
}

// NewLog returns a Log. Upstreams after the first maxUpstreams are counted as "other": each
// upstream costs about sixty series. Registering it twice fails.
func NewLog(buckets []float64, maxUpstreams int) *Log {
	return &Log{
		maxUpstreams: maxUpstreams, upstreams: map[string]bool{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nginx_log_requests_total",
			Help: "Requests in the access log, by status class."}, []string{"upstream", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "nginx_log_request_duration_seconds", Buckets: buckets,
			Help: "Time from the first byte of a request to the last byte of the response, by status class."}, []string{"upstream", "status"}),
		upstream: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "nginx_log_upstream_duration_seconds", Buckets: buckets,
			Help: "Time spent with upstream servers, over all attempts of a request."}, []string{"upstream"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nginx_log_request_bytes_total",
			Help: "Size of requests, including headers."}, []string{"upstream"}),
		garbled: prometheus.NewCounter(prometheus.CounterOpts{Name: "nginx_log_lines_garbled_total",
			Help: "Lines of the access log that were skipped because they were malformed, too long or incomplete."}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{Name: "nginx_log_last_request_timestamp_seconds",
			Help: "Time of the response to the latest request in the access log; 0 if there is none."}),
		readable: prometheus.NewGauge(prometheus.GaugeOpts{Name: "nginx_log_up", Help: "1 if the last read of the access log succeeded."}),
	}
}

// Line parses and counts a line of the access log.
func (l *Log) Line(line []byte) {
	r, err := ParseLine(line)
	if err != nil {
		l.Garbled()
		return
	}
	l.Count(r)
}

// Count counts a request.
func (l *Log) Count(r Request) {
	upstream := l.name(r)
	l.requests.WithLabelValues(upstream, r.Class()).Inc()
	l.duration.WithLabelValues(upstream, r.Class()).Observe(r.Seconds)
	if !math.IsNaN(r.UpstreamSeconds) {
		l.upstream.WithLabelValues(upstream).Observe(r.UpstreamSeconds)
	}
	l.bytes.WithLabelValues(upstream).Add(float64(r.Bytes))
}

// name returns the upstream label of a request, and records the latest time.
func (l *Log) name(r Request) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := float64(r.At.UnixMilli()) / 1000; !r.At.IsZero() && at > l.latest {
		l.latest = at
		l.last.Set(at)
	}
	if !l.upstreams[r.Upstream] {
		if len(l.upstreams) >= l.maxUpstreams {
			return other
		}
		l.upstreams[r.Upstream] = true
	}
	return r.Upstream
}

// Garbled counts a line that was skipped.
func (l *Log) Garbled() { l.garbled.Inc() }

// Fault records whether the log could be read.
func (l *Log) Fault(err error) {
	if err != nil {
		l.readable.Set(0)
		return
	}
	l.readable.Set(1)
}

func (l *Log) parts() []prometheus.Collector {
	return []prometheus.Collector{l.requests, l.duration, l.upstream, l.bytes, l.garbled, l.last, l.readable}
}

// Describe implements [prometheus.Collector].
func (l *Log) Describe(to chan<- *prometheus.Desc) {
	for _, p := range l.parts() {
		p.Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (l *Log) Collect(to chan<- prometheus.Metric) {
	for _, p := range l.parts() {
		p.Collect(to)
	}
}

// Page exports metrics of the stub_status page, which it reads at each scrape. Their names
// are those of NGINX's own exporter.
type Page struct {
	// Read reads the page.
	Read func() (Status, error)
	// Fault is called with the result of each read, including nil.
	Fault func(error)

	reads atomic.Uint64
}

var (
	descReads  = prometheus.NewDesc("nginx_status_reads_total", "Reads of the stub_status page by this exporter; nginx counts them among its requests.", nil, nil)
	descUp     = prometheus.NewDesc("nginx_up", "1 if the last read of the stub_status page succeeded.", nil, nil)
	statusDesc = func(name, help string) *prometheus.Desc { return prometheus.NewDesc("nginx_"+name, help, nil, nil) }
	statusRows = []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value func(Status) uint64
	}{
		{statusDesc("connections_active", "Client connections, including idle ones."), prometheus.GaugeValue, func(s Status) uint64 { return s.Active }},
		{statusDesc("connections_reading", "Connections whose request header is being read."), prometheus.GaugeValue, func(s Status) uint64 { return s.Reading }},
		{statusDesc("connections_writing", "Connections with a request in progress, including the one for this page."), prometheus.GaugeValue, func(s Status) uint64 { return s.Writing }},
		{statusDesc("connections_waiting", "Idle keep-alive connections."), prometheus.GaugeValue, func(s Status) uint64 { return s.Waiting }},
		{statusDesc("connections_accepted", "Connections accepted."), prometheus.CounterValue, func(s Status) uint64 { return s.Accepted }},
		{statusDesc("connections_handled", "Connections handled; fewer than accepted if a limit was reached."), prometheus.CounterValue, func(s Status) uint64 { return s.Handled }},
		{statusDesc("http_requests_total", "Client requests, including those for this page."), prometheus.CounterValue, func(s Status) uint64 { return s.Requests }},
	}
)

// Describe implements [prometheus.Collector].
func (p *Page) Describe(to chan<- *prometheus.Desc) {
	to <- descUp
	to <- descReads
	for _, row := range statusRows {
		to <- row.desc
	}
}

// Collect implements [prometheus.Collector]. If the page cannot be read it exports only
// nginx_up 0: an unknown number of connections is not 0.
func (p *Page) Collect(to chan<- prometheus.Metric) {
	status, err := p.Read()
	if err != nil {
		err = fmt.Errorf("read the stub_status page: %w", err)
	}
	p.Fault(err)
	if err != nil {
		to <- prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, 0)
		return
	}
	to <- prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, 1)
	to <- prometheus.MustNewConstMetric(descReads, prometheus.CounterValue, float64(p.reads.Add(1)))
	for _, row := range statusRows {
		to <- prometheus.MustNewConstMetric(row.desc, row.kind, float64(row.value(status)))
	}
}
