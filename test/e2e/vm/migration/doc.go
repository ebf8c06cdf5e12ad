// Package migration moves pods between virtual machines, as package
// [supercargo.dev/supercargo/test/e2e/nodes/migration] does between nodes that share a kernel. It tests what those
// cannot show: control groups of version 2 below systemd, kernels and clocks that differ,
// and machines that lose power. Its tests have the build tag vm and need root; `make e2e-vm`
// runs them.
package migration
