// Package migration moves pods between virtual machines. It complements package
// [supercargo.dev/supercargo/test/e2e/nodes/migration], whose nodes share a kernel: it tests control groups v2 with
// systemd, different kernels and clocks, and power cuts. Its tests have the build tag vm and need root; `make e2e-vm`
// runs them.
package migration
