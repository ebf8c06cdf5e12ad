package answer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"supercargo.dev/supercargo/test/kit/testfile"
)

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	data := testfile.Read(t, "testdata/"+name+".json")
	return data
}

func exactly(v float64) Amount { return Amount{v, Exact} }

func TestAnswersOfARealManagerAreUnderstood(t *testing.T) {
	queues, err := Read[Queue](recorded(t, "queue_status"))
	if err != nil || len(queues) != 1 {
		t.Fatalf("%v, %v", queues, err)
	}
	split := Category{Name: "split", Waiting: 3, OnWorkers: 3, Running: 3, WorkersAble: 1}
	want := Queue{
		Version: "8.0.0 DEVELOPMENT", Owner: "root", Type: "wq_master", Port: 1025, Started: time.Unix(1795334232, 0).UTC(),
		Waiting: 3, OnWorkers: 3, Running: 3, Submitted: 6, Dispatched: 3,
		Workers: 1, WorkersBusy: 1, WorkersJoined: 1,
		Total:      Resources{Cores: exactly(3), GPUs: exactly(0), MemoryMB: exactly(1000), DiskMB: exactly(1000)},
		InUse:      Resources{Cores: exactly(3), GPUs: exactly(0), MemoryMB: exactly(300), DiskMB: exactly(30)},
		Categories: []Category{split}, // without the whole queue
		Unsaid:     []string{"protocol"},
	}
	if diff := cmp.Diff(want, queues[0]); diff != "" {
		t.Errorf("queue: want -, got +:\n%s", diff)
	}

	tasks, err := Read[Task](recorded(t, "task_status"))
	if err != nil || len(tasks) != 6 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	declared := Resources{Cores: exactly(1), MemoryMB: exactly(100), DiskMB: exactly(10)}
	if diff := cmp.Diff(Task{
		ID: 6, Category: "split", State: Running, Declared: declared, Worker: "127.0.0.1:45644",
		Submitted: time.UnixMicro(1795334232615725).UTC(), Started: time.UnixMicro(1795334320877194).UTC(), Now: time.UnixMicro(1795334326783535).UTC(),
	}, tasks[0]); diff != "" {
		t.Errorf("running task: want -, got +:\n%s", diff)
	}
	if diff := cmp.Diff(Task{ID: 1, Category: "split", State: Waiting, Declared: declared}, tasks[5]); diff != "" {
		t.Errorf("waiting task: want -, got +:\n%s", diff)
	}

	workers, err := Read[Worker](recorded(t, "worker_status"))
	if err != nil || len(workers) != 1 || workers[0].Address != "127.0.0.1:45644" || workers[0].Total.Cores != exactly(3) || workers[0].TasksRunning != 3 {
		t.Errorf("workers are %+v, %v", workers, err)
	}
}

