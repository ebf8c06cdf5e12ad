package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/text/clip"
)

// Resources are amounts of each resource.
type Resources struct {
	Cores, GPUs      Amount
	MemoryMB, DiskMB Amount
}

// Queue is the state of a manager.
type Queue struct {
	Project, Version, Owner string
	// Type is "wq_master" or "wq_manager".
	Type string
	Port int64
	// Protocol is the version of the workers' protocol; 0 if the manager does not state it.
	Protocol int64
	// Started is when the manager started; zero if it is not stated. A queue that started later than the previous one
	// is a different queue.
	Started time.Time

	Waiting, OnWorkers, Running, WithResults int64
	Submitted, Dispatched, Done, Failed      int64
	// ExecutedGood is the total runtime of all tasks that succeeded.
	ExecutedGood time.Duration

	Workers, WorkersBusy, WorkersIdle          int64
	WorkersJoined, WorkersRemoved, WorkersLost int64

	// Total is what connected workers have, and InUse what tasks occupy of it.
	Total, InUse Resources
	Categories   []Category

	// Unsaid are the names of the counts that the manager did not state, as in its answers, such as tasks_waiting.
	// Their fields are 0.
	Unsaid []string
}

// Category is the tasks of one kind of work.
type Category struct {
	Name                                      string
	Waiting, OnWorkers, Running, Done, Failed int64
	// Max is the greatest need of one task: [Exact] if the category declares it, otherwise [SoFar] or [Exceeded] if the
	// manager's monitor has measured it.
	Max Resources
	// Seen is the greatest use that the monitor has measured. Versions up to 9.9 do not state it separately from Max:
	// use [Category.Measured].
	Seen Resources
	// First is what the manager first reserves for a task that declares nothing. Versions up to 9.9 state it only if
	// they use measurements, later ones always.
	First Resources
	// WorkersAble is the number of connected workers that could run a task.
	WorkersAble int64
	// Unsaid are the counts that were not stated, as in [Queue].
	Unsaid []string
}

// Measured returns the greatest use by a finished task that the manager's monitor has measured; nothing is stated if no
// monitor runs. Versions up to 9.9 do not state it for a resource that the category declares, or of which a task
// exceeded its allocation.
func (c *Category) Measured() Resources {
	pick := func(seen, most Amount) Amount {
		switch {
		case seen.Bound != Unstated:
			return Amount{seen.Value, SoFar}
		case most.Bound == SoFar:
			return most
		}
		return Amount{}
	}
	return Resources{
		Cores: pick(c.Seen.Cores, c.Max.Cores), GPUs: pick(c.Seen.GPUs, c.Max.GPUs),
		MemoryMB: pick(c.Seen.MemoryMB, c.Max.MemoryMB), DiskMB: pick(c.Seen.DiskMB, c.Max.DiskMB),
	}
}

// TaskState is the state of a task.
type TaskState string

// The relevant states of tasks.
const (
	Waiting TaskState = "waiting"
	Running TaskState = "running"
	// Other is any other state: ended, or in transition.
	Other TaskState = "other"
)

// Task is one task.
type Task struct {
	ID       int64
	Category string
	State    TaskState
	// Declared is what the task declares to need.
	Declared Resources
	// Worker is the address and port of the worker that runs it; empty if there is none.
	Worker string
	// Submitted and Started are zero if they are not stated. Now is the manager's clock at the time of the answer.
	Submitted, Started, Now time.Time
}

// Worker is a connected worker.
type Worker struct {
	// Address is its address and port, which are unique.
	Address                     string
	Hostname, Arch              string
	Total, InUse                Resources
	TasksRunning, TasksComplete int64
	// Started is when it connected, and Now the manager's clock; zero if they are not stated.
	Started, Now time.Time
}

// wholeQueue is a pseudo-category: the sum of all.
const wholeQueue = "whole queue"

// maxEntries bounds the entries of an answer.
const maxEntries = 2_000_000

// ErrNoAnswer is the error of a manager that closed the connection without an answer, as it does if it requires a
// password or TLS, or does not know the query.
var ErrNoAnswer = errors.New("the connection was closed without an answer: check that it is a Work Queue manager, and whether it requires a password or TLS")

// Entry is an element of an answer.
type Entry interface {
	Queue | Category | Task | Worker | Listing
}

