// Package data holds small public data sets for the demo, tests and benchmarks. Beside each are its source,
// its licence and a description of how it was made.
package data

import _ "embed" // for the files below

// OpenbPods is a pod list of a real cluster, see openb/README.md.
//
//go:embed openb/pods.csv
var OpenbPods string

// AWSFlavors is a catalogue of unequal machines, see aws/README.md.
//
//go:embed aws/flavors.csv
var AWSFlavors string

// NodePower is a measured time series of CPU counters and power of one machine, see power/README.md.
//
//go:embed power/node.csv
var NodePower string
