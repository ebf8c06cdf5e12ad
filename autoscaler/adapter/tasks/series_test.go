package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// recorded returns the recorded answer of a real manager.
func recorded(t testing.TB) string {
	t.Helper()
	text := testfile.Read(t, "../../worker/workqueue/answer/testdata/queue_status.json")
	return string(text)
}

func read(t testing.TB, text string) *workqueue.Queue {
	t.Helper()
	list, err := answer.Read[workqueue.Queue]([]byte(text))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: %v, %v", text, list, err)
	}
	return &list[0]
}

func TestARealManagerHasAllSeries(t *testing.T) {
	got, err := Of(read(t, recorded(t)))
	if err != nil {
		t.Fatal(err)
	}
	const mebibyte = 1 << 20
	want := map[Key]float64{}
	for name, v := range map[string]float64{
		"tasks_waiting": 3, "tasks_on_workers": 3, "tasks_running": 3, "tasks_with_results": 0, "tasks_submitted_total": 6, "tasks_dispatched_total": 3,
		"tasks_done_total": 0, "tasks_failed_total": 0, "workers_connected": 1, "workers_busy": 1, "workers_idle": 0, "workers_joined_total": 1,
		"workers_removed_total": 0, "workers_lost_total": 0, "start_timestamp_seconds": 1795334232,
	} {
		want[Key{Name: "supercargo_workqueue_" + name}] = v
	}
	for resource, v := range map[string][2]float64{"cores": {3, 3}, "gpus": {0, 0}, "memory": {1000 * mebibyte, 300 * mebibyte}, "disk": {1000 * mebibyte, 30 * mebibyte}} {
		want[Key{"supercargo_workqueue_capacity", "", resource}], want[Key{"supercargo_workqueue_in_use", "", resource}] = v[0], v[1]
	}
	for name, v := range map[string]float64{"waiting": 3, "on_workers": 3, "running": 3, "done_total": 0, "failed_total": 0} {
		want[Key{"supercargo_workqueue_category_tasks_" + name, "split", ""}] = v
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestWhatIsNoStateOfAQueueHasNoSeries(t *testing.T) {
	for _, text := range []string{`[{}]`, `[{"type":"vine_manager","tasks_waiting":3}]`, `[{"type":"catalog","tasks_waiting":3}]`} {
		if got, err := Of(read(t, text)); err == nil || got != nil || !strings.Contains(err.Error(), "must be one of wq_manager") {
			t.Errorf("%s: %v and error %v, want nothing", text, got, err)
		}
	}
}

func TestCategoriesHaveSeriesAllOrNone(t *testing.T) {
	of := func(names ...string) *workqueue.Queue {
		q := &workqueue.Queue{Type: "wq_manager", Waiting: 1}
		for _, name := range names {
			q.Categories = append(q.Categories, workqueue.Category{Name: name, Waiting: 1})
		}
		return q
	}
	var many []string
	for i := range MostCategories {
		many = append(many, fmt.Sprint(i))
	}
	for _, tc := range []struct {
		what string
		of   *workqueue.Queue
		want int // with series
	}{
		{"none", of(), 0},
		{"two", of("a", "b"), 2},
		{"as many as may be", of(many...), MostCategories},
		{"one too many", of(append(many, "last")...), -1},
		{"one twice", of("a", "b", "a"), -1},
		{"one without a name", of("a", ""), -1},
		{"one with a long name", of("a", strings.Repeat("b", 254)), -1},
	} {
		series, err := Of(tc.of)
		got := 0
		for key := range series {
			if key.Name == CategoryWaiting {
				got++
			}
		}
		if (tc.want < 0) != errors.Is(err, ErrCategories) || err != nil && tc.want >= 0 || got != max(tc.want, 0) {
			t.Errorf("%s: %d categories and error %v, want %d", tc.what, got, err, tc.want)
		}
		if v, ok := series[Key{Name: Waiting}]; !ok || v != 1 {
			t.Errorf("%s: the whole queue has %v (%v)", tc.what, v, ok)
		}
	}
}

// TestASeriesIsWhatWasSaid omits optional fields, and expects a series for exactly the remaining
// ones.
func TestASeriesIsWhatWasSaid(t *testing.T) {
	names := map[string]string{}
	for said, name := range map[string]string{
		"tasks_waiting": Waiting, "tasks_on_workers": OnWorkers, "tasks_running": "", "tasks_with_results": "", "tasks_submitted": Submitted, "tasks_dispatched": "_total",
		"tasks_done": "_total", "tasks_failed": "_total", "workers_connected": "", "workers_busy": "", "workers_idle": "", "workers_joined": "_total", "workers_removed": "_total", "workers_lost": "_total",
	} {
		if !strings.HasPrefix(name, prefix) {
			name = prefix + said + name
		}
		names[said] = name
	}
	rapid.Check(t, func(t *rapid.T) {
		said, want := map[string]any{"type": "wq_manager"}, map[Key]float64{}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			n := rapid.Int64Range(0, 1<<53).Draw(t, name)
			switch rapid.SampledFrom([]string{"number", "text", "null", "empty", "absent"}).Draw(t, "how") {
			case "number":
				said[name], want[Key{Name: names[name]}] = n, float64(n)
			case "text":
				said[name], want[Key{Name: names[name]}] = fmt.Sprint(n), float64(n)
			case "null":
				said[name] = nil
			case "empty":
				said[name] = ""
			}
		}
		if rapid.Bool().Draw(t, "started") {
			said["starttime"], want[Key{Name: prefix + "start_timestamp_seconds"}] = 1_795_334_232, 1_795_334_232
		}
		if rapid.Bool().Draw(t, "cores") {
			said["cores_total"], want[Key{prefix + "capacity", "", "cores"}] = "2.5", 2.5
		}
		text, err := json.Marshal([]any{said})
		if err != nil {
			t.Fatal(err)
		}
		list, err := answer.Read[workqueue.Queue](text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Of(&list[0])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: series (-want +got):\n%s", text, diff)
		}
	})
}

func BenchmarkOf(b *testing.B) {
	q := &workqueue.Queue{Type: "wq_manager", Started: time.Unix(1, 0)}
	for i := range MostCategories {
		q.Categories = append(q.Categories, workqueue.Category{Name: fmt.Sprint(i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Of(q); err != nil {
			b.Fatal(err)
		}
	}
}
