package estimate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	threeCores = Resources{MilliCores: 3000, MemoryBytes: 12}
	oneCore    = Resources{MilliCores: 1000, MemoryBytes: 1}
	limits     = Pool{Worker: threeCores, Max: 20, InitTime: 157 * time.Second, Cycle: 30 * time.Second}
	noon       = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
)

// pool is three workers of three cores, the first of which runs the given number of tasks.
func pool(running int, left time.Duration, waiting ...Batch) State {
	s := State{Waiting: waiting}
	for _, name := range []string{"a", "b", "c"} {
		s.Workers = append(s.Workers, Worker{Name: name, Capacity: threeCores})
	}
	if running > 0 {
		s.Workers[0].Running = []Running{{Category: "t", Need: oneCore, Left: left, Count: running}}
	}
	return s
}

func tasks(n int, runtime time.Duration) Batch {
	return Batch{Category: "t", Need: oneCore, Runtime: runtime, Count: n}
}

func TestHTA(t *testing.T) {
	draining := pool(3, 100*time.Second)
	draining.Workers[2].Draining = true
	coming := pool(0, 0, tasks(9+12, 400*time.Second))
	coming.Workers = append(coming.Workers, Worker{Name: "d", Capacity: threeCores, ReadyIn: time.Minute}, Worker{Name: "e", Capacity: threeCores, ReadyIn: time.Minute})
	resized := pool(0, 0, tasks(50, Unknown))
	resized.Resized = noon.Add(-100 * time.Second)
	later := pool(0, 0)
	later.Resized = noon.Add(time.Hour)
	atLeast := limits
	atLeast.Min = 2
	fewer := limits
	fewer.Max = 1
	more := limits
	more.Min = 5
	last := pool(3, 300*time.Second)
	last.Workers[0].Running, last.Workers[2].Running = nil, last.Workers[0].Running

	tests := []struct {
		name   string
		limits Pool
		state  State
		add    int
		drain  []string
		next   time.Duration
		reason string
	}{
		{"nothing to do and nobody idle", limits, pool(9, Unknown), 0, []string{"b", "c"}, 157 * time.Second, "idle"},
		{"idle workers go until the longest task ends", limits, pool(3, 300*time.Second), 0, []string{"b", "c"}, 300 * time.Second, "2 workers are idle"},
		{"workers idle at the end of the window go too", limits, pool(3, 100*time.Second), 0, []string{"a", "b", "c"}, 100 * time.Second, "3 workers"},
		{"no fewer stay than must", atLeast, pool(3, 100*time.Second), 0, []string{"c"}, 100 * time.Second, "3 workers are idle by then without a task from the queue; the minimum is 2"},
		{"those draining are left unchanged", limits, draining, 0, []string{"a", "b"}, 100 * time.Second, "2 workers"},
		{"tasks that end within the window need nobody", limits, pool(0, 0, tasks(36, 39*time.Second)), 0, nil, 30 * time.Second, "no tasks wait"},
		{"one worker for three tasks of one core", limits, pool(0, 0, tasks(9+7, 200*time.Second)), 3, nil, 157 * time.Second, "7 tasks wait at the end of the window: 3 workers"},
		{"unknown runtimes outlast the window", limits, pool(0, 0, tasks(12, Unknown)), 1, nil, 157 * time.Second, "3 tasks wait"},
		{"no more than there may be", limits, pool(0, 0, tasks(500, 400*time.Second)), 17, nil, 157 * time.Second, "the maximum of 20"},
		{"those on their way count", limits, coming, 2, nil, 157 * time.Second, "6 tasks wait"},
		{"no second resize within one initialisation time", limits, resized, 0, nil, 57 * time.Second, "the last decision to resize"},
		{"a clock put back does not hold up for longer than that", limits, later, 0, nil, 157 * time.Second, "the last decision to resize"},
		{"too many workers for new limits", fewer, pool(3, 300*time.Second, tasks(9, Unknown)), 0, []string{"c", "b"}, 30 * time.Second, "more than its maximum of 1"},
		{"too many, of which those go that are done first", fewer, last, 0, []string{"b", "a"}, 30 * time.Second, "more than its maximum of 1"},
		{"too few workers for new limits", more, pool(0, 0), 2, nil, 157 * time.Second, "the pool has 3 workers, fewer than its minimum of 5"},
		{
			"a task too large for any worker is named", limits,
			State{Waiting: []Batch{{Category: "huge", Need: Resources{MilliCores: 4000}, Runtime: time.Second, Count: 2}}},
			0, nil, 30 * time.Second, "2 tasks wait at the end of the window, but no new worker can hold any of them: huge",
		},
		{"from no worker at all", limits, State{Waiting: []Batch{tasks(4, time.Second)}}, 2, nil, 157 * time.Second, "4 tasks wait"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p, err := HTA(tc.limits, tc.state, noon)
			if err != nil {
				t.Fatal(err)
			}
			if p.Add != tc.add || !slices.Equal(p.Drain, tc.drain) || p.Recheck != tc.next || !strings.Contains(p.Reason, tc.reason) {
				t.Errorf("%+v, want %d more, %v drained, an evaluation in %v and a reason with %q", p, tc.add, tc.drain, tc.next, tc.reason)
			}
		})
	}
}

