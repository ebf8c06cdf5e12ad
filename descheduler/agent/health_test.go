package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestAgentIsLiveWhileItsLoopContinues(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	h := newHealth(at, 5*time.Second, nil)
	live := func(when string, want bool) {
		t.Helper()
		if err := h.live(); (err == nil) != want {
			t.Errorf("%s: live says %v", when, err)
		}
	}
	step := func(d time.Duration) { at.SetTime(at.Now().Add(d)) }
	live("at the start", true)
	step(stuckAfter + 6*time.Second)
	live("when the loop hangs", false)
	h.resynced(at.Now())
	live("when it continues", true)
	ended := h.reconciling(types.NamespacedName{Name: "m"}, at.Now())
	step(stuckAfter + time.Second)
	h.resynced(at.Now())
	live("while an evaluation does not end", false)
	ended()
	live("once it has", true)
}

func TestRuntimesAreNotAskedAllTheTime(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	asked, down := 0, errors.New("down")
	h := newHealth(at, 5*time.Second, func(context.Context) error { asked++; return down })
	h.follows(func() bool { return true })
	for range 5 {
		if err := h.ready(t.Context()); !errors.Is(err, down) {
			t.Errorf("ready says %v", err)
		}
	}
	if asked != 1 {
		t.Errorf("the runtime was asked %d times, want once", asked)
	}
	down = nil
	at.SetTime(at.Now().Add(runtimeEvery))
	if err := h.ready(t.Context()); err != nil {
		t.Error(err)
	}
	h.follows(func() bool { return false })
	if err := h.ready(t.Context()); err == nil {
		t.Error("an agent that has not read its Migrations is ready")
	}
}
