// Package stall notices that a process did not run for a while: it was stopped, its machine was
// suspended, or it got no processor.
package stall

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Watch looks at the clock every so often until ctx ends, and calls stalled with how late it is
// once it is that late. It counts the longer of the time that the machine ran and of what its
// clock says, so a clock that is set forward by as much looks like a stall.
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
