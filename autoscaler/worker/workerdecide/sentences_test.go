package workerdecide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// said returns the texts of a decision.
func said(t *testing.T, c Config, o Observation, m Memory, now time.Time) string {
	t.Helper()
	d, _ := must(t, c, o, m, now)
	all := []string{d.Reason}
	for _, u := range d.Unplaceable {
		all = append(all, fmt.Sprintf("%d of %s: %s", u.Tasks, u.Category, u.Reason))
	}
	for _, r := range d.Rejected {
		all = append(all, r.Flavor+": "+r.Reason)
	}
	for i := range d.Overstated {
		all = append(all, d.Overstated[i].String())
	}
	return strings.Join(all, "\n")
}

// podOf is a pod whose worker has run since a time.
func podOf(name string, since time.Time) Pod {
	return Pod{Name: name, Flavor: "four", Worker: cores(4), Asked: since, Started: since}
}

// TestAReasonCountsAllTasksThatWait has tasks that justify no worker: one of a category must run first, or no worker holds
// them.
func TestAReasonCountsAllTasksThatWait(t *testing.T) {
	for _, tc := range []struct {
		tasks     []answer.Task
		says      string
		then, not int
	}{
		{waiting(1, 500, "c", 1), "1 task that justifies workers waits at the end of the window: 1 worker for it", 1, 499},
		{waiting(1, 1, "c", 1), "1 task waits at the end of the window: 1 worker for it", 1, 0},
		{waiting(1, 3, "giant", 16), "no tasks that justify workers wait at the end of the window", 0, 3},
		{nil, "no tasks wait at the end of the window", 0, 0},
	} {
		d, _ := must(t, limits(), Observation{Reading: reading(tc.tasks)}, Memory{}, begin)
		if d.Reason != tc.says || d.WaitingThen != tc.then || d.Uncounted != tc.not {
			t.Errorf("with %d tasks that wait it says %q, counts %d and leaves out %d", len(tc.tasks), d.Reason, d.WaitingThen, d.Uncounted)
		}
	}
}

// TestALimitIsThatOfThePool has a worker of another origin, which does not count towards it.
func TestALimitIsThatOfThePool(t *testing.T) {
	var m Memory
	m.category("c").observe(time.Hour, 1)
	o := Observation{Reading: reading(waiting(1, 100, "c", 4), connected("desk", 4))}
	d, _ := must(t, limits(func(c *Config) { c.Max = 2 }), o, m, begin)
	if want := "99 tasks wait at the end of the window: 2 workers for them, which reaches the maximum of 2"; d.Reason != want || !d.Limited {
		t.Errorf("it says %q, limited %v", d.Reason, d.Limited)
	}
	d, _ = must(t, limits(func(c *Config) { c.Min = 2 }), Observation{Reading: reading(nil, connected("desk", 4))}, m, begin)
	if want := "the pool has 0 workers, fewer than its minimum of 2"; d.Reason != want {
		t.Errorf("it says %q", d.Reason)
	}
}

// TestAPoolThatHasWhatItWantsIsNotLimited has a maximum that is exactly the number of workers that tasks justify.
func TestAPoolThatHasWhatItWantsIsNotLimited(t *testing.T) {
	var m Memory
	m.category("c").observe(time.Hour, 1)
	for most, limited := range map[int]bool{1: true, 2: false, 3: false} {
		for _, law := range []Law{Supercargo, HTA} {
			o := Observation{Reading: reading(waiting(1, 8, "c", 1))}
			d, after := must(t, limits(func(c *Config) { c.Max, c.Law = most, law }), o, m, begin)
			if d.Limited != limited {
				t.Errorf("%s: with a maximum of %d it is limited: %v (%s)", law, most, d.Limited, d.Reason)
			}
			for i := range d.Add {
				o.Pods = append(o.Pods, Pod{Name: fmt.Sprint("w-", i), Flavor: "four", Worker: cores(4), Asked: begin})
			}
			if d, _ = must(t, limits(func(c *Config) { c.Max, c.Law = most, law }), o, after, begin.Add(5*time.Second)); d.Limited != limited {
				t.Errorf("%s: with a maximum of %d it is limited a moment later: %v (%s)", law, most, d.Limited, d.Reason)
			}
		}
	}
}

