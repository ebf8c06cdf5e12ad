package estimate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

const window = 30 * time.Second

// anyNeedAtAll draws from many needs, so that few tasks are equal.
var anyNeedAtAll = rapid.Custom(func(t *rapid.T) Resources {
	return Resources{
		MilliCores: rapid.Int64Range(0, 3000).Draw(t, "cores"), MemoryBytes: rapid.Int64Range(0, 7).Draw(t, "memory"),
		DiskBytes: rapid.Int64Range(0, 9).Draw(t, "disk"), GPUs: rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 2}).Draw(t, "gpus"),
	}
})

// anyNeed draws from few needs, so that tasks of the same need are separated in the queue.
var anyNeed = rapid.Custom(func(t *rapid.T) Resources {
	return Resources{
		MilliCores:  1000 * rapid.Int64Range(0, 3).Draw(t, "cores"),
		MemoryBytes: rapid.SampledFrom([]int64{0, 2, 5}).Draw(t, "memory"),
		DiskBytes:   rapid.SampledFrom([]int64{0, 0, 0, 4, 4, 9}).Draw(t, "disk"),
		GPUs:        rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 1, 1, 2}).Draw(t, "gpus"),
	}
})

var anyRuntime = rapid.Custom(func(t *rapid.T) time.Duration {
	if rapid.IntRange(0, 9).Draw(t, "known") == 0 {
		return Unknown
	}
	return time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second
})

var anyState = rapid.Custom(func(t *rapid.T) State {
	var s State
	for i := range rapid.IntRange(0, 6).Draw(t, "workers") {
		w := Worker{
			Name: fmt.Sprintf("w%d", i),
			Capacity: Resources{
				MilliCores:  1000 * rapid.Int64Range(0, 4).Draw(t, "cores"),
				MemoryBytes: rapid.Int64Range(0, 12).Draw(t, "memory"), DiskBytes: 8, GPUs: rapid.Int64Range(0, 1).Draw(t, "gpus"),
			},
			Draining: rapid.IntRange(0, 5).Draw(t, "draining") == 0, Takes: rapid.Bool().Draw(t, "takes"),
		}
		if rapid.IntRange(0, 3).Draw(t, "coming") == 0 {
			w.ReadyIn = time.Duration(rapid.IntRange(1, 35).Draw(t, "ready")) * time.Second
		} else {
			for range rapid.IntRange(0, 3).Draw(t, "running") {
				left := anyRuntime.Draw(t, "left")
				if rapid.IntRange(0, 5).Draw(t, "overdue") == 0 {
					left = 0
				}
				w.Running = append(w.Running, Running{Category: "r", Need: anyNeed.Draw(t, "need"), Left: left, Count: rapid.IntRange(1, 2).Draw(t, "n")})
			}
		}
		s.Workers = append(s.Workers, w)
	}
	kinds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Batch {
		return Batch{Category: "k", Need: anyNeed.Draw(t, "need"), Runtime: anyRuntime.Draw(t, "runtime")}
	}), 1, 4).Draw(t, "kinds")
	batches := rapid.IntRange(0, 12).Draw(t, "batches")
	var needs []Resources
	if rapid.IntRange(0, 3).Draw(t, "unlike") == 3 { // some of them more than once
		batches = 3 * fewShapes
		needs = rapid.SliceOfN(anyNeedAtAll, 2*fewShapes, 2*fewShapes).Draw(t, "needs")
	}
	for range batches {
		b := rapid.SampledFrom(kinds).Draw(t, "kind")
		if needs != nil {
			b.Need = rapid.SampledFrom(needs).Draw(t, "need")
		}
		b.Count = rapid.IntRange(1, 6).Draw(t, "count")
		s.Waiting = append(s.Waiting, b)
	}
	return s
})

// twin simulates a window second by second and task by task.
func twin(s State, window time.Duration) Outlook {
	type task struct {
		need    Resources
		end     time.Duration
		endless bool
	}
	running := make([][]task, len(s.Workers))
	o := Outlook{Workers: make([]Prospect, len(s.Workers))}
	note := func(worker int, tk task) {
		running[worker] = append(running[worker], tk)
		if tk.endless {
			o.Workers[worker].BusyUntil = Unknown
		} else if o.Workers[worker].BusyUntil < tk.end {
			o.Workers[worker].BusyUntil = tk.end
		}
	}
	for i, w := range s.Workers {
		for _, r := range w.Running {
			for range r.Count {
				note(i, task{r.Need, r.Left, r.Left == Unknown})
			}
		}
	}
	free := func(worker int) Resources {
		f := s.Workers[worker].Capacity
		for _, tk := range running[worker] {
			f.MilliCores -= tk.need.MilliCores
			f.MemoryBytes -= tk.need.MemoryBytes
			f.DiskBytes -= tk.need.DiskBytes
			f.GPUs -= tk.need.GPUs
		}
		return f
	}
	var queue []Batch // one task each
	for _, b := range s.Waiting {
		for range b.Count {
			b.Count = 1
			queue = append(queue, b)
		}
	}
	for now := time.Duration(0); now <= window; now += time.Second {
		for i := range running {
			running[i] = slices.DeleteFunc(running[i], func(tk task) bool { return !tk.endless && tk.end <= now })
		}
		var rest []Batch
		for _, b := range queue {
			placed := false
			for i, w := range s.Workers {
				if w.Draining && !w.Takes || w.ReadyIn > now || !holds(free(i), b.Need) {
					continue
				}
				note(i, task{b.Need, now + b.Runtime, b.Runtime == Unknown})
				o.Workers[i].Took++
				placed = true
				break
			}
			if !placed {
				rest = append(rest, b)
			}
		}
		queue = rest
	}
	for i := range s.Workers {
		o.Workers[i].Free = free(i)
		o.Workers[i].Idle = len(running[i]) == 0
	}
	o.Waiting = queue
	return o
}

