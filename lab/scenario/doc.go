// Package scenario reads what a simulation starts from, and draws its workload.
//
// A scenario is a YAML document with the machines that can be had, those that
// are there, the times that renting them takes, and the work that arrives.
// [Read] checks it, fills in the defaults that the fields of [Scenario] state
// and refuses what it does not know; [Scenario.Arrivals] turns the workload,
// part of which is drawn at random, into pods.
//
// Numbers are read exactly where they are amounts: time is in whole
// nanoseconds, CPU in milli-CPU, memory in bytes, money in micro-dollars. Bad
// input is refused, never repaired, and the error names each fault with its
// file, line and field.
//
// The package is pure: no clock, client, logger or global random source, and
// files are opened by a function that the caller hands in. The same scenario
// and seed give the same pods on any machine: random numbers come from PCG, and
// what is computed from them uses only operations of which IEEE 754 fixes every
// bit. Sine, logarithm and exponential of package math are not among them, as
// some architectures have their own in assembly. Nor is x*y+z, which compilers
// fuse where the machine can, unless the product is converted explicitly.
package scenario

import "time"

// Bounds of one scenario, wide enough for any simulation that ends.
const (
	// MaxBytes is the largest scenario file that is read.
	MaxBytes = 4 << 20
	// MaxPods is how many pods a workload may come to. A pattern counts with as
	// many as its highest rate gives on average over the whole horizon.
	MaxPods = 1_000_000
	// MaxMachines is the largest number of machines, at the start or at any time.
	MaxMachines = 100_000
	// MaxEntries is how many elements any list of the file may have.
	MaxEntries = 10_000
	// MaxDuration is the longest time: ten years of 365 days.
	MaxDuration = 10 * 365 * 24 * time.Hour
)
