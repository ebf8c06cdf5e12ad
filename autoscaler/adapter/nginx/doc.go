// Package nginx exports Prometheus metrics of nginx's requests.
//
// It reads one or both of two sources. The stub_status page has connections and the number of
// requests. The access log, as JSON lines in the format [LogFormat], has the status, time and
// size of each request; a [Follower] reads it through rotation. The exported metrics are
// counters, histograms and current connections; PromQL computes rates, means and percentiles
// from them, so that a restart is an ordinary counter reset.
package nginx

// LogFormat is an nginx log_format named supercargo whose lines [ParseLine] reads. Only the
// members status and request_time are required; others may be added. $proxy_host is the name
// of the upstream, which distinguishes services; any other variable with few values can
// replace it.
const LogFormat = `log_format supercargo escape=json '{"msec":"$msec","status":"$status","request_time":"$request_time",'
    '"upstream_response_time":"$upstream_response_time","request_length":"$request_length","upstream":"$proxy_host"}';`
