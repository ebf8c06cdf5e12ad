package workerdecide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// must decides on valid input.
func must(t testing.TB, c Config, o Observation, m Memory, now time.Time) (Decision, Memory) {
	t.Helper()
	d, m, err := Decide(c, o, m, now)
	if err != nil {
		t.Fatal(err)
	}
	if d.Recheck <= 0 {
		t.Fatalf("evaluate again in %v", d.Recheck)
	}
	return d, m
}

// play runs a farm under a pool until no task is left, for at most most, and returns the decisions that resized it.
func play(t testing.TB, f *farm, c Config, m Memory, most time.Duration) (resizes []Decision, last Memory) {
	t.Helper()
	for end := f.now.Add(most); f.left() > 0 || len(f.machines) > c.Min; f.step(time.Second) {
		if f.now.After(end) {
			t.Fatalf("after %v %d tasks are left and %d workers there", most, f.left(), len(f.machines))
		}
		if f.now.Unix()%int64(c.Cycle.Seconds()) != 0 {
			continue
		}
		var d Decision
		d, m = must(t, c, f.observe(), m, f.now)
		if d.Add > 0 || len(d.Drain) > 0 {
			resizes = append(resizes, d)
		}
		f.do(d, c)
	}
	return resizes, m
}

func TestAWorkflowIsMeasuredThenRunThenCleanedUp(t *testing.T) {
	f := newFarm(30 * time.Second)
	f.submit("split", 40, 1, 60*time.Second)
	c := limits()
	resizes, m := play(t, f, c, Memory{}, time.Hour)
	if d := resizes[0]; d.Phase != WarmUp || d.Add != 1 {
		t.Errorf("first %v: %d workers, want one to measure the category (%s)", d.Phase, d.Add, d.Reason)
	}
	if len(f.lost) > 0 {
		t.Errorf("%v were drained while they ran tasks", f.lost)
	}
	var peak int
	for _, d := range resizes {
		peak += d.Add
	}
	if peak < 3 || peak > 10 {
		t.Errorf("%d workers of four cores in all for 40 tasks of a core, want some", peak)
	}
	if d := resizes[len(resizes)-1]; len(d.Drain) == 0 || d.Phase != CleanUp {
		t.Errorf("last %v drained %v, want the clean-up", d.Phase, d.Drain)
	}
	split := m.lookup("split")
	if split.Mean() != 60*time.Second || split.Need.MilliCores != 1000 || split.Source != Declared {
		t.Errorf("learned %+v, want 60 s and the core that it declares", split)
	}
	if len(m.InitTimes) != 1 || m.InitTimes[0].Flavor != "four" || m.InitTimes[0].Mean != 30*time.Second || m.InitTimes[0].Node != 15*time.Second {
		t.Errorf("initialisation times %+v, want 30 s, half of it for the node", m.InitTimes)
	}
}

func TestAnInitialisationTimeIsLearnedFromWorkersThatWentThroughAllStates(t *testing.T) {
	asked := begin
	pod := Pod{Name: "w", Flavor: "four", Worker: cores(4), Asked: asked, NodeMade: asked.Add(10 * time.Second), Scheduled: asked.Add(20 * time.Second), Started: asked.Add(50 * time.Second)}
	worker := answer.Worker{Address: "a", Hostname: "w", Total: answer.Resources{Cores: exact(4)}, Started: asked.Add(55 * time.Second), Now: asked.Add(60 * time.Second)}
	now := asked.Add(60 * time.Second)
	for _, tc := range []struct {
		name   string
		change func(p *Pod, c *Config)
		want   time.Duration
	}{
		{"a new node", func(*Pod, *Config) {}, 55 * time.Second},
		{"a node that was there", func(p *Pod, _ *Config) { p.NodeMade = asked.Add(-time.Hour) }, 60 * time.Second},
		{"a node that was there, where none are bought", func(p *Pod, c *Config) { p.NodeMade, c.Bought = asked.Add(-time.Hour), false }, 55 * time.Second},
		{"clocks that disagree", func(p *Pod, _ *Config) { p.Scheduled = asked.Add(-time.Second) }, 60 * time.Second},
		{"a container whose start is not known", func(p *Pod, _ *Config) { p.Started = time.Time{} }, 60 * time.Second},
		{"one that is leaving", func(p *Pod, _ *Config) { p.Leaving = true }, 60 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, p := limits(func(c *Config) { c.Bought = true }), pod
			tc.change(&p, &c)
			o := Observation{Pods: []Pod{p}, Reading: &Reading{}}
			_, m := must(t, c, o, Memory{}, now.Add(-10*time.Second))
			o.Reading = &Reading{Workers: []answer.Worker{worker}, Queue: answer.Queue{Workers: 1}}
			d, m := must(t, c, o, m, now)
			if got := m.initTime(&c, "four"); got != tc.want || d.InitTime != tc.want {
				t.Errorf("a worker takes %v, want %v", got, tc.want)
			}
			if _, again := must(t, c, o, m, now.Add(5*time.Second)); !cmp.Equal(again.InitTimes, m.InitTimes) {
				t.Error("the same worker was counted twice")
			}
		})
	}
	t.Run("one that was connected when it was first seen", func(t *testing.T) {
		o := Observation{Pods: []Pod{pod}, Reading: &Reading{Workers: []answer.Worker{worker}, Queue: answer.Queue{Workers: 1}}}
		if _, m := must(t, limits(), o, Memory{}, now); len(m.InitTimes) > 0 {
			t.Errorf("learned %+v", m.InitTimes)
		}
	})
}

