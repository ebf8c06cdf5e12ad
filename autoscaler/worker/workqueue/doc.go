// Package workqueue queries a Work Queue manager of cctools for its tasks and workers.
//
// A [Client] opens a connection, sends one line and reads one JSON array, after which the manager closes the
// connection. It must send only the four queries below: a manager treats the sender of an unknown query as a worker and
// counts it as lost. [Discover] finds managers by project name at a catalog server. [Manager] is the interface for
// other dialects, such as that of TaskVine.
//
// Answers are untrusted input: they are bounded in size and time, and package answer decodes them. An error comes
// without a partial answer; the caller then keeps its last decision.
package workqueue

import (
	"context"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// The answers of managers.
type (
	// Queue is the state of a manager.
	Queue = answer.Queue
	// Category is the tasks of one kind of work.
	Category = answer.Category
	// Task is one task.
	Task = answer.Task
	// Worker is a connected worker.
	Worker = answer.Worker
)

// The relevant states of tasks.
const (
	Waiting = answer.Waiting
	Running = answer.Running
)

// ErrNoAnswer is the error of a manager that closed the connection without an answer.
var ErrNoAnswer = answer.ErrNoAnswer

// Manager has the queries of a manager. Each call opens one connection.
type Manager interface {
	// Queue returns the state of the whole queue.
	Queue(ctx context.Context) (Queue, error)
	// Tasks returns the tasks that wait or run.
	Tasks(ctx context.Context) ([]Task, error)
	// Workers returns the connected workers.
	Workers(ctx context.Context) ([]Worker, error)
	// Categories returns the categories, with their needs.
	Categories(ctx context.Context) ([]Category, error)
}
