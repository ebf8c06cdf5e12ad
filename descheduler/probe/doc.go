// Package probe finds out how fast a machine is and how much energy it takes: it does a
// standard piece of work, k-means and the multiplication of matrices, with several
// amounts of CPU and memory and under several CPU governors, as the probes of HEATS do
// (Rocha et al., PDP 2019, section III).
//
// The amount of work is the same for every size and on every machine, so that times can
// be compared; memory is how much data it is spread over. What is computed is checked
// after each run: a machine that computes wrongly is not learned from.
//
// kmeans.go and matmul.go are the work, limit.go keeps it to a part of a CPU, plan.go
// says which sizes there are, run.go does one after the other, journal.go remembers what
// has been done, and report.go is what is told of it.
package probe