// TestTheOrderOfPodsDecidesNothing: an API server lists pods created in the same second in any order.
func TestTheOrderOfPodsDecidesNothing(t *testing.T) {
	reading := &Reading{Queue: answer.Queue{Workers: 2}}
	var pods []Pod
	for i, took := range []time.Duration{20 * time.Second, 30 * time.Second} {
		name := fmt.Sprint("w", i)
		started := begin.Add(took)
		pods = append(pods, Pod{Name: name, Flavor: "four", Worker: cores(4), Asked: begin, NodeMade: begin, Scheduled: started, Started: started})
		reading.Workers = append(reading.Workers, answer.Worker{Address: name, Hostname: name, Total: answer.Resources{Cores: exact(4)}, Started: started, Now: begin.Add(time.Minute)})
	}
	learned := func(pods ...Pod) []InitTime {
		known := Memory{InitTimes: []InitTime{{Flavor: "four", Mean: time.Minute, Samples: 100}}}
		_, m := must(t, limits(), Observation{Pods: pods, Reading: &Reading{}}, known, begin.Add(10*time.Second))
		_, m = must(t, limits(), Observation{Pods: pods, Reading: reading}, m, begin.Add(time.Minute))
		return m.InitTimes
	}
	one, other := learned(pods[0], pods[1]), learned(pods[1], pods[0])
	if one[0].Samples != 102 || !cmp.Equal(one, other) {
		t.Errorf("learned %+v, and %+v with the pods in another order", one, other)
	}
}

// busy is a farm with four workers, one of them idle, and no waiting task.
func busy(t testing.TB) (*farm, Memory) {
	f := newFarm(10 * time.Second)
	f.submit("work", 12, 1, 10*time.Minute)
	f.do(Decision{Add: 4, Flavor: "four"}, limits())
	f.step(10 * time.Second)
	var m Memory
	for range 4 {
		_, m = must(t, limits(func(c *Config) { c.Min = 4 }), f.observe(), m, f.now)
		f.step(5 * time.Second)
	}
	return f, m
}

func TestABadReadingResizesNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(o *Observation)
		want   string
	}{
		{"the manager is down", func(o *Observation) { o.Reading, o.Fault = nil, "connection refused" }, "does not answer: connection refused"},
		{"tasks are missing", func(o *Observation) { o.Reading.Tasks = nil }, "task_status lists none"},
		{"workers are missing", func(o *Observation) { o.Reading.Workers = nil }, "worker_status lists none"},
		{"the queue is missing", func(o *Observation) { o.Reading.Queue.Waiting, o.Reading.Queue.OnWorkers = 0, 0 }, "counts none"},
		{"a worker twice", func(o *Observation) { o.Reading.Workers[1].Address = o.Reading.Workers[0].Address }, "lists address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, m := busy(t)
			f.step(time.Hour) // all tasks are done: otherwise workers would be drained
			f.submit("work", 40, 1, time.Minute)
			f.step(time.Second)
			o := f.observe()
			if d, _ := must(t, limits(), o, m, f.now); d.Held {
				t.Fatalf("held without a reason: %s", d.Reason)
			}
			o = f.observe()
			tc.change(&o)
			d, _ := must(t, limits(), o, m, f.now)
			if !d.Held || d.Add > 0 || len(d.Drain) > 0 || !strings.Contains(d.Reason, tc.want) {
				t.Errorf("decision %+v, want to hold because %q", d, tc.want)
			}
		})
	}
}

func TestWorkersOfAManagerThatIsGoneAreDrained(t *testing.T) {
	f, m := busy(t)
	o := f.observe()
	o.Reading, o.Fault, o.Silence = nil, "connection refused", Gone
	_, m = must(t, limits(), o, m, f.now)
	d, m := must(t, limits(), o, m, f.now.Add(10*time.Minute-time.Second))
	if !d.Held || d.Phase != Waiting {
		t.Errorf("a second too soon: %+v", d)
	}
	d, m = must(t, limits(), o, m, f.now.Add(10*time.Minute))
	if len(d.Drain) != 4 || d.Phase != CleanUp || d.Silent != "" || !strings.Contains(d.Reason, "connection refused") {
		t.Errorf("%+v, want all four drained", d)
	}
	if _, m = must(t, limits(), f.observe(), m, f.now.Add(11*time.Minute)); !m.SilentSince.IsZero() || !m.GoneSince.IsZero() {
		t.Error("it answers again and still counts as silent")
	}
}

func TestWorkersOfAManagerThatIsSilentInAnotherWayAreKept(t *testing.T) {
	for _, silence := range []Silence{"", Unreachable, Unusable, NotAsked} {
		f, m := busy(t)
		o := f.observe()
		o.Reading, o.Fault, o.Silence = nil, "of this and that", silence
		for at := f.now; at.Before(f.now.Add(48 * time.Hour)); at = at.Add(time.Hour) {
			var d Decision
			d, m = must(t, limits(), o, m, at)
			long := at.Sub(f.now) >= 10*time.Minute
			if len(d.Drain) > 0 || d.Add > 0 || !d.Held || d.Phase != Waiting || (d.Silent != "") != long {
				t.Fatalf("silence %q for %v: %+v, want it held, and told after ten minutes", silence, at.Sub(f.now), d)
			}
		}
	}
}

