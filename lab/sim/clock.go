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
