package agent

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/internal/platform/guard"
)

// metrics are the agent's metrics. They have a registry of their own, because several agents may
// run in one process.
type metrics struct {
	registry *prometheus.Registry
	phase    *prometheus.HistogramVec // seconds
	bytes    *prometheus.CounterVec
	reports  *prometheus.CounterVec
}

// RegisterMetrics registers an agent's metrics in a registry, for listing them. [New] has a
// registry of its own.
func RegisterMetrics(to prometheus.Registerer) { newMetrics().register(to) }

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		phase: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "supercargo_agent_seconds", Help: "Duration of the parts of a migration: presend (memory sent before the freeze), dump, ship, stage, and frozen for containers that continue on this node.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60, 120},
		}, []string{"part"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "supercargo_agent_bytes_total", Help: "Bytes sent before the freeze (presend, compressed), dumped, shipped (compressed) and staged.",
		}, []string{"part"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "supercargo_agent_reports_total", Help: "Reported steps of migrations, by role; failures have a reason.",
		}, []string{"role", "step", "reason"}),
	}
	m.register(m.registry)
	return m
}

func (m *metrics) register(to prometheus.Registerer) { to.MustRegister(m.phase, m.bytes, m.reports) }

// source records a report of the source.
func (m *metrics) source(entry ledger.Entry, d agentdecide.SourceDecision) {
	m.reports.WithLabelValues(string(ledger.SourceRole), string(d.Step), d.Reason).Inc()
	switch d.Step {
	case v1alpha1.SourceDumped:
		m.phase.WithLabelValues("dump").Observe(entry.Dump.Seconds())
		m.bytes.WithLabelValues("dump").Add(float64(entry.DumpBytes))
	case v1alpha1.SourceShipped:
		m.phase.WithLabelValues("ship").Observe(entry.Ship.Seconds())
		m.bytes.WithLabelValues("ship").Add(float64(entry.ShipBytes))
	case v1alpha1.SourceThawed:
		if !entry.FrozenAt.IsZero() && !entry.ThawedAt.IsZero() {
			m.phase.WithLabelValues("frozen").Observe(entry.ThawedAt.Sub(entry.FrozenAt).Seconds())
		}
	}
}

// presend records memory that was sent before the freeze.
func (m *metrics) presend(bytes int64, took time.Duration) {
	m.phase.WithLabelValues("presend").Observe(took.Seconds())
	m.bytes.WithLabelValues("presend").Add(float64(bytes))
}

// target records a report of the target.
func (m *metrics) target(entry ledger.Entry, d agentdecide.TargetDecision) {
	m.reports.WithLabelValues(string(ledger.TargetRole), string(d.Step), d.Reason).Inc()
	if d.Step == v1alpha1.TargetStaged && entry.Staged != nil {
		m.phase.WithLabelValues("stage").Observe(entry.Ship.Seconds())
		m.bytes.WithLabelValues("stage").Add(float64(entry.Staged.Bytes))
	}
}

// serve serves metrics and health until ctx ends, without authentication: metrics name no pod, and an
// unhealthy agent at most a Migration.
func (a *Agent) serve(ctx context.Context) error {
	if a.ServeAddress == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", serveCheck(func(context.Context) error { return a.health.live() }))
	mux.HandleFunc("/readyz", serveCheck(a.health.ready))
	server := guard.Server{Address: a.ServeAddress, Handler: mux, Log: a.Log}
	if err := server.Serve(ctx); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
