// Package sim simulates a cluster in virtual time with the real scheduler.
//
// [Run] is a discrete-event simulation: pods arrive and end, and the queue is served.
// kube-scheduler's own algorithm, with the plugins of the image and its own cache, decides the
// placement ([Scheduler]). The profile's QueueSort plugin orders the queue. The engine decides
// nothing.
//
// The same input gives the same result, to the byte, on every machine: virtual time is in whole
// nanoseconds, money in whole micro-dollars, every tie is broken by name or by a seeded rank, and
// one goroutine does all the work.
package sim
