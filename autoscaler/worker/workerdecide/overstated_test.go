package workerdecide

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

const mebi = 1 << 20

// used is a category that the manager has measured.
func used(name string, cores, memoryMB, diskMB float64) answer.Category {
	return answer.Category{Name: name, Max: answer.Resources{Cores: atMost(cores), MemoryMB: atMost(memoryMB), DiskMB: atMost(diskMB)}}
}

func TestWhatTasksUsedIsKeptBesideWhatTheyDeclare(t *testing.T) {
	r := reading(waiting(1, 8, "c", 2))
	r.Categories = []answer.Category{used("c", 0.5, 100, 1), used("gone", 1, 1, 1)}
	_, m := must(t, limits(), Observation{Reading: r}, Memory{}, begin)
	want := []Category{{Name: "c", Need: estimate.Resources{MilliCores: 2000}, Source: Declared, Used: estimate.Resources{MilliCores: 500, MemoryBytes: 100 * mebi, DiskBytes: mebi}}}
	if diff := cmp.Diff(want, m.Categories); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	r.Categories[0].Max = answer.Resources{} // the manager states nothing any more
	if _, m = must(t, limits(), Observation{Reading: r}, m, begin.Add(time.Minute)); m.lookup("c").Used != want[0].Used {
		t.Errorf("what was measured is forgotten: %+v", m.lookup("c"))
	}
	r.Queue.Started = begin
	if _, m = must(t, limits(), Observation{Reading: r}, m, begin.Add(2*time.Minute)); m.lookup("c").Used != (estimate.Resources{}) {
		t.Errorf("of another queue it still knows %+v", m.lookup("c"))
	}
}

func TestTasksThatDeclareFarMoreThanTheyUseAreNamed(t *testing.T) {
	four := Flavor{Name: "four", Worker: cores(4), MicroDollarsPerHour: 200_000} // and 16 GiB
	declared := func(cores, gib int64) estimate.Resources {
		return estimate.Resources{MilliCores: 1000 * cores, MemoryBytes: gib * giga}
	}
	hour := []time.Duration{time.Hour}
	for _, tc := range []struct {
		name string
		of   Category
		want string // empty: nothing is reported
	}{
		{"memory keeps others away", Category{Need: declared(1, 8), Source: Declared, Used: declared(0, 1), Recent: hour, Ended: 5},
			"category c declares up to 1 core, 8192 MiB of memory for a task: with 1 core, 1024 MiB of memory, which covers the greatest measured use, 4 of its tasks would fit where 2 do, at $0.0500 each instead of $0.1000"},
		{"a whole worker", Category{Need: cores(4), Source: WholeWorker, Used: estimate.Resources{MilliCores: 1003, MemoryBytes: giga}, Recent: hour, Ended: 5},
			"category c declares nothing, so that each task gets a whole worker: with 1 core, 1024 MiB of memory, which covers the greatest measured use, 4 of its tasks would fit where 1 does"},
		{"a whole worker of a smaller flavor then", Category{Need: cores(2), Source: WholeWorker, Used: declared(1, 1), Recent: hour, Ended: 5}, "where 1 does"},
		{"what the manager gives by itself", Category{Need: declared(4, 1), Source: Measured, Used: declared(1, 1), Recent: hour, Ended: 5}, "category c is allocated up to 4 cores"},
		{"too few have ended", Category{Need: declared(1, 8), Source: Declared, Used: declared(0, 1), Recent: hour, Ended: 4}, ""},
		{"nobody has measured it", Category{Need: declared(4, 8), Source: Declared, Recent: hour, Ended: 5}, ""},
		{"nobody has seen it wait or run", Category{Used: declared(0, 1), Recent: hour, Ended: 5}, ""},
		{"memory that is not what keeps others away", Category{Need: declared(1, 4), Source: Declared, Used: declared(1, 1), Recent: hour, Ended: 5}, ""},
		{"little less", Category{Need: declared(2, 8), Source: Declared, Used: declared(2, 4), Recent: hour, Ended: 5}, ""},
		{"cores of a short task, which the monitor averages away", Category{Need: declared(4, 4), Source: Declared, Used: estimate.Resources{MilliCores: 1300, MemoryBytes: 4 * giga}, Recent: []time.Duration{time.Minute}, Ended: 5}, ""},
		{"cores of a long task", Category{Need: declared(4, 4), Source: Declared, Used: estimate.Resources{MilliCores: 1300, MemoryBytes: 4 * giga}, Recent: hour, Ended: 5}, "declares up to 4 cores, 4096 MiB of memory for a task: with 2 cores"},
		{"memory that it does not declare and that would keep others away", Category{Need: declared(4, 0), Source: Declared, Used: declared(1, 12), Recent: hour, Ended: 5}, ""},
		{"a GPU, of which nobody knows", Category{Need: estimate.Resources{MilliCores: 4000, GPUs: 1}, Source: Declared, Used: declared(1, 1), Recent: hour, Ended: 5}, ""},
		{"larger than the flavor", Category{Need: declared(1, 64), Source: Declared, Used: declared(1, 1), Recent: hour, Ended: 5}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.of.Name = "c"
			var got string
			for _, o := range (&Memory{Categories: []Category{tc.of}}).overstated(&four) {
				got += o.String()
			}
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	free := four
	free.MicroDollarsPerHour = 0
	m := Memory{Categories: []Category{{Name: "c", Need: declared(1, 8), Source: Declared, Used: declared(0, 1), Ended: 5}}}
	if got := m.overstated(&free); len(got) != 1 || strings.Contains(got[0].String(), "$") {
		t.Errorf("%v, want no price where none is known", got)
	}
}
