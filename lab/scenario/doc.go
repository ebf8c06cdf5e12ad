// Package scenario reads the input of a simulation and draws its workload.
//
// A scenario is a YAML document with the machines that can be bought, the initial machines, the
// times that renting takes, and the arriving work. [Read] validates it, applies the defaults
// documented at the fields of [Scenario] and rejects unknown fields. [Scenario.Arrivals] converts
// the workload, part of which is random, to pods.
//
// Amounts are read exactly: time in whole nanoseconds, CPU in milli-CPU, memory in bytes, money in
// micro-dollars. Invalid input is rejected, never repaired, and the error names each fault with its
// file, line and field.
//
// The package is pure: no clock, client, logger or global random source, and the caller provides
// the function that opens files. The same scenario and seed give the same pods on any machine:
// random numbers come from PCG, and computations with them use only operations whose result IEEE
// 754 defines to the bit. Sine, logarithm and exponential of package math are excluded, because
// some architectures implement them in assembly. So is x*y+z, which compilers may fuse, unless the
// product is converted explicitly.
package scenario

import "time"

// Limits of one scenario, wide enough for any simulation that ends.
const (
	// MaxBytes is the maximum size of a scenario file.
	MaxBytes = 4 << 20
	// MaxPods is the maximum number of pods of a workload. A pattern counts with the mean number at
	// its highest rate over the whole horizon.
	MaxPods = 1_000_000
	// MaxMachines is the maximum number of machines, at the start or at any time.
	MaxMachines = 100_000
	// MaxEntries is the maximum number of elements of any list in the file.
	MaxEntries = 10_000
	// MaxDuration is the maximum time: ten years of 365 days.
	MaxDuration = 10 * 365 * 24 * time.Hour
)
