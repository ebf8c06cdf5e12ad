// Package query asks for what was measured, in PromQL.
//
// The replica policies and the metrics API ask through one interface, whether a
// Prometheus-compatible server answers or a store inside this program. It stands in
// internal/platform/promql, since reports and power meters ask through it too.
package query

import "supercargo.dev/supercargo/internal/platform/promql"

type (
	// Sample is the value of one series at one moment.
	Sample = promql.Sample
	// Querier answers PromQL.
	Querier = promql.Querier
	// Warner is a Querier that passes on what the server warns of.
	Warner = promql.Warner
)
