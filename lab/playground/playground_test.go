package playground

import (
	"runtime/debug"
	"testing"
)

func TestStartingAPlaygroundHasTheProcessCollectLess(t *testing.T) {
	const gcPercent = 400
	t.Setenv("GOGC", "")
	if _, err := Start(t.Context(), Options{Dir: "/dev/null/none"}); err == nil {
		t.Fatal("a playground started in a file")
	}
	got := debug.SetGCPercent(gcPercent)
	if got != gcPercent {
		t.Errorf("garbage is collected at %d percent, want %d", got, gcPercent)
	}
}