// TestAWorkerThatRunsAndNeverConnectsIsNoWorker: the network separates it from the manager.
func TestAWorkerThatRunsAndNeverConnectsIsNoWorker(t *testing.T) {
	pods := []Pod{
		{Name: "w-1", Flavor: "four", Worker: cores(4), Asked: begin.Add(-time.Hour), Scheduled: begin.Add(-time.Hour), Started: begin.Add(-time.Hour)},
		{Name: "w-2", Flavor: "four", Worker: cores(4), Asked: begin.Add(-time.Hour), Scheduled: begin.Add(-time.Hour), Started: begin.Add(-time.Hour)},
	}
	tasks := waiting(1, 8, "c", 1)
	for i := range 4 {
		tasks[i].State, tasks[i].Worker, tasks[i].Started, tasks[i].Now = answer.Running, "at/w-1", begin, begin.Add(time.Second)
	}
	one := connected("w-1", 4)
	one.TasksRunning, one.InUse.Cores = 4, exact(4)
	full, none := reading(tasks, one), reading(tasks[4:])
	var known Memory
	known.category("c").observe(time.Hour, 1)
	for _, tc := range []struct {
		name    string
		during  *Reading // for three initialisation times
		at      *Reading // afterwards
		added   int
		drained string
		named   bool
	}{
		{"tasks that it would hold get another worker", full, full, 1, "", true},
		{"it goes when nothing else is to be done", full, reading(tasks[:4], one), 0, "w-2", true},
		{"none of the pool connects: they stay, and none is made", none, none, 0, "", true},
		{"it connects at last", full, reading(tasks, one, connected("w-2", 4)), 0, "", false},
	} {
		m, now := known, begin
		c := limits(func(c *Config) { c.Min = 1 })
		for ; now.Before(begin.Add(patience * c.Prior)); now = now.Add(c.Cycle) {
			var d Decision
			d, m = must(t, c, Observation{Pods: pods, Reading: tc.during}, m, now)
			if d.Add > 0 || len(d.Drain) > 0 || len(d.Unconnected) > 0 {
				t.Fatalf("%s: after %v %+v, want patience", tc.name, now.Sub(begin), d)
			}
		}
		d, m := must(t, c, Observation{Pods: pods, Reading: tc.at}, m, now)
		if d.Add != tc.added || strings.Join(d.Drain, " ") != tc.drained || (len(d.Unconnected) > 0) != tc.named {
			t.Errorf("%s: %d added, %v drained, %v named (%s), want %d, %q and %v", tc.name, d.Add, d.Drain, d.Unconnected, d.Reason, tc.added, tc.drained, tc.named)
		}
		_, m = must(t, c, Observation{Pods: pods, Fault: "no whole answer", Silence: Unreachable}, m, now)
		if d, _ = must(t, c, Observation{Pods: pods, Reading: tc.during}, m, now.Add(time.Hour)); len(d.Unconnected) > 0 {
			t.Errorf("%s: %v are named at the first evaluation after a silence, in which none could connect", tc.name, d.Unconnected)
		}
	}
}

func TestOnlyWorkersThatStayAreNamedForNotConnecting(t *testing.T) {
	c := limits()
	m := Memory{pods: map[string]podMemory{"stays": {alone: begin}, "leaves": {alone: begin}, "connected": {}}}
	pods := []Pod{{Name: "stays"}, {Name: "leaves", Leaving: true}, {Name: "connected"}}
	if got := m.unconnected(&c, pods, begin.Add(24*time.Hour)); !slices.Equal(got, []string{"stays"}) {
		t.Errorf("%v are named, want the one that stays", got)
	}
}

// TestOnlyAManagerThatIsGoneWithoutABreakIsGone: any other kind of silence restarts the time.
func TestOnlyAManagerThatIsGoneWithoutABreakIsGone(t *testing.T) {
	f, m := busy(t)
	gone := f.observe()
	gone.Reading, gone.Fault, gone.Silence = nil, "connection refused", Gone
	slow := gone
	slow.Fault, slow.Silence = "no whole answer", Unreachable
	for i, step := range []struct {
		o       Observation
		after   time.Duration
		drained int
	}{
		{gone, 0, 0}, {gone, 9 * time.Minute, 0}, {slow, 10 * time.Minute, 0}, {gone, 11 * time.Minute, 0}, {gone, 20 * time.Minute, 0}, {gone, 21 * time.Minute, 4},
	} {
		var d Decision
		if d, m = must(t, limits(), step.o, m, f.now.Add(step.after)); len(d.Drain) != step.drained {
			t.Errorf("step %d, after %v: %v drained, want %d", i, step.after, d.Drain, step.drained)
		}
	}
}

