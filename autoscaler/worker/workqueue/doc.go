// Package workqueue asks a Work Queue manager of cctools what it has to do and who does it.
//
// A [Client] opens a connection, sends one line and reads one JSON array, after which the
// manager closes. It sends the four queries below and nothing else, ever: a manager takes
// whoever sends an unknown one for a worker and counts it as lost. [Discover] finds
// managers by project name at a catalog server. [Manager] is the port, so that another
// dialect, such as that of TaskVine, can stand behind it.
//
// What a manager says is data from the world: answers are bounded in size and time, and
// package answer reads them. An error comes with nothing of the answer: whoever decides holds
// on to what it knew.
package workqueue

import (
	"context"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// What managers answer.
type (
	// Queue is the state of a manager.
	Queue = answer.Queue
	// Category is tasks that do the same kind of work.
	Category = answer.Category
	// Task is one task.
	Task = answer.Task
	// Worker is one that is connected.
	Worker = answer.Worker
)

// The states of tasks that matter here.
const (
	Waiting = answer.Waiting
	Running = answer.Running
)

// ErrNoAnswer is the error of a manager that closed without an answer.
var ErrNoAnswer = answer.ErrNoAnswer

// Manager is what can be asked of one. Each call is one connection.
type Manager interface {
	// Queue returns the state of the whole queue.
	Queue(ctx context.Context) (Queue, error)
	// Tasks returns the tasks that wait or run.
	Tasks(ctx context.Context) ([]Task, error)
	// Workers returns the workers that are connected.
	Workers(ctx context.Context) ([]Worker, error)
	// Categories returns the categories, with what is known of their needs.
	Categories(ctx context.Context) ([]Category, error)
}
