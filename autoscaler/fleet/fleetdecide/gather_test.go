package fleetdecide

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// before returns the time d before midnight.
func before(d time.Duration) time.Time { return midnight.Add(-d) }

func TestMachinesAreBoughtOnceNoFurtherPodComes(t *testing.T) {
	const idle, most = time.Second, 10 * time.Second
	tests := []struct {
		name   string
		waited []time.Time
		want   time.Duration
	}{
		{"nobody waits", nil, 0},
		{"one has just come", []time.Time{midnight}, time.Second},
		{"one came a while ago", []time.Time{before(400 * time.Millisecond)}, 600 * time.Millisecond},
		{"none has come for long enough", []time.Time{before(time.Second)}, 0},
		{"the last one counts", []time.Time{before(2 * time.Second), before(100 * time.Millisecond), before(5 * time.Second)}, 900 * time.Millisecond},
		{"they come and come", []time.Time{before(9500 * time.Millisecond), midnight}, 500 * time.Millisecond},
		{"the first has waited for long enough", []time.Time{midnight, before(10 * time.Second)}, 0},
		{"a clock that is behind", []time.Time{midnight.Add(time.Minute)}, time.Minute + time.Second},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := Gather(midnight, tc.waited, idle, most); got != tc.want {
				t.Errorf("waits %v, want %v", got, tc.want)
			}
		})
	}
}

// TestNoPodIsKeptWaitingForLongerThanTheMost also checks that there is no wait without a cause: some pod arrived less
// than idle ago.
func TestNoPodIsKeptWaitingForLongerThanTheMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 40).Draw(t, name)) * time.Second
		}
		idle, most := length("idle"), length("most")
		var waited []time.Time
		for range rapid.IntRange(0, 5).Draw(t, "pods") {
			waited = append(waited, before(length("ago")))
		}
		wait := Gather(midnight, waited, idle, most)
		if wait < 0 {
			t.Fatalf("waits %v", wait)
		}
		late, fresh := false, false
		for _, w := range waited {
			late = late || midnight.Add(wait).Sub(w) > most
			fresh = fresh || midnight.Sub(w) < idle
		}
		if wait > 0 && (late || !fresh) {
			t.Fatalf("waits %v: a pod is kept for too long %t, one has just come %t", wait, late, fresh)
		}
		if wait == 0 && fresh && !slices.ContainsFunc(waited, func(w time.Time) bool { return midnight.Sub(w) >= most }) {
			t.Fatal("does not wait although a pod has just come, and none has waited for long")
		}
	})
}
