package fleet

import (
	"testing"
	"time"
)

func TestRoundsKeepTheirDistanceUnlessPodsHaveBeenGathered(t *testing.T) {
	for _, tc := range []struct {
		name string
		pace pace
		want time.Duration
	}{
		{"the first", pace{}, 0},
		{"one has just begun", pace{began: epoch}, spacing},
		{"one began a while ago", pace{began: epoch.Add(-150 * time.Millisecond)}, 50 * time.Millisecond},
		{"rounds take long", pace{began: epoch.Add(-time.Second), took: time.Second}, 3 * time.Second},
		{"pods are still gathered", pace{began: epoch, due: epoch.Add(1)}, 1},
		{"pods are gathered for longer", pace{began: epoch, due: epoch.Add(time.Minute)}, spacing},
		{"pods have been gathered", pace{began: epoch, took: time.Second, due: epoch}, 0},
	} {
		if got := tc.pace.wait(epoch); got != tc.want {
			t.Errorf("%s: the next waits for %v, want %v", tc.name, got, tc.want)
		}
	}
}

// gathering is a round in which pods have waited since these times.
func gathering(m *memory, now time.Time, since ...time.Time) *round {
	fleet := fleetNamed("a") // idle 1s, most 10s
	return &round{
		Reconciler: &Reconciler{pace: map[string]*pace{"a": {}}}, fleet: fleet, memory: m, now: now, again: time.Minute, seen: &observation{waited: since},
	}
}

// TestPodsThatWereDecidedAboutAreNotGatheredWith: one that stays pending would otherwise end
// the gathering of all that come after it.
func TestPodsThatWereDecidedAboutAreNotGatheredWith(t *testing.T) {
	m := &memory{}
	first := gathering(m, epoch, ago(100*time.Millisecond))
	if wait := first.gather(); wait != 900*time.Millisecond || first.again != wait || !first.pace["a"].due.Equal(epoch.Add(wait)) {
		t.Fatalf("waits for %v, and again in %v, at %v", wait, first.again, first.pace["a"].due)
	}
	then := epoch.Add(900 * time.Millisecond)
	if wait := gathering(m, then, ago(100*time.Millisecond)).gather(); wait != 0 {
		t.Fatalf("waits for %v once pods have been gathered", wait)
	}
	later := then.Add(20 * time.Second)
	if wait := gathering(m, later, ago(100*time.Millisecond), later).gather(); wait != time.Second {
		t.Errorf("waits for %v beside a pod that has been decided about, want 1s", wait)
	}
	if wait := gathering(m, later, ago(100*time.Millisecond)).gather(); wait != 0 {
		t.Errorf("waits for %v although nothing has come", wait)
	}
}
