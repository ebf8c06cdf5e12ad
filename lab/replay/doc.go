// Package replay drives a real cluster with a recorded workload in compressed
// time.
//
// [Run] creates each pod of a trace when its scaled arrival has come, deletes it
// when it has run for its scaled lifetime, and notes when each was created, was
// bound and was gone. What was noted is what [report.Account] needs, together
// with the nodes as [Machines] reads them.
//
// Files in the order of reading: replay.go (options, result, Run), run.go (the
// loop that owns all state), agenda.go (what is to be done when), calls.go (API
// calls and their retries), watch.go (what the cluster says), objects.go (pods
// made from rows, machines read from nodes).
package replay
