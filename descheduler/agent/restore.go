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
			a.Log.Info("Restored the CPU governors of a probe that died")
		}
		return err
	}, poll.Changes(func(err error) {
		if err != nil { // it is retried
			a.Log.Error(err, "Failed to restore the CPU governors of a probe")
		}
	}))
	return ctx.Err()
}
