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

import (
	"sync/atomic"
	"time"
)

// Epoch is the origin of virtual time. A fixed time makes derived values, such as the expected
// finish of a pod, the same in every run.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Clock has the virtual time. It implements clock.PassiveClock and is safe for concurrent use; only
// the engine sets it.
type Clock struct {
	since atomic.Int64 // nanoseconds after Epoch
}

// Now returns the virtual time.
func (c *Clock) Now() time.Time { return Epoch.Add(time.Duration(c.since.Load())) }

// Since returns the virtual time passed since ts.
func (c *Clock) Since(ts time.Time) time.Duration { return c.Now().Sub(ts) }

// set sets the clock to the given time after Epoch.
func (c *Clock) set(at time.Duration) { c.since.Store(int64(at)) }