// TestWorkersThatAreLeavingCountTowardsTheLimitAndTakeTasks: a manager that was gone returns and finds workers that
// were drained in the meantime, to which it still gives tasks.
func TestWorkersThatAreLeavingCountTowardsTheLimitAndTakeTasks(t *testing.T) {
	f, m := busy(t)
	for _, w := range f.machines {
		w.Leaving = true
	}
	f.submit("work", 40, 1, 10*time.Minute)
	c := limits(func(c *Config) { c.Max = 6 })
	d, _ := must(t, c, f.observe(), m, f.now.Add(time.Hour))
	if d.Add != 2 || !strings.Contains(d.Reason, "4 terminating workers count towards the limit") {
		t.Errorf("%d workers beside four that are leaving, want two: six are allowed (%s)", d.Add, d.Reason)
	}
	f, m = busy(t) // four cores are free, on a worker that is leaving like the others
	for _, w := range f.machines {
		w.Leaving = true
	}
	f.submit("work", 4, 1, 10*time.Minute)
	if d, _ = must(t, limits(), f.observe(), m, f.now.Add(time.Hour)); d.Add != 0 {
		t.Errorf("%d workers for tasks that workers there take before they leave (%s)", d.Add, d.Reason)
	}
}

func TestAnotherQueueIsLearnedAgain(t *testing.T) {
	f := newFarm(10 * time.Second)
	f.submit("work", 8, 1, 30*time.Second)
	_, m := play(t, f, limits(), Memory{}, time.Hour)
	if m.lookup("work") == nil || len(m.InitTimes) == 0 {
		t.Fatalf("nothing learned: %+v", m)
	}
	f.started = f.now
	d, m := must(t, limits(), f.observe(), m, f.now)
	if !d.QueueReplaced || len(m.Categories) > 0 || len(m.InitTimes) == 0 {
		t.Errorf("%+v, want categories forgotten and initialisation times kept (%+v)", d, m)
	}
	if d, _ = must(t, limits(), f.observe(), m, f.now); d.QueueReplaced {
		t.Error("another queue a second time")
	}
}

func TestTasksLargerThanAnyWorkerAreNamed(t *testing.T) {
	f := newFarm(10 * time.Second)
	f.submit("giant", 3, 16, time.Minute)
	f.submit("small", 1, 1, time.Minute)
	d, _ := must(t, limits(), f.observe(), Memory{}, f.now)
	if d.Add != 1 {
		t.Errorf("%d workers, want the one for the small task", d.Add)
	}
	want := []Unplaceable{{Category: "giant", Need: estimate.Resources{MilliCores: 16000}, Tasks: 3, Reason: "a task needs 16 cores, but the largest worker has 4"}}
	if diff := cmp.Diff(want, d.Unplaceable); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestZeroWorkersMayBeAllThereAre(t *testing.T) {
	f := newFarm(10 * time.Second)
	f.submit("work", 3, 1, time.Minute)
	d, _ := must(t, limits(func(c *Config) { c.Max = 0 }), f.observe(), Memory{}, f.now)
	if d.Add != 0 || d.TasksWaiting != 3 || d.ShortageMilliCores != 3000 {
		t.Errorf("%+v, want no worker and a shortage of three cores", d)
	}
}

func TestOnlyWorkersThatTheManagerCallsIdleAreDrained(t *testing.T) {
	f, m := busy(t)
	down := limits(func(c *Config) { c.Max = 1 }) // the pool must shrink by three
	now := f.now.Add(time.Hour)
	if d, _ := must(t, down, f.observe(), m, now); !slices.Equal(d.Drain, []string{"w-004"}) || !strings.Contains(d.Reason, "2 stay until the manager reports them as idle") {
		t.Fatalf("%v are drained (%s), want the idle one", d.Drain, d.Reason)
	}
	for _, tc := range []struct {
		name   string
		change func(o *Observation)
	}{
		{"its count of tasks is not zero", func(o *Observation) { o.Reading.Workers[3].TasksRunning = 1 }},
		{"cores of it are in use", func(o *Observation) { o.Reading.Workers[3].InUse.Cores = exact(1) }},
		{"a task is listed as there", func(o *Observation) { o.Reading.Tasks[0].Worker = "at/w-004" }},
		{"a result is still there", func(o *Observation) {
			o.Reading.Tasks = append(o.Reading.Tasks, answer.Task{ID: 99, State: answer.Other, Worker: "at/w-004"})
		}},
		{"it is not listed", func(o *Observation) { o.Reading.Workers = o.Reading.Workers[:3] }},
	} {
		o := f.observe()
		tc.change(&o)
		if d, _ := must(t, down, o, m, now); len(d.Drain) > 0 {
			t.Errorf("%s: %v is drained", tc.name, d.Drain)
		}
	}
}

func TestWorkersOfOthersAreCountedOnAndLeftUnchanged(t *testing.T) {
	f := newFarm(10 * time.Second)
	f.submit("work", 4, 1, time.Minute)
	o := f.observe()
	o.Reading.Workers = []answer.Worker{{Address: "10.0.0.9:5", Hostname: "desk", Total: answer.Resources{Cores: exact(8), MemoryMB: exact(1 << 20)}}}
	d, m := must(t, limits(), o, Memory{}, f.now)
	if d.Add != 0 || d.Foreign != 1 {
		t.Errorf("%+v, want nothing: four tasks fit the worker that is there", d)
	}
	o.Reading.Tasks, o.Reading.Queue.Waiting = nil, 0
	if d, _ = must(t, limits(), o, m, f.now.Add(time.Hour)); len(d.Drain) > 0 {
		t.Errorf("%v is drained, and is not ours", d.Drain)
	}
	if d, _ = must(t, limits(func(c *Config) { c.Min = 1 }), o, m, f.now); d.Add != 1 {
		t.Errorf("%d workers, want the one that there must be: the other is not ours", d.Add)
	}
}

func TestTheFlavorWithTheLeastCostPerTaskIsChosen(t *testing.T) {
	small := Flavor{Name: "small", Worker: cores(2), MicroDollarsPerHour: 100_000}
	large := Flavor{Name: "large", Worker: cores(16), MicroDollarsPerHour: 640_000}
	type queue = func(estimate.Resources) []estimate.Batch
	batch := func(n int, c int64) queue { // n tasks of c cores, or of a whole worker
		return func(worker estimate.Resources) []estimate.Batch {
			need := estimate.Resources{MilliCores: 1000 * c}
			if c == 0 {
				need = worker
			}
			return []estimate.Batch{{Category: "c", Need: need, Runtime: time.Minute, Count: n}}
		}
	}
	with := func(f Flavor, change func(*Flavor)) Flavor { change(&f); return f }
	for _, tc := range []struct {
		name    string
		flavors []Flavor
		waiting queue
		want    string
	}{
		{"one task takes the small one", []Flavor{large, small}, batch(1, 1), "small"},
		{"many fill the large one, which is cheaper by the core", []Flavor{small, large}, batch(160, 1), "large"},
		{"many that take a whole worker each take small ones", []Flavor{small, large}, batch(160, 0), "small"},
		{"one that only the large one holds", []Flavor{small, large}, batch(1, 3), "large"},
		{"the large one cannot be had", []Flavor{small, with(large, func(f *Flavor) { f.Trouble = "left unchanged" })}, batch(160, 1), "small"},
		{"a price is known of one", []Flavor{with(small, func(f *Flavor) { f.MicroDollarsPerHour = 0 }), large}, batch(1, 1), "large"},
		{"of none: the fewest cores", []Flavor{with(large, func(f *Flavor) { f.MicroDollarsPerHour = 0 }), with(small, func(f *Flavor) { f.MicroDollarsPerHour = 0 })}, batch(1, 1), "small"},
		{"a tie: the first", []Flavor{small, with(small, func(f *Flavor) { f.Name = "same" })}, batch(3, 1), "small"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, others := choose(tc.flavors, tc.waiting)
			if got == nil || got.Name != tc.want || len(others) != len(tc.flavors)-1 {
				t.Errorf("chose %+v, rejected %v; want %s", got, others, tc.want)
			}
		})
	}
	if got, others := choose([]Flavor{{Trouble: "no"}}, batch(1, 1)); got != nil || len(others) != 1 {
		t.Errorf("chose %+v of none that can be had", got)
	}
}

