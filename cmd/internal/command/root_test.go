package command

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestSignalsThatComeTogetherAreOneInterruption plays timeout of GNU coreutils, which sends SIGTERM to the process and to its
// group.
func TestSignalsThatComeTogetherAreOneInterruption(t *testing.T) {
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name  string
		later []time.Duration // after the first signal
		exits bool
	}{
		{"one", nil, false},
		{"two at once", []time.Duration{0}, false},
		{"several within a second", []time.Duration{time.Millisecond, sameInterruption - 1}, false},
		{"another one a second later", []time.Duration{sameInterruption}, true},
		{"two at once and another one later", []time.Duration{0, time.Minute}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			signals := make(chan os.Signal, len(tc.later))
			times := []time.Time{start}
			for _, d := range tc.later {
				signals <- syscall.SIGTERM
				times = append(times, start.Add(d))
			}
			close(signals) // only so that the function returns
			cancelled, read := false, 0
			interrupted(signals, func() time.Time { read++; return times[read-1] }, func() { cancelled = true })
			if !cancelled {
				t.Error("the first signal did not cancel")
			}
			if _, more := <-signals; more {
				t.Error("it returned before the last signal")
			}
			if exits := times[read-1].Sub(start) >= sameInterruption; exits != tc.exits {
				t.Errorf("it exits: %t, want %t", exits, tc.exits)
			}
		})
	}
}