// Read decodes the array of an answer completely, or returns an error that names the entry and the field.
func Read[T Entry](data []byte) ([]T, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, ErrNoAnswer
	}
	decoder := json.NewDecoder(bytes.NewReader(withoutQuotedApostrophes(data)))
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return nil, fmt.Errorf("answer starts with %q, must be a JSON array", clip.Cell(string(data[:min(len(data), 40)])))
	}
	var list []T
	var entry, empty T
	fields := newObject(any(&entry))
	for decoder.More() {
		if len(list) == maxEntries {
			return nil, fmt.Errorf("answer has more than %d entries", maxEntries)
		}
		entry = empty
		if err := decoder.Decode(fields); err != nil {
			return nil, fmt.Errorf("entry %d of the answer: %w", len(list), err)
		}
		list = append(list, entry)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("answer is truncated after %d entries: %w", len(list), err)
	}
	if decoder.More() {
		return nil, errors.New("unexpected data after the array of the answer")
	}
	return list, nil
}

// withoutQuotedApostrophes replaces \' by '. cctools escapes apostrophes in the commands of tasks, which is invalid
// JSON.
func withoutQuotedApostrophes(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\'`)) {
		return data
	}
	plain := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		if data[i] == '\\' && i+1 < len(data) {
			i++
			if data[i] != '\'' {
				plain = append(plain, '\\')
			}
		}
		plain = append(plain, data[i])
	}
	return plain
}

// filler is a type that is decoded from the fields of an entry.
type filler interface{ fields() []field }

// field is the name of a value and its destination.
type field struct {
	name string
	into any
}

// counter is a filler that remembers which counts were not stated.
type counter interface{ unsaid(name string) }

func (q *Queue) unsaid(name string)    { q.Unsaid = append(q.Unsaid, name) }
func (c *Category) unsaid(name string) { c.Unsaid = append(c.Unsaid, name) }

