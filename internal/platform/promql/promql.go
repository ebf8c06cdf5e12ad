// Package promql is how Supercargo asks for what was measured: in PromQL, through one
// interface, whether a Prometheus-compatible server answers or a store inside one of
// its programs.
package promql

import (
	"context"
	"time"
)

// Sample is the value of one series at one moment.
type Sample struct {
	// Labels are those of the series, the metric's name (if it has one) as
	// __name__.
	Labels map[string]string
	// Value may be NaN or infinite: what a division by nothing gives.
	Value float64
	// At is the moment for which the value holds.
	At time.Time
}

// Querier answers PromQL.
type Querier interface {
	// Query evaluates an expression at a moment. Its answer must be an instant
	// vector or a scalar (one sample without labels), in no particular order; no
	// sample is no error. An error says which expression was asked of whom.
	Query(ctx context.Context, promql string, at time.Time) ([]Sample, error)
}

// Warner is a Querier that passes on what the server says beside its answer, such
// as that part of its data could not be reached. The words are the server's own,
// one warning each; there may be some beside an error.
type Warner interface {
	Querier
	// QueryWarned is Query with the warnings.
	QueryWarned(ctx context.Context, promql string, at time.Time) (samples []Sample, warnings []string, err error)
}
