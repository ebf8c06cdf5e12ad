// Command conformance runs Kubernetes' own scheduler integration suite,
// k8s.io/kubernetes/test/integration/scheduler, with Supercargo's plugins and the default-scheduler profile
// of manifests/scheduler/config/kube-scheduler.yaml under every profile that a test defaults, and compares
// the outcomes with those of the stock scheduler.
//
//	make conformance
//
// No source of Kubernetes is copied into this repository, and its scheduler is compiled unchanged. Only the
// suite itself and the utilities that start its schedulers are compiled as packages of this module, from the
// module cache with go's -overlay: where they call scheduler.New or name plugins, package shipped is called
// instead (overlay.go). The same test program runs either scheduler, depending on an environment variable.
//
// Tests that fail with Supercargo run once more, and with the stock scheduler. A test that fails twice and
// passes there is a difference. differences.yaml lists differences by design with their reasons. The command
// exits with 1 if there is a difference that is not listed, a listed one that no longer exists, or a test that
// fails with both schedulers and so compares nothing. It exits with 2 if the suite could not run, for example
// because Kubernetes' sources have changed where the overlay edits them.
//
// It needs etcd on PATH and takes up to an hour on two cores. The logs of all tests are in dist/conformance,
// as go tool test2json writes them. To run one test:
//
//	go run ./test/conformance -packages '^batch$' -run TestBatchScenarios
package main
