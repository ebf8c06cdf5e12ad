// Package tasks keeps what Work Queue managers say of their tasks and workers as series, so
// that services can be scaled by what waits there, and reports say what there was.
//
// [Of] says which series there are; a [Source] finds and asks a manager; a [Recorder]
// writes what it says.
package tasks

import (
	"errors"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
	"supercargo.dev/supercargo/internal/text/clip"
)

// The series that others read. All have the labels namespace and manager, and those of a
// category the label category too.
const (
	// Up is 1 if the manager answered when it was last asked, and 0 if not.
	Up = prefix + "up"
	// Waiting is tasks that wait for a worker; OnWorkers those that were sent to one and whose
	// results have not come back, of which some run.
	Waiting   = prefix + "tasks_waiting"
	OnWorkers = prefix + "tasks_on_workers"
	// Submitted is tasks that the manager was given since it started.
	Submitted = prefix + "tasks_submitted_total"
	// CategoryWaiting and CategoryOnWorkers are the same of one category.
	CategoryWaiting   = prefix + "category_tasks_waiting"
	CategoryOnWorkers = prefix + "category_tasks_on_workers"
)

const (
	prefix         = "supercargo_workqueue_"
	categoryPrefix = prefix + "category_"
)

// Key is one series of a manager. Category and Resource are empty where there is none.
type Key struct{ Name, Category, Resource string }

// The bounds of what is kept of one manager: a category is five series, and its name is
// in each of them.
const (
	MostCategories    = 100
	mostCategoryBytes = 253
)

// ErrCategories is the error of a manager whose categories have no series of their own
// because they are too many, or their names are no labels.
var ErrCategories = errors.New("categories have no series of their own")

// Of returns the series of what a manager has said. What it did not say has none: a missing
// count is no zero.
//
// With [ErrCategories] there are the series of the whole queue all the same; with any other
// error the answer is no state of a queue, and there are none. Cost: O(categories).
func Of(q *workqueue.Queue) (map[Key]float64, error) {
	if q.Type != "wq_master" && q.Type != "wq_manager" {
		return nil, fmt.Errorf("the answer is of type %q, want wq_manager or wq_master", clip.Cell(q.Type))
	}
	series := map[Key]float64{}
	for _, c := range []count{
		{Waiting, "tasks_waiting", q.Waiting}, {OnWorkers, "tasks_on_workers", q.OnWorkers},
		{prefix + "tasks_running", "tasks_running", q.Running}, {prefix + "tasks_with_results", "tasks_with_results", q.WithResults},
		{Submitted, "tasks_submitted", q.Submitted}, {prefix + "tasks_dispatched_total", "tasks_dispatched", q.Dispatched},
		{prefix + "tasks_done_total", "tasks_done", q.Done}, {prefix + "tasks_failed_total", "tasks_failed", q.Failed},
		{prefix + "workers_connected", "workers_connected", q.Workers}, {prefix + "workers_busy", "workers_busy", q.WorkersBusy},
		{prefix + "workers_idle", "workers_idle", q.WorkersIdle}, {prefix + "workers_joined_total", "workers_joined", q.WorkersJoined},
		{prefix + "workers_removed_total", "workers_removed", q.WorkersRemoved}, {prefix + "workers_lost_total", "workers_lost", q.WorkersLost},
	} {
		c.put(series, "", q.Unsaid)
	}
	if !q.Started.IsZero() {
		series[Key{Name: prefix + "start_timestamp_seconds"}] = float64(q.Started.UnixMilli()) / 1000
	}
	resources(series, prefix+"capacity", &q.Total)
	resources(series, prefix+"in_use", &q.InUse)
	if err := believable(q.Categories); err != nil {
		return series, err
	}
	for i := range q.Categories {
		category(series, &q.Categories[i])
	}
	return series, nil
}

// category adds the series of one.
func category(series map[Key]float64, of *workqueue.Category) {
	for _, c := range []count{
		{CategoryWaiting, "tasks_waiting", of.Waiting}, {CategoryOnWorkers, "tasks_on_workers", of.OnWorkers},
		{categoryPrefix + "tasks_running", "tasks_running", of.Running}, {categoryPrefix + "tasks_done_total", "tasks_done", of.Done},
		{categoryPrefix + "tasks_failed_total", "tasks_failed", of.Failed},
	} {
		c.put(series, of.Name, of.Unsaid)
	}
}

// count is a number of a manager: the name of its series, and the one that it has in the
// manager's answers.
type count struct {
	name, said string
	value      int64
}

func (c *count) put(series map[Key]float64, category string, unsaid []string) {
	if !slices.Contains(unsaid, c.said) {
		series[Key{Name: c.name, Category: category}] = float64(c.value)
	}
}

// resources adds a series for each resource that is stated: cores, pieces, and bytes.
func resources(series map[Key]float64, name string, r *answer.Resources) {
	const mebibyte = 1 << 20 // cctools' MB
	for _, of := range []struct {
		resource string
		amount   answer.Amount
		unit     float64
	}{{"cores", r.Cores, 1}, {"gpus", r.GPUs, 1}, {"memory", r.MemoryMB, mebibyte}, {"disk", r.DiskMB, mebibyte}} {
		if of.amount.Bound != answer.Unstated {
			series[Key{Name: name, Resource: of.resource}] = of.amount.Value * of.unit
		}
	}
}

// believable returns an error if the categories cannot have series: all of them or none,
// since some would be taken for all.
func believable(categories []workqueue.Category) error {
	if n := len(categories); n > MostCategories {
		return fmt.Errorf("%w: there are %d, and series for %d", ErrCategories, n, MostCategories)
	}
	names := make(map[string]bool, len(categories))
	for i := range categories {
		name := categories[i].Name
		switch {
		case name == "" || len(name) > mostCategoryBytes:
			return fmt.Errorf("%w: %q is no name of 1 to %d bytes", ErrCategories, clip.Cell(name), mostCategoryBytes)
		case names[name]:
			return fmt.Errorf("%w: %q is there twice", ErrCategories, clip.Cell(name))
		}
		names[name] = true
	}
	return nil
}
