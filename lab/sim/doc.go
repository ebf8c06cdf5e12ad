// Package sim runs a cluster in virtual time, with the real scheduler.
//
// [Run] is a discrete-event simulation: pods arrive and end, and the queue
// is served. Who goes where is decided by kube-scheduler's own algorithm with the
// image's own plugins, on its own cache ([Scheduler]); the order of the queue is
// that of the profile's QueueSort plugin. The engine decides nothing.
//
// The same input gives the same result, to the byte, on every machine: virtual
// time is in whole nanoseconds, money in whole micro-dollars, every tie is broken
// by name or by a seeded rank, and one goroutine does all the work.
package sim
