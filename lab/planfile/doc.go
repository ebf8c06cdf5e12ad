// Package planfile holds what `supercargo plan` reads and prints: pods as a table
// or as Kubernetes manifests, the machines that can be bought, and the plan as
// JSON. Who measures or checks plans reads and writes the same.
//
// The package is pure, and bounded by the Max constants of
// [supercargo.dev/supercargo/internal/input/trace].
package planfile
