package fleet

import (
	"testing"
	"time"
)

func TestMachinesThatAreMadeSlowlyAreNoStandstill(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	type look struct {
		after       time.Duration
		made, lacks int
		// since is when the standstill began, and missing how many it lacks.
		since   time.Duration
		missing int
	}
	tests := map[string][]look{
		"nothing is made":               {{0, 3, 2, 0, 2}, {time.Minute, 3, 2, 0, 2}},
		"one is made":                   {{0, 3, 2, 0, 2}, {time.Minute, 4, 1, time.Minute, 1}},
		"more are ordered":              {{0, 3, 2, 0, 2}, {time.Minute, 3, 5, 0, 2}},
		"one is made, more are ordered": {{0, 3, 2, 0, 2}, {time.Minute, 4, 4, time.Minute, 4}},
		"fewer are ordered":             {{0, 3, 2, 0, 2}, {time.Minute, 3, 1, 0, 1}, {2 * time.Minute, 3, 4, 0, 1}},
		"one goes and comes again":      {{0, 3, 2, 0, 2}, {time.Minute, 2, 3, 0, 2}, {2 * time.Minute, 3, 2, 2 * time.Minute, 2}},
	}
	for name, looks := range tests {
		t.Run(name, func(t *testing.T) {
			var s *standstill
			for _, l := range looks {
				s = s.goesOn(noon.Add(l.after), l.made, l.lacks)
				if since := s.since.Sub(noon); since != l.since || s.lacks != l.missing {
					t.Errorf("after %v: since %v and %d missing, want since %v and %d", l.after, since, s.lacks, l.since, l.missing)
				}
			}
		})
	}
}
