// Package record watches a cluster and writes its changes as a recording (package internal/input/trace), which
// can be simulated.
//
// tracker.go converts observations to rows and is pure, metrics.go converts the history in a
// Prometheus server, file.go maintains the file, and record.go watches.
package record
