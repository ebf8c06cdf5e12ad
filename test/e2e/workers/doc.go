// Package workers tests against real programs of cctools: makeflow with its Work Queue manager,
// work_queue_worker and catalog_server, and with BLAST as a workflow. It installs nothing; Debian's
// coop-computing-tools and ncbi-blast+ contain them. The tests have the build tag workers, and fail with the
// package name of a missing program.
//
// One test runs the autoscaler with WorkerPools in the playground: a shim runs the command of each pod's
// container under a separate host name, which needs root.
package workers
