package hpa

import (
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func seen(at time.Duration, x float64, wanted, ready int) law.Observation {
	return law.Observation{At: start.Add(at), Utilization: x, Desired: wanted, Ready: ready}
}

func TestOneEvaluationOfTodaysLaw(t *testing.T) {
	for _, tc := range []struct {
		name          string
		x             float64
		wanted, ready int
		want          int
		says          string
	}{
		{"on target", 50, 4, 4, 4, "within tolerance"},
		{"inside the tolerance, above", 54.9, 10, 10, 10, "within tolerance"},
		{"inside the tolerance, below", 45.1, 10, 10, 10, "within tolerance"},
		{"above", 75, 4, 4, 6, "target 50 %"},
		{"no more than double", 500, 10, 10, 20, "at most 20"},
		{"or than four more", 500, 2, 2, 6, "at most 6"},
		{"those that start count as idle", 75, 8, 4, 8, "4 replicas are starting"},
		{"and more come only if that is not enough", 120, 6, 4, 10, "target 50 %"},
		{"below", 10, 10, 10, 2, "target 50 %"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, d := Decide(Default(), Memory{}, seen(0, tc.x, tc.wanted, tc.ready))
			if d.Replicas != tc.want || !strings.Contains(d.Reasons[0], tc.says) {
				t.Errorf("decides %+v, want %d for %q", d, tc.want, tc.says)
			}
		})
	}
}

func TestItScalesInToTheGreatestRecommendationOfFiveMinutes(t *testing.T) {
	var m Memory
	var d law.Decision
	m, d = Decide(Default(), m, seen(0, 50, 20, 20))
	for at := 15 * time.Second; at < 5*time.Minute; at += 15 * time.Second {
		m, d = Decide(Default(), m, seen(at, 10, d.Replicas, d.Replicas))
		if d.Replicas != 20 {
			t.Fatalf("%d replicas after %v, want 20 still", d.Replicas, at)
		}
	}
	if _, d = Decide(Default(), m, seen(5*time.Minute, 10, 20, 20)); d.Replicas != 4 {
		t.Errorf("%d replicas after five minutes, want 4", d.Replicas)
	}
	if len(m.Recommended) > 20 {
		t.Errorf("%d recommendations are kept, want no more than the window has", len(m.Recommended))
	}
}

func TestThePapersLawRestsAfterScaling(t *testing.T) {
	m, d := DecidePaper(Paper(), Memory{}, seen(0, 100, 4, 4))
	if d.Replicas != 8 {
		t.Fatalf("decides %+v, want 8", d)
	}
	m, d = DecidePaper(Paper(), m, seen(150*time.Second, 100, 8, 8))
	if d.Replicas != 8 || !d.Held {
		t.Errorf("two and a half minutes after growing it decides %+v, want it to hold", d)
	}
	m, d = DecidePaper(Paper(), m, seen(3*time.Minute, 10, 8, 8))
	if d.Replicas != 2 {
		t.Errorf("three minutes after growing it decides %+v, want 2", d)
	}
	m, d = DecidePaper(Paper(), m, seen(7*time.Minute, 100, 2, 2))
	if d.Replicas != 2 || !d.Held {
		t.Errorf("four minutes after shrinking it decides %+v, want it to hold", d)
	}
	if _, d = DecidePaper(Paper(), m, seen(8*time.Minute, 100, 2, 2)); d.Replicas != 4 {
		t.Errorf("five minutes after shrinking it decides %+v, want 4", d)
	}
}

func TestAClockThatWasSetBackDoesNotStopThePapersLaw(t *testing.T) {
	m, _ := DecidePaper(Paper(), Memory{}, seen(time.Hour, 100, 4, 4))
	if _, d := DecidePaper(Paper(), m, seen(0, 100, 8, 8)); d.Held || d.Replicas != 16 {
		t.Errorf("an hour before its last action it decides %+v, want 16", d)
	}
}

func TestConstantsOutOfRangeAreRefused(t *testing.T) {
	err := Config{Tolerance: -1, Stabilization: -1, GrowPods: -1}.Validate()
	for _, field := range []string{"minimum replicas", "target", "interval", "tolerance", "all times", "growth"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want it to name %s", err, field)
		}
	}
}