// holds reports whether there is enough of each resource.
func holds(free, need Resources) bool {
	return free.MilliCores >= need.MilliCores && free.MemoryBytes >= need.MemoryBytes && free.DiskBytes >= need.DiskBytes && free.GPUs >= need.GPUs
}

// apart splits a queue into single tasks.
func apart(queue []Batch) []Batch {
	var tasks []Batch
	for _, b := range queue {
		for range b.Count {
			b.Count = 1
			tasks = append(tasks, b)
		}
	}
	return tasks
}

func TestForeseeingIsPlayingEachSecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyState.Draw(t, "state")
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		got, want := Foresee(s, window), twin(s, window)
		got.Waiting = apart(got.Waiting)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("want -, got +:\n%s", diff)
		}
	})
}

func TestForeseeingChangesNothingOfWhatItIsGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyState.Draw(t, "state")
		before := State{Workers: slices.Clone(s.Workers), Waiting: slices.Clone(s.Waiting)}
		Foresee(s, window)
		if diff := cmp.Diff(before, s); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTasksAreSkippedThatDoNotFitAndNeverSplit(t *testing.T) {
	core := func(n int64) Resources { return Resources{MilliCores: 1000 * n} }
	// Two cores are free, one on each worker; a task of two cores waits before one of one core.
	s := State{
		Workers: []Worker{
			{Name: "a", Capacity: core(2), Running: []Running{{Need: core(1), Left: Unknown, Count: 1}}},
			{Name: "b", Capacity: core(2), Running: []Running{{Need: core(1), Left: 20 * time.Second, Count: 1}}},
		},
		Waiting: []Batch{{Category: "large", Need: core(2), Runtime: time.Second, Count: 1}, {Category: "small", Need: core(1), Runtime: Unknown, Count: 1}},
	}
	o := Foresee(s, 19*time.Second)
	if len(o.Waiting) != 1 || o.Waiting[0].Category != "large" || o.Workers[0].Took != 1 {
		t.Errorf("after 19 s %+v, want the large one waiting and the small one started on a", o)
	}
	if o := Foresee(s, 20*time.Second); len(o.Waiting) != 0 || o.Workers[1].BusyUntil != 21*time.Second {
		t.Errorf("after 20 s %+v, want the large one running on b for one second more", o)
	}
}

func TestAWorkerThatConnectsAtTheEndOfTheWindowStillTakesTasks(t *testing.T) {
	s := State{
		Workers: []Worker{{Name: "a", Capacity: Resources{MilliCores: 1000}, ReadyIn: 20 * time.Second}},
		Waiting: []Batch{{Need: Resources{MilliCores: 1000}, Runtime: time.Second, Count: 1}},
	}
	for _, tc := range []struct {
		window time.Duration
		took   int
	}{{19 * time.Second, 0}, {20 * time.Second, 1}} {
		if got := Foresee(s, tc.window).Workers[0].Took; got != tc.took {
			t.Errorf("in %v it takes %d tasks, want %d", tc.window, got, tc.took)
		}
	}
}

func TestRequiredWorkersHoldEverything(t *testing.T) {
	worker := Resources{MilliCores: 3000, MemoryBytes: 6, DiskBytes: 8, GPUs: 1}
	rapid.Check(t, func(t *rapid.T) {
		waiting := anyState.Draw(t, "state").Waiting
		most := rapid.IntRange(0, 20).Draw(t, "most")
		// Place each task on the first worker with room.
		var free []Resources
		var strangers []string
	tasks:
		for _, b := range apart(waiting) {
			if !holds(worker, b.Need) {
				continue
			}
			for i := 0; i < most; i++ {
				if i == len(free) {
					free = append(free, worker)
				}
				f := &free[i]
				if b.Need.MilliCores <= f.MilliCores && b.Need.MemoryBytes <= f.MemoryBytes && b.Need.DiskBytes <= f.DiskBytes && b.Need.GPUs <= f.GPUs {
					f.MilliCores -= b.Need.MilliCores
					f.MemoryBytes -= b.Need.MemoryBytes
					f.DiskBytes -= b.Need.DiskBytes
					f.GPUs -= b.Need.GPUs
					continue tasks
				}
			}
		}
		for _, b := range waiting {
			tooLarge := b.Need.MilliCores > 3000 || b.Need.MemoryBytes > 6 || b.Need.DiskBytes > 8 || b.Need.GPUs > 1
			if tooLarge && len(strangers) == 0 {
				strangers = []string{"k"}
			}
		}
		got, unplaceable := Require(waiting, worker, most)
		if got != len(free) || !slices.Equal(unplaceable, strangers) {
			t.Errorf("%d workers and %v too large, want %d and %v", got, unplaceable, len(free), strangers)
		}
	})
}
