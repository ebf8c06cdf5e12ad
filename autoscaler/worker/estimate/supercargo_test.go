package estimate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// nine is a pool of three workers whose nine cores have run tasks for ran.
func nine(ran, left time.Duration, waiting ...Batch) State {
	s := pool(0, 0, waiting...)
	for i := range s.Workers {
		s.Workers[i].Running = []Running{{Category: "t", Need: oneCore, Left: left, Ran: ran, Count: 3}}
	}
	return s
}

func TestSupercargo(t *testing.T) {
	idle := func(d ...time.Duration) State {
		s := pool(0, 0)
		for i := range d {
			s.Workers[i].IdleFor = d[i]
		}
		return s
	}
	taken := idle(time.Hour, time.Hour, time.Hour)
	taken.Waiting = []Batch{tasks(4, time.Second)}
	coming := idle(time.Hour, time.Hour)
	coming.Workers[2].ReadyIn = time.Second
	stranger := pool(0, 0)
	stranger.Workers = nil
	stranger.Waiting = []Batch{tasks(9, Unknown)}
	at100 := Pool{Worker: threeCores, Max: 50, InitTime: 100 * time.Second, Cycle: 5 * time.Second}

	// One initialisation time is 100 s: Payback 25 s, Hold 50 s, Warmup 12.5 s.
	tests := []struct {
		name   string
		state  State
		add    int
		drain  []string
		reason string
	}{
		{"long tasks each get their place", nine(0, 500*time.Second, tasks(30, 500*time.Second)), 10, nil, "30 tasks wait"},
		// In 125 s nine cores start 12 rounds of 9; the other 92 need 31 workers at once, and fill 31·10/25 of them.
		{"short tasks share workers", nine(0, 10*time.Second, tasks(200, 10*time.Second)), 13, nil, "92 tasks wait"},
		{"a worker has work for a while or does not come", nine(0, 10*time.Second, tasks(100, 10*time.Second)), 0, nil, "no tasks wait"},
		{"short tasks may show themselves", nine(12*time.Second, Unknown, tasks(30, Unknown)), 0, nil, "short ones finish within 12.5s"},
		{"those that do not are long", nine(13*time.Second, Unknown, tasks(30, Unknown)), 10, nil, "30 tasks wait"},
		{"without any worker nothing shows itself", stranger, 3, nil, "9 tasks wait"},
		{"no more than may be", nine(0, 500*time.Second, tasks(3000, 500*time.Second)), 47, nil, "the maximum of"},
		{"idle for less than half the time that others take to come", idle(49*time.Second, 20*time.Second), 0, nil, "no tasks wait"},
		{"once one has been idle for long, all go that are", idle(0, 50*time.Second, time.Second), 0, []string{"a", "b", "c"}, "3 workers are idle"},
		{"one that is still on its way is not idle", coming, 0, []string{"a", "b"}, "2 workers are idle"},
		{"none that takes a task", taken, 0, []string{"c"}, "1 worker is idle"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p, err := Supercargo(at100, tc.state, noon)
			if err != nil {
				t.Fatal(err)
			}
			if p.Add != tc.add || !slices.Equal(p.Drain, tc.drain) || !strings.Contains(p.Reason, tc.reason) {
				t.Errorf("%+v, want %d more, %v drained and a reason with %q", p, tc.add, tc.drain, tc.reason)
			}
		})
	}
}

func TestSupercargoKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := anyLimits.Draw(t, "limits"), anyState.Draw(t, "state")
		for i := range s.Workers {
			s.Workers[i].IdleFor = time.Duration(rapid.IntRange(0, 60).Draw(t, "idle")) * time.Second
		}
		if ago := rapid.IntRange(-1, 60).Draw(t, "resized"); ago >= 0 {
			s.Resized = noon.Add(-time.Duration(ago) * time.Second)
		}
		p, err := Supercargo(c, s, noon)
		if err != nil {
			t.Fatal(err)
		}
		keepsItsPromises(t, c, s, noon, p)
		hta, err := HTA(c, s, noon)
		if err != nil {
			t.Fatal(err)
		}
		if p.Add > hta.Add {
			t.Errorf("adds %d workers, more than %d that hold all that waits at once", p.Add, hta.Add)
		}
		for _, name := range p.Drain {
			at := slices.IndexFunc(s.Workers, func(w Worker) bool { return w.Name == name })
			if s.serving() <= c.Max && len(s.Workers[at].Running) > 0 {
				t.Errorf("drains %s, which runs tasks", name)
			}
		}
	})
}

func TestRuntimesAreThoseOfTheLastTasks(t *testing.T) {
	var r *Runtimes
	if got := r.Expect(time.Hour); got != Unknown {
		t.Errorf("of nothing %v, want it unknown", got)
	}
	r = &Runtimes{}
	if got := r.Expect(0); got != Unknown {
		t.Errorf("of no task %v, want it unknown", got)
	}
	r.Observe(10 * time.Second)
	r.Observe(20 * time.Second)
	for _, tc := range []struct{ ran, want time.Duration }{
		{0, 15 * time.Second}, {29 * time.Second, 15 * time.Second}, {30 * time.Second, time.Minute}, {time.Hour, 2 * time.Hour},
	} {
		if got := r.Expect(tc.ran); got != tc.want {
			t.Errorf("while one has run for %v: %v, want %v", tc.ran, got, tc.want)
		}
	}
	for range 32 {
		r.Observe(time.Minute)
	}
	if got := r.Expect(0); got != time.Minute {
		t.Errorf("after 32 tasks of a minute %v, want a minute", got)
	}
	instant := &Runtimes{}
	instant.Observe(0)
	if got := instant.Expect(0); got != time.Millisecond {
		t.Errorf("of tasks that take no time %v, want the least there is", got)
	}
}