func TestCategoriesThatBecomeOthersAreLearnedAgain(t *testing.T) {
	var c Category
	c.observe(10*time.Second, 20)
	c.observe(60*time.Second, 2)
	if c.Relearned > 0 || len(c.Recent) != 22 {
		t.Errorf("two slow ones are no change: %+v", c)
	}
	c.observe(60*time.Second, 1)
	if c.Relearned != 1 || c.Mean() != time.Minute {
		t.Errorf("after three %v, want a minute", c.Mean())
	}
	c.observe(time.Second, 3)
	if c.Relearned != 2 || c.Mean() != time.Second || c.Ended != 26 {
		t.Errorf("after three fast ones %+v, want a second", c)
	}
	c.observe(time.Second, 100)
	if len(c.Recent) != MaxRecent {
		t.Errorf("%d are kept, want %d", len(c.Recent), MaxRecent)
	}
}

func TestRuntimesAreLearnedFromWhatHasGoneFromTheList(t *testing.T) {
	running := func(id int64, category string, since time.Duration) answer.Task {
		return answer.Task{ID: id, Category: category, State: answer.Running, Started: begin, Now: begin.Add(since)}
	}
	done := func(counts ...any) (list []answer.Category) {
		for i := 0; i < len(counts); i += 2 {
			list = append(list, answer.Category{Name: counts[i].(string), Done: int64(counts[i+1].(int))})
		}
		return list
	}
	before := &Reading{Tasks: []answer.Task{running(1, "a", 20*time.Second), running(2, "b", 8*time.Second), {ID: 3, Category: "a", State: answer.Waiting}}, Categories: done("a", 5, "b", 0)}
	for _, tc := range []struct {
		name  string
		after *Reading
		want  map[string][]time.Duration
	}{
		{"both ended, in the middle", &Reading{Categories: done("a", 6, "b", 1), Tasks: []answer.Task{{ID: 3, State: answer.Waiting}}},
			map[string][]time.Duration{"a": {25 * time.Second}, "b": {13 * time.Second}}},
		{"one ended, by the manager's total", &Reading{Categories: done("a", 6, "b", 0), Queue: answer.Queue{ExecutedGood: 21 * time.Second}},
			map[string][]time.Duration{"a": {21 * time.Second}}},
		{"a short one was never seen to run", &Reading{Categories: done("a", 7, "b", 1)},
			map[string][]time.Duration{"a": {25 * time.Second, 5 * time.Second}, "b": {13 * time.Second}}},
		{"one failed: no more are done", &Reading{Categories: done("a", 5, "b", 0)}, map[string][]time.Duration{}},
		{"one is back in the queue", &Reading{Categories: done("a", 5, "b", 0), Tasks: []answer.Task{{ID: 1, Category: "a", State: answer.Waiting}}}, map[string][]time.Duration{}},
		{"counts that went back", &Reading{Categories: done("a", 1, "b", 0)}, map[string][]time.Duration{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var m Memory
			m.learnRuntimes(before, begin)
			m.learnRuntimes(tc.after, begin.Add(10*time.Second))
			got := map[string][]time.Duration{}
			for _, c := range m.Categories {
				got[c.Name] = c.Recent
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// recorded reads a recorded answer of a real manager.
func recorded[T answer.Entry](t *testing.T, name string) []T {
	t.Helper()
	data := testfile.Read(t, "../workqueue/answer/testdata/"+name+".json")
	list, err := answer.Read[T](data)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestTheAnswersOfARealManagerBecomeAState(t *testing.T) {
	r := &Reading{
		Queue: recorded[answer.Queue](t, "queue_status")[0], Tasks: recorded[answer.Task](t, "task_status"),
		Workers: recorded[answer.Worker](t, "worker_status"), Categories: answer.WithoutWhole(recorded[answer.Category](t, "wable_status")),
	}
	pod := Pod{Name: r.Workers[0].Hostname, Worker: cores(4), Asked: begin}
	coming := Pod{Name: "w-2", Worker: cores(4), Asked: begin.Add(-20 * time.Second)}
	late := Pod{Name: "w-3", Worker: cores(4), Asked: begin.Add(-time.Hour), Leaving: true}
	c := limits()
	m := Memory{}
	m.category("split").observe(8*time.Second, 4)
	hosts, foreign := hostsOf([]Pod{pod, coming, late}, r)
	tr := (&translator{config: &c, memory: &m, flavor: &c.Flavors[0], now: begin}).translate(&Observation{Pods: []Pod{late, coming, pod}, Reading: r}, hosts, foreign)
	one := estimate.Resources{MilliCores: 1000, MemoryBytes: 100 << 20, DiskBytes: 10 << 20}
	run := func(task int) estimate.Running { // each has run for the time by its clock, of eight seconds
		ran := r.Tasks[task].Now.Sub(r.Tasks[task].Started)
		return estimate.Running{Category: "split", Need: one, Ran: ran, Left: 8*time.Second - ran, Count: 1}
	}
	want := estimate.State{
		Workers: []estimate.Worker{
			{Name: "w-3", Capacity: cores(4), ReadyIn: 60 * time.Second / 8, Draining: true},
			{Name: "w-2", Capacity: cores(4), ReadyIn: 40 * time.Second},
			{Name: pod.Name, Capacity: estimate.Resources{MilliCores: 3000, MemoryBytes: 1000 << 20, DiskBytes: 1000 << 20}, Running: []estimate.Running{run(0), run(1), run(2)}},
		},
		Waiting: []estimate.Batch{{Category: "split", Need: one, Runtime: 8 * time.Second, Count: 3}},
	}
	if diff := cmp.Diff(want, tr.state); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if tr.shortage != 3000 || tr.kinds.of("split").need != (need{one, Declared}) || len(tr.hosts) != 1 || tr.foreign != 0 {
		t.Errorf("shortage %d, needs %v, hosts %v, %d of others", tr.shortage, tr.kinds.of("split").need, tr.hosts, tr.foreign)
	}
}

func TestAWorkerIsFoundByItsHostOrItsAddress(t *testing.T) {
	pods := []Pod{{Name: "w-1", IP: "10.0.0.1"}, {Name: "w-2", IP: "10.0.0.2"}}
	worker := func(host, address string, since time.Duration) answer.Worker {
		return answer.Worker{Hostname: host, Address: address, Started: begin.Add(since)}
	}
	for _, tc := range []struct {
		name    string
		workers []answer.Worker
		want    map[string]string // pod: address
		foreign int
	}{
		{"host", []answer.Worker{worker("w-1", "9.9.9.9:1", 0)}, map[string]string{"w-1": "9.9.9.9:1"}, 0},
		{"host with its domain", []answer.Worker{worker("w-2.sub.ns.svc", "9.9.9.9:1", 0)}, map[string]string{"w-2": "9.9.9.9:1"}, 0},
		{"address", []answer.Worker{worker("localhost", "10.0.0.2:77", 0)}, map[string]string{"w-2": "10.0.0.2:77"}, 0},
		{"neither", []answer.Worker{worker("w-10", "10.0.0.3:1", 0)}, map[string]string{}, 1},
		{"two connections: the later counts", []answer.Worker{worker("w-1", "a:2", time.Second), worker("w-1", "a:3", 2*time.Second), worker("w-1", "a:1", 0)}, map[string]string{"w-1": "a:3"}, 2},
	} {
		hosts, foreign := hostsOf(pods, &Reading{Workers: tc.workers})
		got := map[string]string{}
		for pod, h := range hosts {
			got[pod] = h.worker.Address
		}
		if !cmp.Equal(got, tc.want) || len(foreign) != tc.foreign {
			t.Errorf("%s: %v and %d of others, want %v and %d", tc.name, got, len(foreign), tc.want, tc.foreign)
		}
	}
}

func TestNeedsAreWhatTheManagerSetsAside(t *testing.T) {
	whole := cores(4)
	soFar := answer.Resources{Cores: atMost(1.5), MemoryMB: atMost(100), DiskMB: atMost(7)}
	workers := []answer.Worker{connected("w-1", 4)}
	mb := func(cores, memory, disk int64) estimate.Resources {
		return estimate.Resources{MilliCores: cores, MemoryBytes: memory << 20, DiskBytes: disk << 20}
	}
	for _, tc := range []struct {
		name     string
		declared answer.Resources
		category answer.Category
		want     need
	}{
		{"declared and measured", answer.Resources{Cores: exact(2)}, answer.Category{Max: soFar}, need{mb(2000, 0, 0), Declared}},
		{"declared by the category", answer.Resources{}, answer.Category{Max: answer.Resources{Cores: exact(2), MemoryMB: atMost(100)}}, need{mb(2000, 0, 0), Declared}},
		{"declared by both", answer.Resources{Cores: exact(1)}, answer.Category{Max: answer.Resources{Cores: exact(2), MemoryMB: exact(100)}}, need{mb(1000, 100, 0), Declared}},
		{"no cores declared: it gets one", answer.Resources{MemoryMB: exact(10)}, answer.Category{}, need{mb(1000, 10, 0), Declared}},
		{"but not beside GPUs", answer.Resources{GPUs: exact(1)}, answer.Category{}, need{estimate.Resources{GPUs: 1}, Declared}},
		{"only measured, which the manager does not go by", answer.Resources{}, answer.Category{Max: soFar}, need{whole, WholeWorker}},
		{"measured, and it does", answer.Resources{}, answer.Category{Max: soFar, First: answer.Resources{Cores: exact(1), MemoryMB: exact(50)}}, need{mb(1000, 50, 7), Measured}},
		{"its first allocation is the largest worker", answer.Resources{}, answer.Category{Seen: soFar, First: workers[0].Total}, need{whole, WholeWorker}},
		{"declared, and it goes by what it measures", answer.Resources{Cores: exact(2)}, answer.Category{Max: soFar, First: answer.Resources{Cores: exact(1)}}, need{mb(2000, 100, 7), Declared}},
		{"more than anybody knows", answer.Resources{}, answer.Category{Max: answer.Resources{Cores: answer.Amount{Value: 4, Bound: answer.Exceeded}}}, need{whole, WholeWorker}},
		{"nothing", answer.Resources{}, answer.Category{}, need{whole, WholeWorker}},
		{"more than there can be", answer.Resources{MemoryMB: exact(1 << 50)}, answer.Category{}, need{estimate.Resources{MilliCores: 1000, MemoryBytes: 1 << 50}, Declared}},
	} {
		tc.category.Name = "c"
		r := &Reading{Categories: []answer.Category{tc.category}, Workers: workers}
		kinds := new(Memory).kindsOf(r)
		if got := kinds.of("c").needOf(&answer.Task{Category: "c", Declared: tc.declared}, whole); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestConfigurationsThatCannotBeAreRefusedByName(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"law":            func(c *Config) { c.Law = "other" },
		"min and max":    func(c *Config) { c.Min, c.Max = 3, 2 },
		"cycle":          func(c *Config) { c.Cycle = 0 },
		"prior":          func(c *Config) { c.Prior = -1 },
		"gone":           func(c *Config) { c.Gone = 0 },
		"flavors":        func(c *Config) { c.Flavors = nil },
		"must be unique": func(c *Config) { c.Flavors = append(c.Flavors, c.Flavors[0]) },
		`"four": has`:    func(c *Config) { c.Flavors[0].Worker.MilliCores = 0 },
	} {
		f := newFarm(time.Second)
		d, _, err := Decide(limits(change), f.observe(), Memory{}, f.now)
		if err == nil || !strings.Contains(err.Error(), want) || d.Add > 0 {
			t.Errorf("error %v, want one that names %q", err, want)
		}
	}
}

// faults are possible faults of a reading, one of the four answers at a time.
var faults = []func(o *Observation){
	func(o *Observation) { o.Reading, o.Fault, o.Silence = nil, "no whole answer", Unreachable },
	func(o *Observation) { o.Reading, o.Fault, o.Silence = nil, "garbled", Unusable },
	func(o *Observation) { o.Reading, o.Fault, o.Silence = nil, "connection refused", Gone },
	func(o *Observation) { o.Reading.Queue = answer.Queue{Started: o.Reading.Queue.Started} },
	func(o *Observation) { o.Reading.Queue.Started = o.Reading.Queue.Started.Add(time.Hour) },
	func(o *Observation) { o.Reading.Tasks = nil },
	func(o *Observation) { o.Reading.Tasks = o.Reading.Tasks[:len(o.Reading.Tasks)/2] },
	func(o *Observation) {
		for i := range o.Reading.Tasks { // all are listed as waiting
			t := &o.Reading.Tasks[i]
			t.State, t.Worker = answer.Waiting, ""
		}
	},
	func(o *Observation) { o.Reading.Workers = nil },
	func(o *Observation) { o.Reading.Workers = o.Reading.Workers[:len(o.Reading.Workers)/2] },
	func(o *Observation) {
		for i := range o.Reading.Workers { // no worker is reported to run anything
			w := &o.Reading.Workers[i]
			w.TasksRunning, w.InUse = 0, answer.Resources{}
		}
	},
	func(o *Observation) {
		for i := range o.Reading.Workers { // each worker is elsewhere
			o.Reading.Workers[i].Address += "0"
		}
	},
	func(o *Observation) { o.Reading.Categories = nil },
}

// TestWhateverHappensNoTaskIsLostAndNoPoolThrashes simulates random workflows to their end, with some wrong answers,
// and a period in which a manager gives no usable answer but still gives tasks to its workers.
func TestWhateverHappensNoTaskIsLostAndNoPoolThrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFarm(time.Duration(rapid.IntRange(5, 90).Draw(t, "init")) * time.Second)
		c := limits(func(c *Config) {
			c.Law = rapid.SampledFrom([]Law{Supercargo, HTA}).Draw(t, "law")
			c.Max = rapid.IntRange(1, 6).Draw(t, "max")
			c.Min = rapid.IntRange(0, c.Max).Draw(t, "min")
		})
		for range rapid.IntRange(1, 3).Draw(t, "categories") {
			f.submit(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "category"), rapid.IntRange(1, 12).Draw(t, "tasks"),
				rapid.Int64Range(0, 4).Draw(t, "cores"), time.Duration(rapid.IntRange(1, 200).Draw(t, "takes"))*time.Second)
		}
		f.patience = time.Duration(rapid.IntRange(0, 60).Draw(t, "patience")) * time.Second
		silence := rapid.SampledFrom([]Silence{Unreachable, Unusable, NotAsked}).Draw(t, "silence")
		quiet := begin.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "silent after")) * time.Second)
		loud := quiet.Add(time.Duration(rapid.IntRange(0, 1800).Draw(t, "silent for")) * time.Second)
		var m Memory
		var resized time.Time
		for f.now.Before(begin.Add(4*time.Hour)) && (f.left() > 0 || len(f.machines) > c.Min) {
			f.step(c.Cycle)
			o := f.observe()
			if rapid.IntRange(0, 9).Draw(t, "fault") == 0 {
				rapid.SampledFrom(faults).Draw(t, "kind")(&o)
			}
			if !f.now.Before(quiet) && f.now.Before(loud) {
				o.Reading, o.Fault, o.Silence = nil, "nothing that can be used", silence
			}
			before := m
			d, after, err := Decide(c, o, m, f.now)
			if err != nil {
				t.Fatal(err)
			}
			if !cmp.Equal(before.Categories, m.Categories) || !cmp.Equal(before.InitTimes, m.InitTimes) {
				t.Fatal("the memory given was changed")
			}
			m = after
			if d.Add > 0 || len(d.Drain) > 0 {
				if gap := f.now.Sub(resized); !resized.IsZero() && gap < d.InitTime {
					t.Fatalf("resized %v after the last time, an initialisation time is %v", gap, d.InitTime)
				}
				resized = f.now
			}
			f.do(d, c)
			if len(f.machines) > c.Max {
				t.Fatalf("%d workers, at most %d may be", len(f.machines), c.Max)
			}
		}
		if len(f.lost) > 0 {
			t.Fatalf("%v were drained while they ran tasks", f.lost)
		}
		if f.left() > 0 || len(f.machines) > c.Min {
			t.Fatalf("%d tasks are left, %d workers there", f.left(), len(f.machines))
		}
	})
}

