// Package tasks records the tasks and workers of Work Queue managers as series, so that services
// can be scaled by the waiting tasks, and reports can show their history.
//
// [Of] computes the series; a [Source] finds and queries a manager; a [Recorder] writes its state.
package tasks

import (
	"errors"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
	"supercargo.dev/supercargo/internal/text/clip"
)

// The series that other packages read. All have the labels namespace and manager; those of a
// category also have the label category.
const (
	// Up is 1 if the manager answered the last query, and 0 if not.
	Up = prefix + "up"
	// Waiting is the number of tasks that wait for a worker. OnWorkers is the number of tasks that
	// were sent to a worker and whose results are not back; some of them run.
	Waiting   = prefix + "tasks_waiting"
	OnWorkers = prefix + "tasks_on_workers"
	// Submitted is the number of tasks submitted to the manager since it started.
	Submitted = prefix + "tasks_submitted_total"
	// CategoryWaiting and CategoryOnWorkers are the same for one category.
	CategoryWaiting   = prefix + "category_tasks_waiting"
	CategoryOnWorkers = prefix + "category_tasks_on_workers"
)

const (
	prefix         = "supercargo_workqueue_"
	categoryPrefix = prefix + "category_"
)

// Key identifies a series of a manager. Category and Resource are empty if they do not apply.
type Key struct{ Name, Category, Resource string }

// The limits of the categories of one manager: each has five series, all of which contain its name.
const (
	MostCategories    = 100
	mostCategoryBytes = 253
)

// ErrCategories is the error if the categories have no series because they are too many, or their
// names are not valid labels.
var ErrCategories = errors.New("categories have no series of their own")

// Of returns the series of a manager's state. Fields that are missing in the state have no series:
// a missing count is not zero.
//
// With [ErrCategories] it still returns the series of the whole queue; with any other error the
// answer is not the state of a queue, and it returns none. Cost: O(categories).
func Of(q *workqueue.Queue) (map[Key]float64, error) {
	if q.Type != "wq_master" && q.Type != "wq_manager" {
		return nil, fmt.Errorf("the answer is of type %q, must be one of wq_manager, wq_master", clip.Cell(q.Type))
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

// category adds the series of a category.
func category(series map[Key]float64, of *workqueue.Category) {
	for _, c := range []count{
		{CategoryWaiting, "tasks_waiting", of.Waiting}, {CategoryOnWorkers, "tasks_on_workers", of.OnWorkers},
		{categoryPrefix + "tasks_running", "tasks_running", of.Running}, {categoryPrefix + "tasks_done_total", "tasks_done", of.Done},
		{categoryPrefix + "tasks_failed_total", "tasks_failed", of.Failed},
	} {
		c.put(series, of.Name, of.Unsaid)
	}
}

// count is a number: the name of its series, its field in the manager's answers, and its value.
type count struct {
	name, reported string
	value          int64
}

func (c *count) put(series map[Key]float64, category string, unreported []string) {
	if !slices.Contains(unreported, c.reported) {
		series[Key{Name: c.name, Category: category}] = float64(c.value)
	}
}

// resources adds a series for each stated resource: cores and GPUs as counts, memory and disk in
// bytes.
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

// believable returns an error if the categories cannot have series. It is all or none, because a
// part of them could be mistaken for all.
func believable(categories []workqueue.Category) error {
	if n := len(categories); n > MostCategories {
		return fmt.Errorf("%w: there are %d of them, the limit is %d", ErrCategories, n, MostCategories)
	}
	names := make(map[string]bool, len(categories))
	for i := range categories {
		name := categories[i].Name
		switch {
		case name == "" || len(name) > mostCategoryBytes:
			return fmt.Errorf("%w: %q is not a name of 1 to %d bytes", ErrCategories, clip.Cell(name), mostCategoryBytes)
		case names[name]:
			return fmt.Errorf("%w: %q is listed twice", ErrCategories, clip.Cell(name))
		}
		names[name] = true
	}
	return nil
}
