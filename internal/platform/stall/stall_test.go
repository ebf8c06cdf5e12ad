package stall

import (
	"context"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

func TestOnlyAProcessThatDidNotRunHasStalled(t *testing.T) {
	const every, late = 100 * time.Millisecond, 15 * time.Second
	c := testclock.NewFakeClock(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	ctx, cancel := context.WithCancel(t.Context())
	gaps, ended := make(chan time.Duration, 10), make(chan struct{})
	go func() {
		defer close(ended)
		Watch(ctx, c, every, late, func(gap time.Duration) { gaps <- gap })
	}()
	// It runs late, but not that late; then it was stopped.
	for _, step := range []time.Duration{every, late, every + late} {
		for !c.HasWaiters() {
			select {
			case <-t.Context().Done():
				t.Fatal("it does not check the clock")
			case <-time.After(time.Millisecond):
			}
		}
		c.Step(step)
	}
	if gap := <-gaps; gap != late {
		t.Errorf("it has stalled for %v, want %v", gap, late)
	}
	cancel()
	<-ended
	if len(gaps) > 0 {
		t.Errorf("it has also stalled for %v", <-gaps)
	}
}
