// Package testwait waits for what other goroutines and programs do.
package testwait

import (
	"testing"
	"time"
)

// Poll is the polling interval.
const Poll = 10 * time.Millisecond

// Until polls until check returns "", and fails the test with what check returned last if that takes too long.
func Until(t testing.TB, within time.Duration, what string, check func() string) {
	t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	again := time.NewTicker(Poll)
	defer again.Stop()
	for {
		still := check()
		if still == "" {
			return
		}
		select {
		case <-late.C:
			t.Fatalf("%s: still after %v: %s", what, within, still)
		case <-again.C:
		}
	}
}

// For is Until of a check without a text.
func For(t testing.TB, within time.Duration, what string, check func() bool) {
	t.Helper()
	Until(t, within, what, func() string {
		if check() {
			return ""
		}
		return "not so"
	})
}