// FuzzAnswers decides on arbitrary answers.
func FuzzAnswers(f *testing.F) {
	for _, answers := range [][4]string{
		{`[{"tasks_waiting":2,"starttime":1}]`, `[{"taskid":1,"category":"c","state":"WAITING"},{"taskid":2,"state":"running","address_port":"a:1","cores":1}]`,
			`[{"address_port":"a:1","hostname":"w-1","cores_total":4}]`, `[{"category":"c","max_cores":"~2"}]`},
		{`[{"workers_connected":9}]`, `[]`, `[{"address_port":"1.2.3.4:1","hostname":"","cores_total":"1e9","memory_total":"1e15"}]`, `[{"category":"","tasks_done":9007199254740992}]`},
	} {
		f.Add(answers[0], answers[1], answers[2], answers[3])
	}
	c := limits(func(c *Config) { c.Max = 3 })
	f.Fuzz(func(t *testing.T, queue, tasks, workers, categories string) {
		queues, err := answer.Read[answer.Queue]([]byte(queue))
		if err != nil || len(queues) != 1 {
			return
		}
		r := &Reading{Queue: queues[0]}
		r.Tasks, _ = answer.Read[answer.Task]([]byte(tasks))
		r.Workers, _ = answer.Read[answer.Worker]([]byte(workers))
		r.Categories, _ = answer.Read[answer.Category]([]byte(categories))
		o := Observation{Reading: r, Pods: []Pod{{Name: "w-1", IP: "1.2.3.4", Worker: cores(4), Asked: begin}, {Name: "w-2", Worker: cores(4), Leaving: true}}}
		var m Memory
		for i := range 3 {
			var d Decision
			d, m = must(t, c, o, m, begin.Add(time.Duration(i)*time.Hour))
			if d.Add < 0 || d.Add > c.Max || slices.Contains(d.Drain, "w-2") {
				t.Fatalf("%+v", d)
			}
		}
	})
}
