// Package planfile holds what `supercargo plan` reads, plans and prints: pods as a table
// or as Kubernetes manifests, the machines that can be bought, the request that they
// make of the planner and by which algorithms, and the plan as JSON or as a table. Who
// measures or checks plans reads and writes the same.
//
// The package is pure, and bounded by the Max constants of
// [supercargo.dev/supercargo/internal/input/table].
package planfile
