// Package planfile implements the input and output of `supercargo plan`: pods as a table or as
// Kubernetes manifests, the machines that can be bought, the request to the planner, the
// algorithms, and the plan as JSON or as a table. Programs that measure or check plans use it too.
//
// The package is pure, and bounded by the Max constants of
// [supercargo.dev/supercargo/internal/input/table].
package planfile
