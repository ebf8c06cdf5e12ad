// Package chaos runs the shipped binaries, two replicas of each, on a playground while Jobs,
// services and Migrations come and go, and has things go wrong: see [docs/chaos.md]. Its tests
// have the build tag chaos and find the binaries in the folder that SUPERCARGO_BIN names;
// `make chaos` and `make soak` build them first.
//
// world_test.go starts everything, replica_test.go is one process, work_test.go what comes and
// goes, strike_test.go carries faults out, settle_test.go waits until the cluster works and
// until it is at rest, chaos_test.go and soak_test.go are the tests.
//
// [docs/chaos.md]: ../../docs/chaos.md
package chaos
