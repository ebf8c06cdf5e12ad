// Package promserver is a test server that answers PromQL as Prometheus does, with its engine, its storage
// and its HTTP API.
package promserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
)

// Server is the server. Its methods may be called from any goroutine.
type Server struct {
	// URL is the base URL of the server.
	URL string
	// Down makes it refuse all queries.
	Down atomic.Bool

	t     testing.TB
	store *store.Store
	api   http.Handler
	mu    sync.Mutex
	asked []string
}

// Start starts a server without series, which ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	o := store.Defaults()
	o.Dir, o.Log = t.TempDir(), logr.Discard()
	opened, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, store: opened, api: opened.Handler(time.Now)}
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() {
		server.Close()
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.FormValue("query"))
	s.mu.Unlock()
	if s.Down.Load() {
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	s.api.ServeHTTP(w, r)
}

// Client returns a client of the server.
func (s *Server) Client() *prometheus.Client {
	s.t.Helper()
	c, err := prometheus.New(prometheus.Config{URL: s.URL})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// Put adds a sample of a series, given as name, value, name, value. Samples of a series must be in time
// order.
func (s *Server) Put(at time.Time, value float64, series ...string) {
	s.t.Helper()
	a := s.store.Appender(context.WithoutCancel(s.t.Context())) // the last query may still be running
	_, err := a.Append(0, labels.FromStrings(series...), 0, at.UnixMilli(), value, nil, nil, storage.AOptions{})
	if err == nil {
		err = a.Commit()
	}
	if err != nil {
		s.t.Errorf("%v at %v: %v", series, at, err)
	}
}

// AppenderV2 implements storage.AppendableV2, so that other writers can add series.
func (s *Server) AppenderV2(ctx context.Context) storage.AppenderV2 { return s.store.AppenderV2(ctx) }

// Asked returns the queries so far, in order.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}
