package replica

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/queueing"
)

// metricsServer is a server that implements Prometheus' API. It supports some queries, "rate", "response" and
// "queue", and answers them for the service that it simulates.
type metricsServer struct {
	*httptest.Server

	mu sync.Mutex
	// rate is requests per second, muB the requests per second that a Ready replica serves, ready the number
	// of Ready replicas.
	rate, muB float64
	ready     int
	// fault answers a request instead, if it is not nil.
	fault func(w http.ResponseWriter, r *http.Request)
	asked int
}

func newMetrics(t *testing.T, rate, muB float64) *metricsServer {
	m := &metricsServer{rate: rate, muB: muB}
	m.Server = httptest.NewServer(m)
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

// set changes the service.
func (m *metricsServer) set(change func(m *metricsServer)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

func (m *metricsServer) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// ServeHTTP implements http.Handler.
func (m *metricsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.asked++
	fault, answer := m.fault, m.value(r.FormValue("query"))
	m.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/api/v1/query") || math.IsNaN(answer) {
		http.Error(w, fmt.Sprintf("%s is not known", r.URL), http.StatusNotFound)
		return
	}
	at, err := strconv.ParseFloat(r.FormValue("time"), 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{
		"resultType": "vector", "result": []any{map[string]any{"metric": map[string]string{}, "value": []any{at, strconv.FormatFloat(answer, 'g', -1, 64)}}},
	}})
}

// value returns the answer to a query, or NaN for an unknown query.
func (m *metricsServer) value(query string) float64 {
	s := queueing.System{Servers: max(m.ready, 1), ArrivalRate: m.rate, ServiceRate: m.muB}
	switch query {
	case "rate":
		return m.rate
	case "response":
		return min(s.Response(), 10)
	case "queue":
		return min(s.Requests(), 500*float64(max(m.ready, 1)))
	}
	return math.NaN()
}

// down is a source that returns an error.
func down(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "out of order", http.StatusServiceUnavailable)
}

// hang is a source that does not answer.
func hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(time.Minute):
	}
}
