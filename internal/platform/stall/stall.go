// Package stall detects that a process did not run for a while, because it was stopped, its machine
// was suspended, or it received no CPU time.
package stall

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Watch reads the clock at the given interval until ctx ends, and calls stalled with the delay when
// a reading is late by the given duration or more. The delay is the longer of those by the monotonic
// clock and by the wall clock, so a wall clock that is set forward by as much counts as a stall.
func Watch(ctx context.Context, c clock.Clock, every, late time.Duration, stalled func(time.Duration)) {
	for last := c.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-c.After(every):
		}
		now := c.Now()
		if gap := max(now.Sub(last), now.Round(0).Sub(last.Round(0))) - every; gap >= late {
			stalled(gap)
		}
		last = now
	}
}