// keepsItsPromises checks the guarantees of plans.
func keepsItsPromises(t *rapid.T, c Pool, s State, now time.Time, p Plan) {
	serving := 0
	for _, w := range s.Workers {
		if !w.Draining {
			serving++
		}
	}
	if p.Add > 0 && len(p.Drain) > 0 {
		t.Errorf("adds and drains: %+v", p)
	}
	if p.Add > 0 && serving+p.Add > c.Max {
		t.Errorf("%d workers and %d more, want at most %d", serving, p.Add, c.Max)
	}
	if len(p.Drain) > 0 && serving-len(p.Drain) < c.Min {
		t.Errorf("%d workers and %d drained, want at least %d", serving, len(p.Drain), c.Min)
	}
	if p.Recheck <= 0 || p.Reason == "" || p.Add < 0 {
		t.Errorf("%+v, want an evaluation later and a reason", p)
	}
	if !s.Resized.IsZero() && now.Sub(s.Resized) < c.InitTime && (p.Add > 0 || len(p.Drain) > 0) {
		t.Errorf("%+v, %v after a resize", p, now.Sub(s.Resized))
	}
	seen := map[string]bool{}
	for _, name := range p.Drain {
		at := slices.IndexFunc(s.Workers, func(w Worker) bool { return w.Name == name })
		if at < 0 || s.Workers[at].Draining || seen[name] {
			t.Errorf("drains %s, which does not serve or was named before", name)
		}
		seen[name] = true
	}
}

var anyLimits = rapid.Custom(func(t *rapid.T) Pool {
	c := Pool{Worker: Resources{MilliCores: 3000, MemoryBytes: 6, DiskBytes: 8}, InitTime: window, Cycle: 5 * time.Second}
	c.Min = rapid.IntRange(0, 3).Draw(t, "min")
	c.Max = c.Min + rapid.IntRange(0, 6).Draw(t, "max")
	return c
})

func TestHTAKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := anyLimits.Draw(t, "limits"), anyState.Draw(t, "state")
		if ago := rapid.IntRange(-1, 60).Draw(t, "resized"); ago >= 0 {
			s.Resized = noon.Add(-time.Duration(ago) * time.Second)
		}
		p, err := HTA(c, s, noon)
		if err != nil {
			t.Fatal(err)
		}
		keepsItsPromises(t, c, s, noon, p)
		serving := s.serving()
		if len(p.Drain) == 0 || serving > c.Max {
			return
		}
		// Without the drained workers, everything still starts within the window.
		for i := range s.Workers {
			if slices.Contains(p.Drain, s.Workers[i].Name) {
				s.Workers[i].Draining = true
			}
		}
		if rest := twin(s, window).Waiting; len(rest) > 0 {
			t.Errorf("drains %v, and then %d tasks wait", p.Drain, len(rest))
		}
	})
}

func TestWhatCannotBeIsRefusedByName(t *testing.T) {
	bad := limits
	bad.Worker.MilliCores, bad.Min, bad.Max, bad.InitTime, bad.Cycle = 0, 3, 2, 0, -1
	s := State{
		Workers: []Worker{{Name: "a", ReadyIn: -1}, {Name: "a", Running: []Running{{Count: 0}}}},
		Waiting: []Batch{{Category: "t", Count: 1}},
	}
	for _, tc := range []struct {
		limits Pool
		state  State
		want   []string
	}{
		{bad, State{}, []string{"worker:", "min and max:", "initTime:", "cycle:"}},
		{limits, s, []string{"worker a: has", "name \"a\" must be unique", "worker a: runs", "waiting[0]:"}},
	} {
		_, err := HTA(tc.limits, tc.state, noon)
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want it to name %q", err, want)
			}
		}
	}
}
