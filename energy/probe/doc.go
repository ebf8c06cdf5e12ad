// Package probe measures how fast a machine is and how much energy it uses. It does standard
// work, k-means and matrix multiplication, with several amounts of CPU and memory and under
// several CPU governors, like the probes of HEATS (Rocha et al., PDP 2019, section III).
//
// The amount of work is the same for every size and machine, so that times can be compared;
// memory is the size of the data that it is spread over. Each run checks its results: a machine
// that computes incorrectly is not learned from.
//
// Files: kmeans.go and matmul.go are the work, limit.go limits it to a part of a CPU, plan.go
// defines the sizes, run.go runs them in turn, journal.go records progress, and report.go reports
// the results.
package probe
