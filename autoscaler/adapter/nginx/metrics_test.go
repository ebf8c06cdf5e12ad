package nginx

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRequestsAreCounted(t *testing.T) {
	log := NewLog([]float64{0.2, 0.4}, 1)
	log.Line([]byte(line))
	log.Line([]byte(`{"status":"502","request_time":"0.5","upstream":"web","msec":"1"}`))
	log.Line([]byte(`{"status":"200","request_time":"0.1","upstream":"one too many"}`))
	log.Line([]byte(`garbled`))
	log.Fault(nil)
	want := `
# HELP nginx_log_last_request_timestamp_seconds Time of the response to the latest request in the access log; 0 if there is none.
# TYPE nginx_log_last_request_timestamp_seconds gauge
nginx_log_last_request_timestamp_seconds 1.767225600123e+09
# HELP nginx_log_lines_garbled_total Lines of the access log that were skipped because they were malformed, too long or incomplete.
# TYPE nginx_log_lines_garbled_total counter
nginx_log_lines_garbled_total 1
# HELP nginx_log_request_bytes_total Size of requests, including headers.
# TYPE nginx_log_request_bytes_total counter
nginx_log_request_bytes_total{upstream="other"} 0
nginx_log_request_bytes_total{upstream="web"} 78
# HELP nginx_log_request_duration_seconds Time from the first byte of a request to the last byte of the response, by status class.
# TYPE nginx_log_request_duration_seconds histogram
nginx_log_request_duration_seconds_bucket{status="2xx",upstream="other",le="0.2"} 1
nginx_log_request_duration_seconds_bucket{status="2xx",upstream="other",le="0.4"} 1
nginx_log_request_duration_seconds_bucket{status="2xx",upstream="other",le="+Inf"} 1
nginx_log_request_duration_seconds_sum{status="2xx",upstream="other"} 0.1
nginx_log_request_duration_seconds_count{status="2xx",upstream="other"} 1
nginx_log_request_duration_seconds_bucket{status="2xx",upstream="web",le="0.2"} 0
nginx_log_request_duration_seconds_bucket{status="2xx",upstream="web",le="0.4"} 1
nginx_log_request_duration_seconds_bucket{status="2xx",upstream="web",le="+Inf"} 1
nginx_log_request_duration_seconds_sum{status="2xx",upstream="web"} 0.25
nginx_log_request_duration_seconds_count{status="2xx",upstream="web"} 1
nginx_log_request_duration_seconds_bucket{status="5xx",upstream="web",le="0.2"} 0
nginx_log_request_duration_seconds_bucket{status="5xx",upstream="web",le="0.4"} 0
nginx_log_request_duration_seconds_bucket{status="5xx",upstream="web",le="+Inf"} 1
nginx_log_request_duration_seconds_sum{status="5xx",upstream="web"} 0.5
nginx_log_request_duration_seconds_count{status="5xx",upstream="web"} 1
# HELP nginx_log_requests_total Requests in the access log, by status class.
# TYPE nginx_log_requests_total counter
nginx_log_requests_total{status="2xx",upstream="other"} 1
nginx_log_requests_total{status="2xx",upstream="web"} 1
nginx_log_requests_total{status="5xx",upstream="web"} 1
# HELP nginx_log_up 1 if the last read of the access log succeeded.
# TYPE nginx_log_up gauge
nginx_log_up 1
# HELP nginx_log_upstream_duration_seconds Time spent with upstream servers, over all attempts of a request.
# TYPE nginx_log_upstream_duration_seconds histogram
nginx_log_upstream_duration_seconds_bucket{upstream="web",le="0.2"} 0
nginx_log_upstream_duration_seconds_bucket{upstream="web",le="0.4"} 1
nginx_log_upstream_duration_seconds_bucket{upstream="web",le="+Inf"} 1
nginx_log_upstream_duration_seconds_sum{upstream="web"} 0.225
nginx_log_upstream_duration_seconds_count{upstream="web"} 1
`
	if err := testutil.CollectAndCompare(log, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(log); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestTheStatusPageBecomesConnections(t *testing.T) {
	var fault error
	status, err := ParseStatus(page)
	p := &Page{Read: func() (Status, error) { return status, err }, Fault: func(err error) { fault = err }}
	want := `
# HELP nginx_connections_reading Connections whose request header is being read.
# TYPE nginx_connections_reading gauge
nginx_connections_reading 6
# HELP nginx_connections_writing Connections with a request in progress, including the one for this page.
# TYPE nginx_connections_writing gauge
nginx_connections_writing 179
# HELP nginx_http_requests_total Client requests, including those for this page.
# TYPE nginx_http_requests_total counter
nginx_http_requests_total 3.1070465e+07
# HELP nginx_status_reads_total Reads of the stub_status page by this exporter; nginx counts them among its requests.
# TYPE nginx_status_reads_total counter
nginx_status_reads_total 1
# HELP nginx_up 1 if the last read of the stub_status page succeeded.
# TYPE nginx_up gauge
nginx_up 1
`
	if err := testutil.CollectAndCompare(p, strings.NewReader(want), "nginx_up", "nginx_connections_reading", "nginx_connections_writing", "nginx_http_requests_total", "nginx_status_reads_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(p); n != 9 {
		t.Errorf("%d metrics, want 9", n)
	}
	err = errors.New("refused")
	if n := testutil.CollectAndCount(p); n != 1 || fault == nil || !strings.Contains(fault.Error(), "refused") {
		t.Errorf("%d metrics and fault %v for a page that cannot be read, want nginx_up alone, and why", n, fault)
	}
}
