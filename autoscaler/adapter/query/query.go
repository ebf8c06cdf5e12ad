// Package query names the interface for PromQL queries of the metrics adapter.
//
// Replica policies and the metrics API use one interface for a Prometheus-compatible server
// and for the embedded store. It is defined in internal/platform/promql, because reports and
// power meters use it too.
package query

import "supercargo.dev/supercargo/internal/platform/promql"

type (
	// Sample is the value of one series at one moment.
	Sample = promql.Sample
	// Querier answers PromQL queries.
	Querier = promql.Querier
	// Warner is a Querier that also returns the server's warnings.
	Warner = promql.Warner
)
