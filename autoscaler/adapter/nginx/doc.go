// Package nginx turns what nginx says of its requests into Prometheus metrics.
//
// Two sources are read, either or both. The stub_status page has connections and
// the number of requests. The access log, in a format of JSON lines given by
// [LogFormat], has each request's status, time and size; a [Follower] reads it
// through rotation. Rates, means and percentiles are left to PromQL: what is
// exported are counters, histograms and the connections of the moment, so that a
// restart is an ordinary counter reset.
package nginx

// LogFormat is the log_format of nginx, named supercargo, whose lines [ParseLine]
// reads. Members may be left out, other than status and request_time, and others
// added. $proxy_host is the name of the upstream, by which services are told apart;
// any other variable with few values will do.
const LogFormat = `log_format supercargo escape=json '{"msec":"$msec","status":"$status","request_time":"$request_time",'
    '"upstream_response_time":"$upstream_response_time","request_length":"$request_length","upstream":"$proxy_host"}';`
