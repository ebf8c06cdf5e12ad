// Package record watches a cluster and writes what comes and goes as a recording (package
// lab/trace), which can be simulated.
//
// tracker.go decides which rows an observation gives and is pure, file.go keeps the file, and
// record.go watches.
package record
