// Command conformance runs Kubernetes' own scheduler integration suite,
// k8s.io/kubernetes/test/integration/scheduler, with Supercargo's plugins and the
// default-scheduler profile of manifests/scheduler/config/kube-scheduler.yaml under every
// profile that a test defaults, and compares the outcomes with those of the stock
// scheduler.
//
//	make conformance
//
// None of Kubernetes' sources are copied into this repository, and its scheduler is compiled
// as it is. Only the suite itself and the utilities with which it starts schedulers are
// compiled as packages of this module, from the module cache by go's -overlay: where
// they call scheduler.New or name plugins, package shipped is called instead
// (overlay.go). A test program runs either scheduler: it asks the environment which.
//
// What fails with Supercargo is run once more, and with the stock scheduler. What fails
// twice and passes there is a difference. Differences by design are listed in
// differences.yaml with their reasons. A difference that is not listed, and a listed
// one that is no more, make the command exit with 1. With 2 it exits when the suite could
// not be run, as when Kubernetes' sources have changed where the overlay edits them.
//
// It needs etcd on PATH and takes about an hour on two cores. The logs of all tests are in
// dist/conformance, as go tool test2json writes them. To look at one test:
//
//	go run ./test/conformance -packages '^batch$' -run TestBatchScenarios
package main