// TestTasksOfOneCategoryThatAreTooLargeForSeveralReasonsAreNamedWithEach has two tasks, of which only one needs 16 cores.
func TestTasksOfOneCategoryThatAreTooLargeForSeveralReasonsAreNamedWithEach(t *testing.T) {
	tasks := append(waiting(1, 1, "c", 16), waiting(2, 1, "c", 8)...)
	d, _ := must(t, limits(), Observation{Reading: reading(tasks)}, Memory{}, begin)
	if len(d.Unplaceable) != 2 || d.Unplaceable[0].Tasks != 1 || d.Unplaceable[1].Reason != "a task needs 8 cores, but the largest worker has 4" {
		t.Errorf("it says %+v", d.Unplaceable)
	}
}

// TestUseThatIsReportedIsNotCalledUnknown has a manager that has measured tasks that the pool has not seen.
func TestUseThatIsReportedIsNotCalledUnknown(t *testing.T) {
	seen := Memory{Categories: []Category{{Name: "c", Need: cores(1), Source: Declared, Used: cores(1), Ended: EnoughEnded}}}
	few := Memory{Categories: []Category{{Name: "c", Need: cores(1), Source: Declared, Used: cores(1), Ended: EnoughEnded - 1}}}
	for _, tc := range []struct {
		name     string
		category answer.Category
		of       Memory
		want     UseKnown
	}{
		{"nothing is measured", answer.Category{Name: "c"}, Memory{}, UseUnmeasured},
		{"measured before the pool began", used("c", 1, 1, 1), Memory{}, UseOfTooFew},
		{"too few have ended", answer.Category{Name: "c"}, few, UseOfTooFew},
		{"enough have ended", answer.Category{Name: "c"}, seen, UseCompared},
	} {
		r := reading(nil)
		r.Categories = []answer.Category{tc.category}
		if d, _ := must(t, limits(), Observation{Reading: r}, tc.of, begin); d.UseKnown != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, d.UseKnown, tc.want)
		}
	}
}

// TestEachSentenceOfADecisionIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of the package.
func TestEachSentenceOfADecisionIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	of := func(r *Reading, pods ...Pod) string {
		return said(t, limits(), Observation{Pods: pods, Reading: r}, Memory{}, begin)
	}
	silent := func(s Silence, since time.Duration) string {
		m := Memory{GoneSince: begin.Add(-since)}
		return said(t, limits(), Observation{Fault: "fault", Silence: s}, m, begin)
	}
	counts := func(queue answer.Queue, tasks int, workers ...answer.Worker) string {
		return of(&Reading{Queue: queue, Tasks: waiting(1, tasks, "c", 1), Workers: workers})
	}
	well := of(reading(waiting(1, 1, "c", 1)))
	desks := func(n int) (all []answer.Worker) {
		for i := range n {
			all = append(all, connected(fmt.Sprint("desk-", i), 4))
		}
		return all
	}
	twice := []answer.Worker{connected("a", 4), connected("a", 4)}
	known := Memory{Categories: []Category{{Name: "c", Recent: []time.Duration{time.Hour}}}}
	flavors := func(all ...Flavor) Config { return limits(func(c *Config) { c.Flavors = all }) }
	small, large := Flavor{Name: "small", Worker: cores(2), MicroDollarsPerHour: 100_000}, Flavor{Name: "large", Worker: cores(16), MicroDollarsPerHour: 640_000}
	gone := Flavor{Name: "gone", Trouble: "it is sold out"}
	choice := func(all ...Flavor) string {
		return said(t, flavors(all...), Observation{Reading: reading(waiting(1, 2, "c", 1))}, known, begin)
	}
	unpriced := large
	unpriced.MicroDollarsPerHour = 0
	needs := func(change func(*answer.Resources)) string {
		tasks := waiting(1, 1, "c", 1)
		change(&tasks[0].Declared)
		c := flavors(Flavor{Name: "f", Worker: estimate.Resources{MilliCores: 4000, MemoryBytes: giga, DiskBytes: giga}}, Flavor{Name: "g", Worker: estimate.Resources{MilliCores: 1000, MemoryBytes: 4 * giga, DiskBytes: giga}})
		return said(t, c, Observation{Reading: reading(tasks)}, Memory{}, begin)
	}
	memory := func(mb float64) func(*answer.Resources) {
		return func(r *answer.Resources) { r.MemoryMB = exact(mb) }
	}
	// leaving has pods that leave, beside tasks for which workers are wanted, up to two.
	leaving := func(n int) string {
		o := Observation{Reading: reading(waiting(1, 100, "c", 4))}
		for i := range n {
			o.Pods = append(o.Pods, Pod{Name: fmt.Sprint("w-", i), Worker: cores(4), Asked: begin, Leaving: true})
		}
		return said(t, limits(func(c *Config) { c.Max = 3 }), o, known, begin)
	}
	// shrinking has too many workers, of which some are busy and some are of another origin.
	shrinking := func(busy, foreign, most int) string {
		o := Observation{Reading: reading(nil, desks(foreign)...)}
		for i := range busy {
			name := fmt.Sprint("w-", i)
			o.Pods, o.Reading.Workers = append(o.Pods, podOf(name, begin)), append(o.Reading.Workers, connected(name, 4))
			o.Reading.Tasks = append(o.Reading.Tasks, answer.Task{ID: int64(i), Category: "c", State: answer.Running, Worker: "at/" + name})
			o.Reading.Queue.OnWorkers++
		}
		return said(t, limits(func(c *Config) { c.Max, c.Law = most, HTA }), o, Memory{}, begin)
	}
	// lost has workers that have run for long without connecting, and others that are connected.
	lost := func(n, others int) string {
		m := Memory{pods: map[string]podMemory{}}
		o := Observation{Reading: reading(nil)}
		for i := range others {
			name := fmt.Sprint("w-", i)
			w := connected(name, 4)
			w.TasksRunning = 1
			o.Pods, o.Reading.Workers = append(o.Pods, podOf(name, begin)), append(o.Reading.Workers, w)
		}
		for i := range n {
			name := fmt.Sprint("x-", i)
			o.Pods = append(o.Pods, podOf(name, begin.Add(-time.Hour)))
			m.pods[name] = podMemory{apart: true, alone: begin.Add(-time.Hour)}
		}
		return said(t, limits(), o, m, begin)
	}
	overstated := func(c Category, price int64) string {
		f := Flavor{Worker: cores(4), MicroDollarsPerHour: price}
		c.Name, c.Ended, c.Used, c.Recent = "c", EnoughEnded, estimate.Resources{MilliCores: 1000, MemoryBytes: giga}, []time.Duration{time.Hour}
		var all []string
		for _, o := range (&Memory{Categories: []Category{c}}).overstated(&f) {
			all = append(all, o.String())
		}
		return strings.Join(all, "\n")
	}
	declares := func(cores, gib int64) Category {
		return Category{Source: Declared, Need: estimate.Resources{MilliCores: 1000 * cores, MemoryBytes: gib * giga, DiskBytes: giga}}
	}
	whole, dear, free := overstated(Category{Source: WholeWorker}, 0), overstated(declares(4, 2), 200_000), overstated(declares(4, 2), 0)
	measured := declares(4, 2)
	measured.Source = Measured
	allocated := overstated(measured, 0)

	homeless := func(n int, after time.Duration) string {
		o, m := pending(n)
		d, _ := must(t, limits(func(c *Config) {
			c.Flavors, c.Max = []Flavor{{Name: "a", Worker: cores(4)}, {Name: "b", Worker: cores(4), MicroDollarsPerHour: 1 << 40}}, n
		}), o, m, begin.Add(after))
		return fmt.Sprint(d.Reason, d.Rejected)
	}
	sentences.Check(t, []string{"decide.go", "observation.go", "trust.go", "flavor.go", "overstated.go", "init.go", "learn.go", "memory.go", "translate.go", "unplaced.go"}, []sentences.Case{
		// Managers.
		{"the pool is not resized: ", silent(Unreachable, 0), well},
		{"the manager does not answer", silent(Unreachable, 0), silent(NotAsked, 0)},
		{"the manager's answer is invalid", silent(Unusable, 0), silent(Unreachable, 0)},
		{"the manager cannot be queried", silent(NotAsked, 0), silent(Unusable, 0)},
		{"no query has reached the manager for %v: %s", silent(Gone, 10*time.Minute), silent(Gone, 9*time.Minute)},
		{"the manager contradicts itself: ", counts(answer.Queue{Waiting: 4}, 0), well},
		{"queue_status counts %d tasks and task_status lists none", counts(answer.Queue{Waiting: 4}, 0), counts(answer.Queue{Waiting: 3}, 0)},
		{"task_status lists %d tasks and queue_status counts none", counts(answer.Queue{}, 4), counts(answer.Queue{}, 3)},
		{"queue_status counts %d workers and worker_status lists none", counts(answer.Queue{Workers: 4}, 0), counts(answer.Queue{Workers: 3}, 0)},
		{"worker_status lists %d workers and queue_status counts none", counts(answer.Queue{}, 0, desks(4)...), counts(answer.Queue{}, 0, desks(3)...)},
		{"worker_status lists address %q twice", counts(answer.Queue{Workers: 2}, 0, twice...), counts(answer.Queue{Workers: 1}, 0, answer.Worker{Hostname: "a"})},
		{"worker_status lists a worker without an address", counts(answer.Queue{Workers: 1}, 0, answer.Worker{Hostname: "a"}), counts(answer.Queue{Workers: 2}, 0, twice...)},

		// Workers.
		{"; only %d now: %s towards the limit until %s gone", leaving(2), leaving(0)},
		{"1 terminating worker counts", leaving(1), leaving(2)},
		{"%d terminating workers count", leaving(2), leaving(1)},
		{"it is", leaving(1), leaving(2)},
		{"they are", leaving(2), leaving(1)},
		{"1 stays until the manager reports it as idle", shrinking(2, 0, 1), shrinking(3, 0, 1)},
		{"%d stay until the manager reports them as idle", shrinking(3, 0, 1), shrinking(2, 0, 1)},
		{"%d %s not belong to this pool", shrinking(2, 1, 1), shrinking(2, 0, 1)},
		{"; %s not connected for a long time, while others have", lost(1, 1), lost(1, 0)},
		{"1 worker has", lost(1, 1), lost(2, 1)},
		{"%d workers have", lost(2, 1), lost(1, 1)},
		{"; %s waited too long for a node of a flavor that is not available", homeless(1, time.Hour), homeless(1, time.Minute)},
		{"%s had no node for a long time", homeless(1, time.Hour), homeless(1, time.Minute)},
		{"1 worker of it has", homeless(1, time.Hour), homeless(2, time.Hour)},
		{"%d workers of it have", homeless(2, time.Hour), homeless(1, time.Hour)},

		// Flavors.
		{"no flavor is available: ", choice(gone), choice(gone, small)},
		{"%s for %s on %s", choice(small, large), choice(small)},
		{" of unknown price", choice(small, unpriced), choice(small, large)},
		{"no flavor is available", choice(gone), choice(small)},
		{"%s, but the largest worker has %g", needs(func(r *answer.Resources) { r.Cores = exact(8) }), needs(memory(1))},
		{"%d MiB of memory, but the largest worker has %d", needs(memory(5000)), needs(memory(4000))},
		{"%d MiB of disk, but the largest worker has %d", needs(func(r *answer.Resources) { r.DiskMB = exact(2000) }), needs(memory(1))},
		{"%s, but the largest worker has %d", needs(func(r *answer.Resources) { r.GPUs = exact(1) }), needs(memory(1))},
		{"no worker has all resources that a task needs together", needs(func(r *answer.Resources) { r.Cores, r.MemoryMB = exact(4), exact(4000) }), needs(memory(5000))},
		{"a task needs ", needs(memory(5000)), needs(memory(4000))},

		// Usage.
		{"declares nothing, so that each task gets a whole worker", whole, free},
		{"is allocated up to %s for a task", allocated, free},
		{"declares up to %s for a task", free, allocated},
		{": with %s, which covers the greatest measured use, %d of its tasks would fit where %d %s", free, overstated(declares(1, 1), 0)},
		{", at $%.4f each instead of $%.4f", dear, free},
		{"%d MiB of memory", free, needs(memory(1))},
		{"%d MiB of disk", free, whole},
	}, map[string]string{"the state of the queue is invalid: ": "the law refuses only negative amounts, and neither pods nor answers have any"})
	if strings.Contains(needs(func(r *answer.Resources) { r.GPUs = exact(1) }), "1 GPUs") || strings.Contains(free, "1 cores") {
		t.Error("one is written as several")
	}
}
