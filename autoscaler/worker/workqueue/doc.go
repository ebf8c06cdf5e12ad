// Package workqueue asks a Work Queue manager of cctools what it has to do and who does it.
//
// A [Client] opens a connection, sends one line and reads one JSON array, after which the
// manager closes. It sends the four queries below and nothing else, ever: a manager takes
// whoever sends an unknown one for a worker and counts it as lost. [Discover] finds
// managers by project name at a catalog server. [Manager] is the port, so that another
// dialect, such as that of TaskVine, can stand behind it.
//
// What a manager says is data from the world. Answers are bounded in size and time;
// fields that a version lacks are left at their zero values, fields that a version adds
// are ignored, and numbers may be written as numbers or as text. An answer that is cut off,
// or whose fields are of another kind or negative, is an error that names the field, and
// nothing of it is returned: whoever decides holds on to what it knew.
package workqueue

import "context"

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
