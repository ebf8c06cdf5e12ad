// Package replay drives a real cluster with a recorded workload in compressed
// time.
//
// [Run] creates each pod of a trace at its scaled arrival, deletes it after its scaled lifetime,
// and records when each pod was created, bound and gone. [report.Account] needs these records and
// the nodes as [Machines] reads them.
//
// Files in reading order: replay.go (options, result, Run), run.go (the loop that owns all state),
// agenda.go (the planned actions), calls.go (API calls and their retries), watch.go (events of the
// cluster), objects.go (pods from rows, machines from nodes).
package replay
