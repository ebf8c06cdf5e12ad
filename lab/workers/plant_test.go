package workers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/scenario"
)

// orders is a law that returns the given orders in turn, and then empty ones.
type orders []Order

func (o *orders) Decide(View) (Order, error) {
	if len(*o) == 0 {
		return Order{Next: time.Hour}, nil
	}
	first := (*o)[0]
	*o = (*o)[1:]
	return first, nil
}

func cores(n int64) estimate.Resources {
	return estimate.Resources{MilliCores: 1000 * n, MemoryBytes: 100}
}

// task returns a task with one core that is always busy.
func task(id string, seconds int, parents ...int) trace.Task {
	return trace.Task{ID: id, Category: "c", MilliCores: 1000, MemoryBytes: 1, Runtime: time.Duration(seconds) * time.Second, BusyMillionths: 1e6, Parents: parents}
}

func planOf(start int, tasks ...trace.Task) Plan {
	return Plan{
		Tasks: tasks, Worker: cores(2), Start: start, Max: 3, InitTime: scenario.Lag{Mean: 10 * time.Second},
		MicroDollarsPerHour: 3_600_000, BillingPeriod: time.Second,
	}
}

func TestARunAddsUpCoresAndMoney(t *testing.T) {
	// Two cores from the start, two more from 10 s to 22 s.
	//   a 0-8, b 0-20; c 8-12 and d 10-14 wait until then; e after c and d, 14-24.
	plan := planOf(1, task("a", 8), task("b", 20), task("c", 4), task("d", 4), task("e", 10, 2, 3))
	law := orders{{Add: 1, Next: 22 * time.Second}, {Drain: []string{"worker-1"}, Next: time.Hour}}
	r, err := Run(plan, &law)
	if err != nil {
		t.Fatal(err)
	}
	want := Result{
		Makespan: 24 * time.Second,
		// The first has a free core from 12 s to 14 s (e takes it) and from 20 s to 24 s. The
		// second has one from 10 s to 14 s, and two from 14 s to 22 s.
		WasteMilliCoreMillis: (2 + 4 + 4 + 2*8) * 1e6,
		// c and d until 8 s, d until 10 s.
		ShortageMilliCoreMillis: (2*8 + 2) * 1e6,
		Peak:                    2, Added: 1, Drained: 1, Resizes: 2,
		MicroDollars: (24 + 22) * 1000,
	}
	want.Decisions = r.Decisions
	if fmt.Sprint(r) != fmt.Sprint(want) {
		t.Errorf("%+v, want\n%+v", r, want)
	}
}

func TestDrainedWorkersEndWhatTheyRunAndKilledOnesDoNot(t *testing.T) {
	for _, tc := range []struct {
		name     string
		order    Order
		makespan time.Duration
		lost     int64
		restarts int
	}{
		// c follows a.
		{"drained", Order{Drain: []string{"worker-1"}, Next: time.Hour}, 30 * time.Second, 0, 0},
		// b and b2 follow a, and c follows them.
		{"killed at 5 s", Order{Kill: []string{"worker-1"}, Next: time.Hour}, 50 * time.Second, 2 * 5 * 1e6, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := planOf(2, task("a", 20), task("a2", 20), task("b", 20), task("b2", 20), task("c", 10))
			law := orders{{Next: 5 * time.Second}, tc.order}
			r, err := Run(plan, &law)
			if err != nil || r.Makespan != tc.makespan || r.LostMilliCoreMillis != tc.lost || r.Restarted != tc.restarts {
				t.Errorf("%+v and %v, want an end at %v, %d lost and %d restarted", r, err, tc.makespan, tc.lost, tc.restarts)
			}
		})
	}
}

func TestStagesWaitForLowerOnes(t *testing.T) {
	late := task("late", 5)
	late.Stage = 7
	r, err := Run(planOf(3, late, task("a", 10), task("b", 30)), &orders{})
	if err != nil || r.Makespan != 35*time.Second {
		t.Errorf("ends at %v (%v), want 35s", r.Makespan, err)
	}
}

