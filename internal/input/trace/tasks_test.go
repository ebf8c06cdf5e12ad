package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const taskHeader = "id,category,cores,memory_mib,runtime_s,cpu_fraction,parents,stage\n"

func TestReadTasks(t *testing.T) {
	got, err := ReadTasks("t.csv", strings.NewReader(taskHeader+
		"join,reduce,1,512,2.5,0.9,b; a;b,1\n"+
		"a,align,0.5,0.5,0,1,,\n"+
		"b,,2,0,60,0,a,\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Task{
		{ID: "join", Category: "reduce", MilliCores: 1000, MemoryBytes: 512 << 20, Runtime: 2500 * time.Millisecond, BusyMillionths: 900_000, Parents: []int{1, 2}, Stage: 1},
		{ID: "a", Category: "align", MilliCores: 500, MemoryBytes: 512 << 10, BusyMillionths: 1_000_000},
		{ID: "b", MilliCores: 2000, Runtime: time.Minute, Parents: []int{1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestParentsAndStagesMayBeLeftOut(t *testing.T) {
	got, err := ReadTasks("t.csv", strings.NewReader("category,id,cores,memory_mib,runtime_s,cpu_fraction\nc,x,1,1,1,0.25\n"))
	if err != nil || len(got) != 1 || got[0].BusyMillionths != 250_000 || got[0].Stage != 0 || got[0].Parents != nil {
		t.Errorf("%+v and %v, want one task without parents", got, err)
	}
}

func TestFaultsOfTasksAreNamedByLineAndColumn(t *testing.T) {
	for _, tc := range []struct{ name, rows, want string }{
		{"no core", "a,c,0,1,1,1,,\n", "t.csv:2: cores: \"0\" must be more than 0"},
		{"busier than busy", "a,c,1,1,1,1.5,,\n", "t.csv:2: cpu_fraction: \"1.5\" must be at most 1"},
		{"no id", ",c,1,1,1,1,,\n", "t.csv:2: id: \"\" is not a valid id"},
		{"a semicolon", "a;b,c,1,1,1,1,,\n", "t.csv:2: id: \"a;b\" is not a valid id"},
		{"an id twice", "a,c,1,1,1,1,,\na,c,1,1,1,1,,\n", "t.csv:3: id: \"a\" is also the id of line 2"},
		{"too long", "a,c,1,1,1e9,1,,\n", "t.csv:2: runtime_s: \"1e9\" is not a plain decimal"},
		{"longer than a year", "a,c,1,1,99999999,1,,\n", "t.csv:2: runtime_s: \"99999999\" is too large"},
		{"a stranger", "a,c,1,1,1,1,b,\n", "t.csv:2: parents: \"b\" is not the id of a task"},
		{"an empty parent", "a,c,1,1,1,1,;,\n", "t.csv:2: parents: \"\" is not the id of a task"},
		{"itself", "a,c,1,1,1,1,a,\n", "t.csv:2: parents: task \"a\" waits for itself"},
		{"a circle", "x,c,1,1,1,1,,\na,c,1,1,1,1,b,\nb,c,1,1,1,1,a,\n", "t.csv:3: parents: task \"a\" waits for itself"},
		{"a parent that comes later", "a,c,1,1,1,1,b,1\nb,c,1,1,1,1,,2\n", "t.csv:2: parents: \"b\" has a later stage (2, this task has 1)"},
		{"half a stage", "a,c,1,1,1,1,,0.5\n", "t.csv:2: stage: \"0.5\" must be a whole number"},
		{"no rows", "", "t.csv: has a header but no rows"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ReadTasks("t.csv", strings.NewReader(taskHeader+tc.rows))
			if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v and error %v, want %q", got, err, tc.want)
			}
		})
	}
}

// FuzzReadTasks: accepted tasks can run to the end, parents first.
func FuzzReadTasks(f *testing.F) {
	f.Add([]byte(taskHeader + "a,c,1,1,1,1,,\nb,c,0.5,1,0,0,a,1\n"))
	f.Add([]byte(taskHeader + "a,c,1,1,1,1,b,\nb,c,1,1,1,1,a;a,\n"))
	f.Add([]byte("id,category,cores,memory_mib,runtime_s,cpu_fraction\nx,,1m,0.1,0.5,NaN\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		tasks, err := ReadTasks("t.csv", bytes.NewReader(input))
		if err != nil {
			checkRefusal(t, err)
			return
		}
		ended := make([]bool, len(tasks))
		for n, progress := 0, true; n < len(tasks); {
			if !progress {
				t.Fatal("tasks wait for each other")
			}
			progress = false
			for i, task := range tasks {
				if task.MilliCores <= 0 || task.MemoryBytes < 0 || task.Runtime < 0 || task.BusyMillionths < 0 || task.BusyMillionths > 1_000_000 || task.Stage < 0 {
					t.Fatalf("%+v is out of bounds", task)
				}
				free := !ended[i]
				for _, p := range task.Parents {
					free = free && ended[p] && tasks[p].Stage <= task.Stage
				}
				if free {
					ended[i], progress = true, true
					n++
				}
			}
		}
	})
}
