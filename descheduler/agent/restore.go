package agent

import (
	"context"
)

// restore puts back, until ctx ends, what probes that were killed have left switched.
func (a *Agent) restore(ctx context.Context) error {
	if a.Restore == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := a.Clock.NewTicker(a.RestoreEvery)
	defer ticker.Stop()
	said := ""
	for {
		restored, err := a.Restore()
		switch {
		case err != nil && err.Error() != said: // it is tried again, and told once
			said = err.Error()
			a.Log.Error(err, "The CPU governors that a probe has switched are not put back")
		case err == nil && restored:
			a.Log.Info("A probe died; the CPU governors that it had switched are as they were before")
		}
		if err == nil {
			said = ""
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}
