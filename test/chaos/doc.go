// Package chaos runs two replicas of each shipped binary on a playground, creates and deletes Jobs,
// services and Migrations, and injects faults: see [docs/chaos.md]. Its tests have the build tag
// chaos and run the binaries in the directory SUPERCARGO_BIN, which `make chaos` and `make soak` build.
//
// world_test.go starts the cluster and the programs, replica_test.go runs one process, work_test.go
// creates the workload, strike_test.go injects the faults, settle_test.go waits until the cluster
// has recovered or is idle, chaos_test.go and soak_test.go are the tests.
//
// [docs/chaos.md]: ../../docs/chaos.md
package chaos