func TestVersionsMayDiffer(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		want         Queue
	}{
		{"without protocol", `[{"type":"wq_manager"}]`, Queue{Type: "wq_manager"}},
		{"with protocol", `[{"protocol":11,"ssl":true,"new_field":{"a":[1]}}]`, Queue{Protocol: 11}},
		{"numbers as text", `[{"tasks_waiting":"17","cores_total":"2.5"}]`, Queue{Waiting: 17, Total: Resources{Cores: exactly(2.5)}}},
		{"null", `[{"tasks_waiting":null,"project":null}]`, Queue{}},
		{"measured needs", `[{"categories":[{"category":"c","max_cores":"~4","max_memory":">512","max_disk":"na"}]}]`,
			Queue{Categories: []Category{{Name: "c", Max: Resources{Cores: Amount{4, SoFar}, MemoryMB: Amount{512, Exceeded}}}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Read[Queue]([]byte(tc.answer))
			if err != nil || len(got) != 1 {
				t.Fatalf("%v, %v", got, err)
			}
			if diff := cmp.Diff(tc.want, got[0], cmpopts.IgnoreFields(Queue{}, "Unsaid"), cmpopts.IgnoreFields(Category{}, "Unsaid")); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

func TestWhatARealMonitorMeasuredIsUnderstood(t *testing.T) {
	atMost := func(v float64) Amount { return Amount{v, SoFar} }
	for name, want := range map[string]Category{
		"declared":  {Done: 4, Max: Resources{Cores: atMost(0.038), MemoryMB: atMost(100), DiskMB: atMost(1)}},
		"category":  {Done: 4, Max: Resources{Cores: exactly(2), MemoryMB: atMost(3), DiskMB: atMost(1)}},
		"automatic": {Done: 66, Max: Resources{Cores: atMost(0.022), MemoryMB: atMost(3), DiskMB: atMost(1)}, First: Resources{Cores: exactly(0), MemoryMB: exactly(3), DiskMB: exactly(1)}},
	} {
		list, err := Read[Category](recorded(t, "monitored_"+name))
		if list = WithoutWhole(list); err != nil || len(list) != 1 {
			t.Fatalf("%s: %v, %v", name, list, err)
		}
		if got := list[0]; got.Name != "cat" || got.Done != want.Done || got.Max != want.Max || got.First != want.First {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestWhatTasksUsedIsReadAsEachVersionSaysIt(t *testing.T) {
	atMost := func(v float64) Amount { return Amount{v, SoFar} }
	for _, tc := range []struct {
		name, answer    string
		measured, first Resources
	}{
		{"up to 9.9", `[{"category":"c","max_cores":"~0.250","max_memory":"~12","max_disk":"~1"}]`, Resources{Cores: atMost(0.25), MemoryMB: atMost(12), DiskMB: atMost(1)}, Resources{}},
		{"up to 9.9, going by it", `[{"category":"c","max_cores":"~1.000","max_memory":"~12","first_cores":1,"first_memory":50,"first_allocation_count":3}]`,
			Resources{Cores: atMost(1), MemoryMB: atMost(12)}, Resources{Cores: exactly(1), MemoryMB: exactly(50)}},
		{"declared by the category, or exceeded", `[{"category":"c","max_cores":"2.000","max_memory":">11"}]`, Resources{}, Resources{}},
		{"later", `[{"category":"c","max_cores":"2.000","max_memory":">11","max_seen":{"cores":0.25,"memory":12,"disk":1,"gpus":-1},"first_allocation":{"cores":2.0,"memory":-1,"disk":-1,"gpus":0}}]`,
			Resources{Cores: atMost(0.25), MemoryMB: atMost(12), DiskMB: atMost(1)}, Resources{Cores: exactly(2), GPUs: exactly(0)}},
		{"later, without a monitor", `[{"category":"c","max_seen":null,"first_allocation":{}}]`, Resources{}, Resources{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Read[Category]([]byte(tc.answer))
			if err != nil || len(got) != 1 {
				t.Fatalf("%v, %v", got, err)
			}
			if diff := cmp.Diff([]Resources{tc.measured, tc.first}, []Resources{got[0].Measured(), got[0].First}); diff != "" {
				t.Errorf("measured and first: want -, got +:\n%s", diff)
			}
		})
	}
}

func TestWhatIsNotSaidIsNoZero(t *testing.T) {
	got, err := Read[Queue]([]byte(`[{"port":1,"protocol":1,"tasks_waiting":0,"tasks_on_workers":"0","tasks_running":null,"tasks_with_results":"","tasks_submitted":0,` +
		`"tasks_dispatched":0,"tasks_done":0,"tasks_failed":0,"workers_connected":0,"workers_busy":0,"workers_idle":0,"workers_joined":0,"workers_removed":0,` +
		`"categories":[{"category":"c","tasks_waiting":0,"tasks_on_workers":0,"tasks_done":0,"tasks_failed":0,"workers_able":0}]}]`))
	if err != nil || len(got) != 1 || len(got[0].Categories) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"tasks_running", "tasks_with_results", "workers_lost"}, got[0].Unsaid); diff != "" {
		t.Errorf("of the queue: want -, got +:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tasks_running"}, got[0].Categories[0].Unsaid); diff != "" {
		t.Errorf("of the category: want -, got +:\n%s", diff)
	}
}

func TestApostrophesMayBeQuoted(t *testing.T) {
	for quoted, want := range map[string]string{
		`a`: "a", `it\'s`: "it's", `\\'`: `\'`, `\\\'`: `\'`, `\"\'\"`: `"'"`, `\u0041\'`: "A'", `\'`: "'",
	} {
		tasks, err := Read[Task]([]byte(`[{"command":"awk \'{print $1}\'","category":"` + quoted + `"}]`))
		if err != nil || len(tasks) != 1 || tasks[0].Category != want {
			t.Errorf("%s is read as %+v (%v), want %q", quoted, tasks, err, want)
		}
	}
}

func TestBadAnswersAreRefusedByName(t *testing.T) {
	for _, tc := range []struct{ name, answer, want string }{
		{"nothing", " \n", "closed without an answer"},
		{"no array", `{"tasks_waiting":1}`, "must be a JSON array"},
		{"a page", "<html>", "must be a JSON array"},
		{"cut off", `[{"tasks_waiting":1}`, "truncated after 1 entries"},
		{"cut off inside", `[{"tasks_waiting":1},{"tasks_wa`, "entry 1 of the answer"},
		{"two answers", `[] []`, "unexpected data"},
		{"no entry", `[7]`, "entry 0 of the answer"},
		{"a negative count", `[{"tasks_waiting":-3}]`, `entry 0 of the answer: tasks_waiting: "-3" is not a count`},
		{"a count that is none", `[{"tasks_waiting":"many"}]`, `tasks_waiting: "many" is not a count`},
		{"infinitely many", `[{"tasks_waiting":"Inf"}]`, "tasks_waiting"},
		{"a list", `[{"workers_lost":[]}]`, "workers_lost"},
		{"negative cores", `[{"cores_total":-4}]`, `cores_total: "-4" is negative`},
		{"text for cores", `[{"cores_total":"four"}]`, `cores_total: "four" is not an amount`},
		{"a number for a name", `[{"project":5}]`, "project"},
		{"no object", `[{"categories":[{"category":"a","max_seen":[1]}]}]`, "max_seen"},
		{"negative memory in one", `[{"categories":[{"category":"a","max_seen":{"memory":-4}}]}]`, `max_seen: memory: "-4" is negative`},
		{"a bad category", `[{"categories":[{"category":"a"},{"tasks_done":-1}]}]`, "categories: entry 1 of the answer: tasks_done"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Read[Queue]([]byte(tc.answer))
			if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v and error %v, want nothing and %q", got, err, tc.want)
			}
		})
	}
	if _, err := Read[Queue](nil); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("error %v, want %v", err, ErrNoAnswer)
	}
}

func TestAmountsAreReadAsCctoolsWritesThem(t *testing.T) {
	for text, want := range map[string]Amount{
		"4": exactly(4), "1.000": exactly(1), "~4": {4, SoFar}, ">4": {4, Exceeded}, "na": {}, "": {}, "-1": {}, "0.5": exactly(0.5),
	} {
		if got, err := ParseAmount(text); err != nil || got != want {
			t.Errorf("ParseAmount(%q) is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-2", "~-1", ">", "~", "4x", "NaN", "1e300", ">>4"} {
		if got, err := ParseAmount(text); err == nil {
			t.Errorf("ParseAmount(%q) is %v, want an error", text, got)
		}
	}
}

func FuzzParseAmount(f *testing.F) {
	for _, text := range []string{"4", "~4", ">4", "na", "-1", "1.000", "1e9", "NaN"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAmount(text)
		if err != nil {
			return
		}
		if !(a.Value >= 0 && a.Value <= maxAmount) || a.Bound == Unstated && a.Value != 0 {
			t.Fatalf("%q is read as %+v", text, a)
		}
		if again, err := ParseAmount(a.String()); err != nil || again != a {
			t.Fatalf("%v is read again as %v (%v)", a, again, err)
		}
	})
}

func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"queue_status", "task_status", "worker_status", "wable_status"} {
		f.Add(recorded(f, name))
	}
	f.Add([]byte(`[{"categories":[{"category":"whole queue"}],"lastheardfrom":1,"ssl":true,"address":"::1","port":"1"}]`))
	f.Add([]byte(`[{"taskid":1,"command":"awk \'{print \\"a\\"}\'"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkQueues(t, data)
		tasks, _ := Read[Task](data)
		for _, task := range tasks {
			if task.ID < 0 || task.Declared.Cores.Value < 0 || !slices.Contains([]TaskState{"", Waiting, Running, Other}, task.State) {
				t.Fatalf("%+v is no task", task)
			}
		}
		_, _ = Read[Worker](data)
		_, _ = Read[Listing](data)
	})
}

// checkQueues decodes queues and checks their guarantees.
func checkQueues(t *testing.T, data []byte) {
	queues, err := Read[Queue](data)
	if err != nil && queues != nil {
		t.Fatal("an error and an answer")
	}
	for _, q := range queues {
		if q.Waiting < 0 || q.Workers < 0 || q.Port < 0 || q.Total.Cores.Value < 0 {
			t.Fatalf("%+v has a negative number", q)
		}
		for _, c := range q.Categories {
			if c.Name == wholeQueue || c.Waiting < 0 || c.Max.MemoryMB.Value < 0 {
				t.Fatalf("%+v is no category", c)
			}
		}
	}
}
