// Package workers tests against real programs of cctools: makeflow with its Work Queue
// manager, work_queue_worker and catalog_server, and BLAST for a workflow. It installs
// nothing; Debian's coop-computing-tools and ncbi-blast+ have them. The tests have the build
// tag workers, and fail with the name of the package where a program is missing.
//
// One test has the autoscaler keep WorkerPools in the playground: a shim runs for each pod
// what its container says, in a host name of its own, which takes root.
package workers
