// Package data holds small public data sets for the demo, tests and benchmarks.
// Beside each one stand its source, its licence and how it was made.
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

// NodePower is a measured series of what one machine's CPUs counted and of its power, see
// power/README.md.
//
//go:embed power/node.csv
var NodePower string