func TestRunsThatCannotEndSaySo(t *testing.T) {
	huge := task("huge", 1)
	huge.MemoryBytes = 101
	if _, err := Run(planOf(1, huge), &orders{}); err == nil || !strings.Contains(err.Error(), "task huge needs 1 cores") {
		t.Errorf("error %v, want the task named", err)
	}
	if _, err := Run(planOf(0, task("a", 1)), &orders{}); !errors.Is(err, ErrStalled) {
		t.Errorf("error %v, want %v", err, ErrStalled)
	}
	for _, law := range []orders{{{Add: 3, Next: 1}}, {{Drain: []string{"nobody"}, Next: 1}}, {{}}} {
		if _, err := Run(planOf(1, task("a", 1)), &law); err == nil || !strings.Contains(err.Error(), "decide at 0s") {
			t.Errorf("error %v, want the order refused", err)
		}
	}
}

// TestARunIsPlayingEachSecond compares runs without resizes with a twin that processes each task
// every second.
func TestARunIsPlayingEachSecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := planOf(rapid.IntRange(1, 3).Draw(t, "workers"))
		for i := range rapid.IntRange(1, 15).Draw(t, "tasks") {
			tk := task(fmt.Sprint(i), rapid.IntRange(1, 9).Draw(t, "seconds"))
			tk.MilliCores = 1000 * rapid.Int64Range(1, 2).Draw(t, "cores")
			tk.Stage = rapid.Int64Range(0, 2).Draw(t, "stage")
			for j := range i {
				if plan.Tasks[j].Stage <= tk.Stage && rapid.IntRange(0, 4).Draw(t, "child") == 0 {
					tk.Parents = append(tk.Parents, j)
				}
			}
			plan.Tasks = append(plan.Tasks, tk)
		}
		r, err := Run(plan, &orders{})
		if err != nil {
			t.Fatal(err)
		}
		end, waste, shortage := eachSecond(plan)
		if r.Makespan != end || r.WasteMilliCoreMillis != waste || r.ShortageMilliCoreMillis != shortage {
			t.Errorf("end %v, waste %d, shortage %d, want %v, %d and %d", r.Makespan, r.WasteMilliCoreMillis, r.ShortageMilliCoreMillis, end, waste, shortage)
		}
	})
}

// unblocked reports whether all prerequisites of a task have ended.
func unblocked(plan Plan, state []string, task int) bool {
	for j := range plan.Tasks {
		before := plan.Tasks[j].Stage < plan.Tasks[task].Stage || slices.Contains(plan.Tasks[task].Parents, j)
		if before && state[j] != "done" {
			return false
		}
	}
	return true
}

// eachSecond simulates a plan without a law, second by second.
func eachSecond(plan Plan) (end time.Duration, waste, shortage int64) {
	n := len(plan.Tasks)
	left, worker, queued := make([]time.Duration, n), make([]int, n), []int{}
	state := make([]string, n) // "", ready, running, done
	for i := range plan.Tasks {
		left[i] = plan.Tasks[i].Runtime
	}
	for {
		for i := range plan.Tasks {
			if state[i] == "" && unblocked(plan, state, i) {
				state[i] = "ready"
				queued = append(queued, i)
			}
		}
		free := make([]int64, plan.Start)
		for w := range free {
			free[w] = plan.Worker.MilliCores
		}
		for i := range plan.Tasks {
			if state[i] == "running" {
				free[worker[i]] -= plan.Tasks[i].MilliCores
			}
		}
		queued = slices.DeleteFunc(queued, func(i int) bool {
			for w := range free {
				if plan.Tasks[i].MilliCores <= free[w] {
					free[w] -= plan.Tasks[i].MilliCores
					worker[i], state[i] = w, "running"
					return true
				}
			}
			return false
		})
		if !slices.ContainsFunc(state, func(s string) bool { return s != "done" }) {
			return end, waste, shortage
		}
		for w := range free {
			waste += free[w] * 1000
		}
		for _, i := range queued {
			shortage += plan.Tasks[i].MilliCores * 1000
		}
		end += time.Second
		for i := range plan.Tasks {
			if state[i] == "running" {
				if left[i] -= time.Second; left[i] == 0 {
					state[i] = "done"
				}
			}
		}
	}
}
