package agent

import (
	"context"

	"supercargo.dev/supercargo/internal/platform/poll"
)

// restore restores, until ctx ends, the CPU governors that killed probes left changed.
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
		if err != nil { // it is retried
			a.Log.Error(err, "The CPU governors that a probe has switched are not put back")
		}
	}))
	return ctx.Err()
}
