package agent

import (
	"context"

	"supercargo.dev/supercargo/internal/platform/poll"
)

// restore puts back, until ctx ends, what probes that were killed have left switched.
func (a *Agent) restore(ctx context.Context) error {
	if a.Restore == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	poll.Every(ctx, a.Clock, a.RestoreEvery, func(context.Context) error {
		restored, err := a.Restore()
		if err == nil && restored {
			a.Log.Info("A probe died; the CPU governors that it had switched are as they were before")
		}
		return err
	}, poll.Changes(func(err error) {
		if err != nil { // it is tried again
			a.Log.Error(err, "The CPU governors that a probe has switched are not put back")
		}
	}))
	return ctx.Err()
}