// wholes returns fields for counts.
func wholes(pairs map[string]*int64) []field {
	var fields []field
	for name, into := range pairs {
		fields = append(fields, field{name, (*count)(into)})
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fields
}

// amounts returns the fields of resources whose names have a prefix and a suffix.
func amounts(prefix, suffix string, r *Resources) []field {
	return []field{
		{prefix + "cores" + suffix, &r.Cores}, {prefix + "gpus" + suffix, &r.GPUs},
		{prefix + "memory" + suffix, &r.MemoryMB}, {prefix + "disk" + suffix, &r.DiskMB},
	}
}

// seconds and micros are times since 1970; 0 means not stated.
type (
	seconds struct{ *time.Time }
	micros  struct{ *time.Time }
)

// UnmarshalJSON reads seconds since 1970.
func (s seconds) UnmarshalJSON(data []byte) error { return readTime(s.Time, data, time.Unix, 1) }

// UnmarshalJSON reads microseconds since 1970.
func (m micros) UnmarshalJSON(data []byte) error {
	return readTime(m.Time, data, func(us, _ int64) time.Time { return time.UnixMicro(us) }, 1)
}

// microseconds is a duration.
type microseconds time.Duration

// UnmarshalJSON reads a number or text. It caps the duration at 200 years.
func (m *microseconds) UnmarshalJSON(data []byte) error {
	const most = 200 * 365 * 24 * time.Hour
	var c count
	if err := c.UnmarshalJSON(data); err != nil {
		return err
	}
	*m = microseconds(time.Duration(min(int64(c), most.Microseconds())) * time.Microsecond)
	return nil
}

func readTime(into *time.Time, data []byte, at func(int64, int64) time.Time, least int64) error {
	var c count
	if err := c.UnmarshalJSON(data); err != nil {
		return err
	}
	if int64(c) >= least {
		*into = at(int64(c), 0).UTC()
	}
	return nil
}

func (q *Queue) fields() []field {
	fields := wholes(map[string]*int64{
		"port": &q.Port, "protocol": &q.Protocol, "tasks_waiting": &q.Waiting, "tasks_on_workers": &q.OnWorkers,
		"tasks_running": &q.Running, "tasks_with_results": &q.WithResults, "tasks_submitted": &q.Submitted,
		"tasks_dispatched": &q.Dispatched, "tasks_done": &q.Done, "tasks_failed": &q.Failed,
		"workers_connected": &q.Workers, "workers_busy": &q.WorkersBusy, "workers_idle": &q.WorkersIdle,
		"workers_joined": &q.WorkersJoined, "workers_removed": &q.WorkersRemoved, "workers_lost": &q.WorkersLost,
	})
	fields = append(fields,
		field{"project", &q.Project}, field{"version", &q.Version}, field{"owner", &q.Owner}, field{"type", &q.Type},
		field{"starttime", &seconds{&q.Started}}, field{"time_workers_execute_good", (*microseconds)(&q.ExecutedGood)},
		field{"categories", (*categories)(&q.Categories)})
	return slices.Concat(fields, amounts("", "_total", &q.Total), amounts("", "_inuse", &q.InUse))
}

// categories are those of a queue.
type categories []Category

// UnmarshalJSON reads an array like that of a whole answer.
func (c *categories) UnmarshalJSON(data []byte) error {
	list, err := Read[Category](data)
	*c = WithoutWhole(list)
	return err
}

// WithoutWhole removes the sum of all categories.
func WithoutWhole(list []Category) []Category {
	return slices.DeleteFunc(list, func(c Category) bool { return c.Name == wholeQueue })
}

func (c *Category) fields() []field {
	fields := wholes(map[string]*int64{
		"tasks_waiting": &c.Waiting, "tasks_on_workers": &c.OnWorkers, "tasks_running": &c.Running,
		"tasks_done": &c.Done, "tasks_failed": &c.Failed, "workers_able": &c.WorkersAble,
	})
	fields = append(fields, field{"category", &c.Name}, field{"max_seen", (*nested)(&c.Seen)}, field{"first_allocation", (*nested)(&c.First)})
	return slices.Concat(fields, amounts("max_", "", &c.Max), amounts("first_", "", &c.First))
}

// nested is resources in an object of their own.
type nested Resources

// UnmarshalJSON reads the object.
func (n *nested) UnmarshalJSON(data []byte) error { return newObject(n).UnmarshalJSON(data) }

func (n *nested) fields() []field { return amounts("", "", (*Resources)(n)) }

func (t *Task) fields() []field {
	fields := wholes(map[string]*int64{"taskid": &t.ID})
	fields = append(fields,
		field{"category", &t.Category}, field{"state", (*stateName)(&t.State)}, field{"address_port", &t.Worker},
		field{"time_when_submitted", &micros{&t.Submitted}}, field{"time_when_commit_end", &micros{&t.Started}},
		field{"current_time", &micros{&t.Now}})
	return slices.Concat(fields, amounts("", "", &t.Declared))
}

// stateName is a state, in capitals or not depending on the version.
type stateName TaskState

// UnmarshalJSON maps unknown states to [Other].
func (s *stateName) UnmarshalJSON(data []byte) error {
	switch strings.ToLower(scalar(data)) {
	case "waiting", "ready":
		*s = stateName(Waiting)
	case "running":
		*s = stateName(Running)
	default:
		*s = stateName(Other)
	}
	return nil
}

// Listing is an entry of a catalog server, which is not always a manager.
type Listing struct {
	Queue
	// Address is the address from which the catalog server heard it; empty if that is not stated.
	Address string
	// Heard is when it was last heard, by the clock of the catalog server.
	Heard time.Time
	// TLS reports whether it requires TLS.
	TLS bool
}

func (l *Listing) fields() []field {
	return append(l.Queue.fields(), field{"address", &l.Address}, field{"lastheardfrom", &seconds{&l.Heard}}, field{"ssl", (*flag)(&l.TLS)})
}

// flag is a number or a bool.
type flag bool

// UnmarshalJSON reads either.
func (f *flag) UnmarshalJSON(data []byte) error {
	switch scalar(data) {
	case "true":
		*f = true
	case "false", "":
		*f = false
	default:
		var c count
		if err := c.UnmarshalJSON(data); err != nil {
			return err
		}
		*f = c != 0
	}
	return nil
}

func (w *Worker) fields() []field {
	fields := wholes(map[string]*int64{"total_tasks_running": &w.TasksRunning, "total_tasks_complete": &w.TasksComplete})
	fields = append(fields,
		field{"address_port", &w.Address}, field{"hostname", &w.Hostname}, field{"arch", &w.Arch}, field{"start_time", &micros{&w.Started}},
		field{"current_time", &micros{&w.Now}})
	return slices.Concat(fields, amounts("", "_total", &w.Total), amounts("", "_inuse", &w.InUse))
}
