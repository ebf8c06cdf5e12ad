package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/text/clip"
)

// Task is one task of a workflow.
type Task struct {
	// ID is unique in the workflow.
	ID string
	// Category groups tasks that do the same kind of work; empty if not stated.
	Category string
	// MilliCores and MemoryBytes are the resources that the task occupies on its worker.
	MilliCores, MemoryBytes int64
	// Runtime is how long it runs after its start; it may be zero.
	Runtime time.Duration
	// BusyMillionths is the share of its cores that it keeps busy, in millionths.
	BusyMillionths int64
	// Parents are positions in the workflow, ascending. The task waits until they, and all tasks of
	// lower stages, have ended.
	Parents []int
	Stage   int64
}

const (
	maxIDBytes     = 253
	maxStage       = 1_000_000
	maxTaskRuntime = 366 * 24 * time.Hour
	// Millionths is the value of [Task.BusyMillionths] for all cores.
	Millionths = 1_000_000
)

var taskFormat = table.Format{
	Name:     "task list",
	Required: []string{"id", "category", "cores", "memory_mib", "runtime_s", "cpu_fraction"},
	Optional: []string{"parents", "stage"},
}

// ReadTasks reads a workflow. file is only used in errors, which are of type
// [*table.Errors] and list every fault up to [table.MaxErrors].
//
// cores may have three decimals. cpu_fraction is between 0 and 1. parents are ids separated by
// semicolons, which may occur further down. stage is an integer, by default 0. A parent of a later
// stage and a cycle of parents are errors, because those tasks could never start. Tasks stay in
// file order. Cost: O(rows + parents).
func ReadTasks(file string, r io.Reader) ([]Task, error) {
	t, _, err := table.Open(file, r, taskFormat)
	if err != nil {
		return nil, err
	}
	rows := taskRows{Table: t, at: map[string]int{}}
	for t.Next() {
		if len(rows.tasks) == table.MaxRows {
			t.Fault(t.Line(), "", fmt.Sprintf("exceeds the limit of %d tasks in a workflow", table.MaxRows))
			break
		}
		rows.row()
	}
	if len(rows.tasks) == 0 && t.Faults() == 0 {
		t.Fault(0, "", "has a header but no rows: must have at least one")
	}
	if t.Faults() == 0 { // otherwise ids may be missing
		rows.link()
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	return rows.tasks, nil
}

// taskRows collects the tasks of a table.
type taskRows struct {
	*table.Table
	tasks   []Task
	lines   []int
	parents []string
	at      map[string]int // id to position
}

// row reads the current row.
func (r *taskRows) row() {
	task := Task{
		ID: r.Cell("id"), Category: r.Cell("category"),
		MilliCores:  r.Cores("cores"),
		MemoryBytes: r.AtMost("memory_mib", r.Number("memory_mib", table.BytesPerMiB, table.RoundUp), table.MaxMemoryBytes),
		Runtime: time.Duration(r.AtMost("runtime_s",
			r.Number("runtime_s", int64(time.Second), table.Exact), int64(maxTaskRuntime))),
		BusyMillionths: r.Number("cpu_fraction", Millionths, table.Exact),
		Stage:          r.AtMost("stage", r.OptionalNumber("stage", 1, table.Exact), maxStage),
	}
	if task.BusyMillionths > Millionths {
		r.BadCell("cpu_fraction", errors.New("must be at most 1: it is the share of its cores that the task keeps busy"))
	}
	if !table.Printable(task.Category, maxCategoryBytes) {
		r.BadCell("category", fmt.Errorf("is not a valid category: must be up to %d bytes without control characters", maxCategoryBytes))
	}
	if task.ID == "" || !table.Printable(task.ID, maxIDBytes) || strings.Contains(task.ID, ";") {
		r.BadCell("id", fmt.Errorf("is not a valid id: must be 1 to %d bytes without control characters and semicolons", maxIDBytes))
	} else if first, taken := r.at[task.ID]; taken {
		r.BadCell("id", fmt.Errorf("is also the id of line %d: ids must be unique", r.lines[first]))
	} else {
		r.at[task.ID] = len(r.tasks)
	}
	r.tasks = append(r.tasks, task)
	r.lines = append(r.lines, r.Line())
	r.parents = append(r.parents, r.Cell("parents"))
}

// link resolves the parents and checks that all tasks can run.
func (r *taskRows) link() {
	for i := range r.tasks {
		if r.parents[i] == "" {
			continue
		}
		for id := range strings.SplitSeq(r.parents[i], ";") {
			id = strings.TrimSpace(id)
			parent, known := r.at[id]
			switch {
			case !known:
				r.Fault(r.lines[i], "parents", fmt.Sprintf("%q is not the id of a task", clip.Cell(id)))
			case r.tasks[parent].Stage > r.tasks[i].Stage:
				r.Fault(r.lines[i], "parents", fmt.Sprintf("%q has a later stage (%d, this task has %d) and would wait for this task", clip.Cell(id), r.tasks[parent].Stage, r.tasks[i].Stage))
			default:
				r.tasks[i].Parents = append(r.tasks[i].Parents, parent)
			}
		}
		slices.Sort(r.tasks[i].Parents)
		r.tasks[i].Parents = slices.Compact(r.tasks[i].Parents)
	}
	r.circles()
}

// circles records an error if a task waits directly or indirectly for itself.
func (r *taskRows) circles() {
	open := make([]int, len(r.tasks)) // parents that have not ended
	children := make([][]int, len(r.tasks))
	var ready []int
	for i, task := range r.tasks {
		open[i] = len(task.Parents)
		for _, p := range task.Parents {
			children[p] = append(children[p], i)
		}
		if open[i] == 0 {
			ready = append(ready, i)
		}
	}
	ended := 0
	for ; len(ready) > 0; ended++ {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, c := range children[i] {
			if open[c]--; open[c] == 0 {
				ready = append(ready, c)
			}
		}
	}
	if ended < len(r.tasks) {
		first := slices.IndexFunc(open, func(n int) bool { return n > 0 })
		r.Fault(r.lines[first], "parents", fmt.Sprintf("task %q waits for itself, or for tasks that do: parents must not form a cycle", clip.Cell(r.tasks[first].ID)))
	}
}
