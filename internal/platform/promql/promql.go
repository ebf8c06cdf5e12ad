// Package promql is the interface through which Supercargo queries measurements in PromQL, from a Prometheus-compatible
// server or from a store inside one of its programs.
package promql

import (
	"context"
	"time"
)

// Sample is the value of one series at one time.
type Sample struct {
	// Labels are the labels of the series, including the metric's name (if it has one) as __name__.
	Labels map[string]string
	// Value may be NaN or infinite, for example after a division by zero.
	Value float64
	// At is the time of the value.
	At time.Time
}

// Querier evaluates PromQL.
type Querier interface {
	// Query evaluates an expression at a time. The result must be an instant vector or a scalar (one sample without
	// labels), in no particular order. An empty result is not an error. Errors name the expression and the server.
	Query(ctx context.Context, promql string, at time.Time) ([]Sample, error)
}

// Warner is a Querier that also returns the server's warnings, such as that part of its data was unavailable. Warnings
// are in the server's words and may accompany an error.
type Warner interface {
	Querier
	// QueryWarned is Query with warnings.
	QueryWarned(ctx context.Context, promql string, at time.Time) (samples []Sample, warnings []string, err error)
}
