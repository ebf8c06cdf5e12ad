package workerdecide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// waiting returns n waiting tasks of a category.
func waiting(from int64, n int, category string, cores float64) (tasks []answer.Task) {
	for i := range int64(n) {
		t := answer.Task{ID: from + i, Category: category, State: answer.Waiting}
		if cores > 0 {
			t.Declared.Cores = exact(cores)
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// reading is a reading with these waiting tasks and workers.
func reading(tasks []answer.Task, workers ...answer.Worker) *Reading {
	return &Reading{Queue: answer.Queue{Waiting: int64(len(tasks)), Workers: int64(len(workers))}, Tasks: tasks, Workers: workers}
}

// connected is a connected worker.
func connected(host string, cores float64) answer.Worker {
	return answer.Worker{Address: "at/" + host, Hostname: host, Total: answer.Resources{Cores: exact(cores), MemoryMB: exact(1 << 20), DiskMB: exact(1 << 20)}}
}

func TestWorkersThatWereSentAwayAreNotSentAgain(t *testing.T) {
	o := Observation{Pods: []Pod{{Name: "w-1", Worker: cores(4), Asked: begin}}, Fault: "down", Silence: Gone}
	_, m := must(t, limits(), o, Memory{}, begin)
	d, m := must(t, limits(), o, m, begin.Add(10*time.Minute))
	if !slices.Equal(d.Drain, []string{"w-1"}) {
		t.Fatalf("%v are sent away, want the worker", d.Drain)
	}
	o.Pods[0].Leaving = true
	d, m = must(t, limits(), o, m, begin.Add(11*time.Minute))
	if len(d.Drain) > 0 || d.Leaving != 1 {
		t.Errorf("%v are sent away again", d.Drain)
	}
	// The manager returns a moment later: draining the workers was a resize like any other.
	o = Observation{Reading: reading(waiting(1, 3, "c", 1))}
	if d, m = must(t, limits(), o, m, begin.Add(10*time.Minute+30*time.Second)); d.Add > 0 {
		t.Errorf("%d workers half an initialisation time after those before were sent away", d.Add)
	}
	if d, _ = must(t, limits(), o, m, begin.Add(11*time.Minute)); d.Add != 1 {
		t.Errorf("%d workers an initialisation time later, want one", d.Add)
	}
}

func TestNothingIsLearnedAcrossTwoQueues(t *testing.T) {
	r := reading(nil)
	r.Queue.Started, r.Queue.ExecutedGood = begin, time.Hour
	r.Categories = []answer.Category{{Name: "c", Done: 5}}
	_, m := must(t, limits(), Observation{Reading: r}, Memory{}, begin)
	r = reading(nil)
	r.Queue.Started, r.Queue.ExecutedGood = begin.Add(time.Minute), 2*time.Hour
	r.Categories = []answer.Category{{Name: "c", Done: 6}}
	d, m := must(t, limits(), Observation{Reading: r}, m, begin.Add(time.Minute))
	if c := m.lookup("c"); !d.QueueReplaced || c != nil && len(c.Recent) > 0 {
		t.Errorf("learned %+v from what two queues have done", c)
	}
}

func TestWorkersStayForAQueueThatHasJustBegun(t *testing.T) {
	pods := []Pod{{Name: "w-1", Worker: cores(4), Asked: begin, Started: begin}}
	observe := func(started time.Time) Observation {
		r := reading(nil, connected("w-1", 4))
		r.Queue.Started = started
		return Observation{Pods: pods, Reading: r}
	}
	_, m := must(t, limits(), observe(begin), Memory{}, begin)
	later := begin.Add(time.Hour)
	if d, _ := must(t, limits(), observe(begin), m, later); len(d.Drain) != 1 {
		t.Fatalf("%v of the queue before are drained, want the idle one: what follows shows nothing", d.Drain)
	}
	d, m := must(t, limits(), observe(later), m, later)
	if len(d.Drain) > 0 {
		t.Error("a worker goes as soon as another queue begins, by how long it was idle in the one before")
	}
	if d, _ = must(t, limits(), observe(later), m, later.Add(30*time.Second)); len(d.Drain) != 1 {
		t.Error("it stays although this queue had nothing for it for half an initialisation time")
	}
}

// stateOf converts an observation.
func stateOf(c Config, m Memory, o Observation, now time.Time) estimate.State {
	hosts, foreign := hostsOf(o.Pods, o.Reading)
	return (&translator{config: &c, memory: &m, flavor: &c.Flavors[0], now: now}).translate(&o, hosts, foreign).state
}

func TestAWorkerBetweenTwoSessionsComesBackSoon(t *testing.T) {
	o := Observation{Pods: []Pod{{Name: "w-1", Worker: cores(4), Asked: begin, Started: begin}}, Reading: reading(nil, connected("w-1", 4))}
	_, m := must(t, limits(), o, Memory{}, begin)
	o.Reading = reading(nil)
	if got := stateOf(limits(), m, o, begin.Add(time.Second)).Workers[0].ReadyIn; got != reconnect {
		t.Errorf("it is expected in %v, want %v: it need not be made", got, reconnect)
	}
}

func TestTheQueueIsInTheOrderOfSubmission(t *testing.T) {
	tasks := slices.Concat(waiting(20, 2, "late", 2), waiting(1, 1, "early", 1))
	got := stateOf(limits(), Memory{}, Observation{Reading: reading(tasks)}, begin).Waiting
	if len(got) != 2 || got[0].Category != "early" || got[1].Count != 2 {
		t.Errorf("the queue is %+v, want the task with the lowest number first", got)
	}
}

func TestATaskThatTakesAWholeWorkerFitsEach(t *testing.T) {
	o := Observation{Reading: reading(waiting(1, 2, "c", 0), connected("elsewhere", 2))}
	if got := stateOf(limits(), Memory{}, o, begin).Waiting[0].Need.MilliCores; got != 2000 {
		t.Errorf("it takes %d thousandths of a core, want the 2000 that the smallest worker has", got)
	}
	d, m := must(t, limits(), o, Memory{}, begin)
	if len(d.Unplaceable) > 0 || m.lookup("c").Source != WholeWorker {
		t.Errorf("%+v is called too large, of source %s", d.Unplaceable, m.lookup("c").Source)
	}
}

func TestATaskThatIsOnlyMeasuredStillGetsAWholeWorker(t *testing.T) {
	r := reading(waiting(1, 8, "c", 0), connected("elsewhere", 4))
	r.Tasks[0].State, r.Tasks[0].Worker = answer.Running, "at/elsewhere"
	var m Memory
	m.category("c").observe(time.Hour, 1)
	for _, tc := range []struct {
		name  string
		first answer.Resources
		want  int
	}{
		{"the manager does not go by what it measures", answer.Resources{}, 7},
		{"it does", answer.Resources{Cores: exact(1), MemoryMB: exact(100)}, 1}, // three more run elsewhere
	} {
		r.Categories = []answer.Category{used("c", 1, 100, 1)}
		r.Categories[0].First = tc.first
		if d, _ := must(t, limits(), Observation{Reading: r}, m, begin); d.Add != tc.want {
			t.Errorf("%s: %d workers for seven tasks that wait, want %d (%s)", tc.name, d.Add, tc.want, d.Reason)
		}
	}
}

func TestTasksThatDeclareNoCoresGetOneEach(t *testing.T) {
	tasks := waiting(1, 8, "c", 0)
	for i := range tasks {
		tasks[i].Declared.MemoryMB = exact(10)
	}
	var m Memory
	m.category("c").observe(time.Hour, 1)
	if d, _ := must(t, limits(), Observation{Reading: reading(tasks)}, m, begin); d.Add != 2 || d.ShortageMilliCores != 8000 {
		t.Errorf("%d workers of four cores for a shortage of %d thousandths, want two for eight cores", d.Add, d.ShortageMilliCores)
	}
}

func TestARunningTaskOccupiesItsShareOfWhatItDoesNotDeclare(t *testing.T) {
	whole := answer.Resources{Cores: exact(4), MemoryMB: exact(4000), DiskMB: exact(4000)}
	for _, tc := range []struct {
		name     string
		declared answer.Resources
		want     estimate.Resources // as counted by a worker of version 9.9
	}{
		{"a core", answer.Resources{Cores: exact(1)}, estimate.Resources{MilliCores: 1000, MemoryBytes: 1000 << 20, DiskBytes: 1000 << 20}},
		{"a core and memory", answer.Resources{Cores: exact(1), MemoryMB: exact(3000)}, estimate.Resources{MilliCores: 1000, MemoryBytes: 3000 << 20, DiskBytes: 3000 << 20}},
		{"little memory", answer.Resources{MemoryMB: exact(100)}, estimate.Resources{MilliCores: 1000, MemoryBytes: 100 << 20, DiskBytes: 100 << 20}},
		{"much memory", answer.Resources{MemoryMB: exact(3001)}, estimate.Resources{MilliCores: 3000, MemoryBytes: 3001 << 20, DiskBytes: 3001 << 20}},
	} {
		r := reading([]answer.Task{{ID: 1, Category: "c", State: answer.Running, Worker: "at/w-1", Declared: tc.declared}}, connected("w-1", 4))
		r.Workers[0].Total = whole
		got := stateOf(limits(), Memory{}, Observation{Pods: []Pod{{Name: "w-1", Worker: cores(4), Asked: begin}}, Reading: r}, begin).Workers[0].Running
		if len(got) != 1 || got[0].Need != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestInTheWarmUpEachCategoryThatDeclaresNothingIsMeasuredAlone(t *testing.T) {
	f := newFarm(10 * time.Second)
	f.submit("a", 9, 0, time.Minute)
	f.submit("b", 9, 0, time.Minute)
	c := limits()
	d, m := must(t, c, f.observe(), Memory{}, f.now)
	if d.Phase != WarmUp || d.Add != 2 {
		t.Fatalf("%s: %d workers, want one for each category (%s)", d.Phase, d.Add, d.Reason)
	}
	f.do(d, c)
	f.step(11 * time.Second)
	if d, _ = must(t, c, f.observe(), m, f.now); d.TasksRunning != 2 {
		t.Errorf("%d tasks run on two workers of four cores, want one on each", d.TasksRunning)
	}
}

func TestTasksThatEndedBeforeACategoryWasListedTeachNothing(t *testing.T) {
	var m Memory
	m.learnRuntimes(&Reading{}, begin)
	m.learnRuntimes(&Reading{Categories: []answer.Category{{Name: "c", Done: 500}}, Queue: answer.Queue{ExecutedGood: time.Second}}, begin.Add(10*time.Second))
	if c := m.lookup("c"); c != nil {
		t.Errorf("learned %+v, and nobody knows when those tasks ended", c)
	}
}

func TestTasksThatEndBetweenTwoAnswersOfAManagerAreNotCountedWithoutTheirTime(t *testing.T) {
	reading := func(counted, later int64) *Reading {
		return &Reading{
			Queue:      answer.Queue{ExecutedGood: time.Duration(counted) * 6 * time.Second, Categories: []answer.Category{{Name: "c", Done: counted}}},
			Categories: []answer.Category{{Name: "c", Done: later}},
		}
	}
	var m Memory
	m.learnRuntimes(reading(16, 16), begin)
	m.learnRuntimes(reading(17, 24), begin.Add(time.Minute))
	m.learnRuntimes(reading(24, 24), begin.Add(2*time.Minute))
	c := m.lookup("c")
	if c == nil || c.Ended != 8 || c.Mean() != 6*time.Second {
		t.Errorf("learned %+v, want 8 tasks of 6 s", c)
	}
}

func TestWarmUpEndsWhenTheFirstTaskHasShownThatItIsLong(t *testing.T) {
	f := newFarm(10 * time.Second)
	f.submit("long", 40, 1, time.Hour)
	c := limits(func(c *Config) { c.Prior = 40 * time.Second }) // an eighth of it is 5 s
	d, m := must(t, c, f.observe(), Memory{}, f.now)
	f.do(d, c)
	f.step(50 * time.Second) // a new resize is allowed, and no task runs yet
	f.step(time.Second)
	d, m = must(t, c, f.observe(), m, f.now)
	if d.Add > 0 {
		t.Fatalf("%d workers for a category of which the first tasks have just begun", d.Add)
	}
	f.step(5 * time.Second)
	if d, _ = must(t, c, f.observe(), m, f.now); d.Add != 9 {
		t.Errorf("%d workers (%s), want nine for the 36 tasks that have no place", d.Add, d.Reason)
	}
}

func TestTasksAreTooLargeOnlyIfNoWorkerCouldEverHoldThem(t *testing.T) {
	eight := Flavor{Name: "eight", Worker: cores(8), Trouble: "left unchanged"}
	for _, tc := range []struct {
		name    string
		flavors []Flavor
		workers []answer.Worker
		want    string // empty: not too large
	}{
		{"no flavor holds it", nil, nil, "needs 8 cores, but the largest worker has 4"},
		{"one does that cannot be had now", []Flavor{eight}, nil, ""},
		{"a worker of others does", nil, []answer.Worker{connected("desk", 8)}, ""},
	} {
		c := limits(func(c *Config) { c.Flavors = append(c.Flavors, tc.flavors...) })
		d, _ := must(t, c, Observation{Reading: reading(waiting(1, 2, "giant", 8), tc.workers...)}, Memory{}, begin)
		if got := fmt.Sprint(d.Unplaceable); tc.want == "" && len(d.Unplaceable) > 0 || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %s, want %q", tc.name, got, tc.want)
		}
	}
}

func TestAWorkerThatHasLessThanItsFlavorPromisesIsTrusted(t *testing.T) {
	o := Observation{Pods: []Pod{{Name: "w-1", Flavor: "four", Worker: cores(4), Asked: begin, Started: begin}}, Reading: reading(waiting(1, 11, "c", 1), connected("w-1", 3))}
	var m Memory
	m.category("c").observe(time.Hour, 1)
	if d, _ := must(t, limits(), o, m, begin); d.Add != 3 {
		t.Errorf("%d workers for the eight tasks that have no place, want three: one has three cores, not four (%s)", d.Add, d.Reason)
	}
}

func TestWorkersOfOthersDoNotCountAgainstTheLimits(t *testing.T) {
	o := Observation{Reading: reading(waiting(1, 100, "c", 4), connected("desk", 4))}
	var m Memory
	m.category("c").observe(time.Hour, 1)
	if d, _ := must(t, limits(func(c *Config) { c.Max = 2 }), o, m, begin); d.Add != 2 {
		t.Errorf("%d workers, want two: the one that is there is not of this pool", d.Add)
	}
}

func TestTasksThatChangeInMidRunGetOtherWorkers(t *testing.T) {
	f := newFarm(20 * time.Second)
	f.submit("c", 40, 1, 10*time.Second)
	c := limits()
	var m Memory
	run := func(until func() bool) (relearned bool, added int) {
		t.Helper()
		for end := f.now.Add(time.Hour); !until(); f.step(c.Cycle) {
			if f.now.After(end) {
				t.Fatalf("after an hour %d tasks are left", f.left())
			}
			var d Decision
			d, m = must(t, c, f.observe(), m, f.now)
			relearned = relearned || slices.Contains(d.Relearned, "c")
			added += d.Add
			f.do(d, c)
		}
		return relearned, added
	}
	run(func() bool { return f.left() == 0 })
	if got := m.lookup("c"); got.Mean() > 15*time.Second || got.Need.MilliCores != 1000 {
		t.Fatalf("learned %+v, want about 10 s on a core", got)
	}
	f.submit("c", 24, 4, 2*time.Minute) // the same category, a whole worker each, twelve times as long
	relearned, added := run(func() bool { return f.left() == 0 })
	if got := m.lookup("c"); !relearned || got.Mean() < 110*time.Second || got.Need.MilliCores != 4000 {
		t.Errorf("learned %+v (relearned %v), want two minutes on four cores", got, relearned)
	}
	if added < 4 || len(f.lost) > 0 {
		t.Errorf("%d workers added and %v drained busy, want some more and none", added, f.lost)
	}
}

func TestTheInitialisationTimeIsAPriorUntilOneWasSeen(t *testing.T) {
	c := limits(func(c *Config) { c.Prior = 7 * time.Minute })
	d, m := must(t, c, Observation{Reading: reading(waiting(1, 1, "c", 1))}, Memory{}, begin)
	if d.InitTime != 7*time.Minute || d.Add != 1 {
		t.Fatalf("%+v, want one worker, expected in seven minutes", d)
	}
	pods := []Pod{{Name: "w-1", Flavor: "four", Worker: cores(4), Asked: begin}}
	if d, _ = must(t, c, Observation{Pods: pods, Reading: reading(waiting(1, 100, "c", 1))}, m, begin.Add(7*time.Minute-time.Second)); d.Add > 0 {
		t.Errorf("%d more workers within the time that the first may take", d.Add)
	}
}

func TestTasksThatTakeAWholeWorkerGetTheFlavorThatCostsLeast(t *testing.T) {
	c := limits(func(c *Config) {
		c.Flavors = []Flavor{{Name: "small", Worker: cores(2), MicroDollarsPerHour: 100_000}, {Name: "large", Worker: cores(16), MicroDollarsPerHour: 640_000}}
		for i := range c.Flavors {
			c.Flavors[i].Worker.DiskBytes = c.Flavors[i].Worker.MemoryBytes
		}
	})
	var m Memory
	m.category("c").observe(time.Hour, 1)
	o := Observation{Reading: reading(waiting(1, 8, "c", 0))}
	if d, _ := must(t, c, o, m, begin); d.Flavor != "small" || d.Add != 8 {
		t.Errorf("%d workers of %s, want eight small ones: a large one would run one task too (%v)", d.Add, d.Flavor, d.Rejected)
	}
	c.Flavors[0].Trouble = "left unchanged"
	if d, _ := must(t, c, o, m, begin); d.Flavor != "large" || d.Add != 8 {
		t.Errorf("%d workers of %s, want eight large ones: each runs one task", d.Add, d.Flavor)
	}
}

func TestWithoutAnyFlavorWorkersMayOnlyGo(t *testing.T) {
	none := limits(func(c *Config) { c.Flavors[0].Trouble = "its machines did not come" })
	pods := []Pod{{Name: "w-1", Flavor: "four", Worker: cores(4), Asked: begin, Started: begin}}
	var known Memory
	known.category("c").observe(time.Hour, 1)
	d, _ := must(t, none, Observation{Pods: pods, Reading: reading(waiting(1, 100, "c", 1), connected("w-1", 4))}, known, begin)
	if d.Add > 0 || !d.Held || !strings.Contains(d.Reason, "four: its machines did not come") {
		t.Errorf("%+v, want to hold and say why", d)
	}
	o := Observation{Pods: pods, Reading: reading(nil, connected("w-1", 4))}
	_, m := must(t, none, o, Memory{}, begin)
	if d, _ = must(t, none, o, m, begin.Add(time.Hour)); len(d.Drain) != 1 {
		t.Errorf("%+v, want the idle worker gone", d)
	}
}

func TestTheLawIsTheOneThatWasAskedFor(t *testing.T) {
	o := Observation{Pods: []Pod{{Name: "w-1", Worker: cores(4), Asked: begin, Started: begin}}, Reading: reading(nil, connected("w-1", 4))}
	for law, want := range map[Law]int{Supercargo: 0, HTA: 1} { // HTA does not wait for idle workers
		if d, _ := must(t, limits(func(c *Config) { c.Law = law }), o, Memory{}, begin); len(d.Drain) != want {
			t.Errorf("%s drains %v, want %d", law, d.Drain, want)
		}
	}
}

func TestAManagerIsAskedEachCycleWhateverTheLawWaitsFor(t *testing.T) {
	d, _ := must(t, limits(), Observation{Reading: reading(waiting(1, 1, "c", 1))}, Memory{}, begin)
	if d.Add != 1 || d.Recheck != limits().Cycle {
		t.Errorf("%d workers and an evaluation in %v, want one and %v: what ends in between is learned from", d.Add, d.Recheck, limits().Cycle)
	}
}

func TestATaskThatWaitsIsOnNoWorker(t *testing.T) {
	tasks := waiting(1, 1, "c", 1)
	tasks[0].Worker = "at/w-1" // its worker before it was lost
	got := stateOf(limits(), Memory{}, Observation{Pods: []Pod{{Name: "w-1", Worker: cores(4), Asked: begin}}, Reading: reading(tasks, connected("w-1", 4))}, begin)
	if len(got.Workers[0].Running) > 0 || len(got.Waiting) != 1 {
		t.Errorf("%+v, want the task in the queue alone", got)
	}
}

func TestATaskThatWaitedAndIsGoneHasNotEnded(t *testing.T) {
	var m Memory // tasks without a category
	m.learnRuntimes(&Reading{Categories: []answer.Category{{Done: 1}}, Tasks: []answer.Task{
		{ID: 1, State: answer.Running, Started: begin, Now: begin.Add(20 * time.Second)}, {ID: 2, State: answer.Waiting},
	}}, begin)
	m.learnRuntimes(&Reading{Categories: []answer.Category{{Done: 2}}}, begin.Add(10*time.Second)) // 1 has ended, 2 was cancelled
	if c := m.lookup(""); c == nil || !slices.Equal(c.Recent, []time.Duration{25 * time.Second}) {
		t.Errorf("learned %+v, want the runtime of the one that ran", c)
	}
}
