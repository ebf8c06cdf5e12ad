package decide

import (
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// Observation is a pool as it is seen at one moment.
type Observation struct {
	// Pods are the pool's that have not ended, in any order.
	Pods []Pod
	// Reading is what the manager answered; nil if it did not, and then Fault says why and
	// Silence how.
	Reading *Reading
	Fault   string
	Silence Silence
}

// Silence says what is known of a manager without an answer that can be used.
type Silence string

// The kinds of silence. Only [Gone] says that the manager is no more; the zero value is taken
// for [Unreachable].
const (
	// Unreachable is a manager that has not answered in time, or at all: it may be busy with
	// its workers, which go on with their tasks.
	Unreachable Silence = "Unreachable"
	// Unusable is one that answers what cannot be used: garbled, too large, or a refusal.
	Unusable Silence = "Unusable"
	// NotAsked is one that could not be asked, since its Secret or its address is missing.
	NotAsked Silence = "NotAsked"
	// Gone is one at whose address no program listens, or whose host name does not exist.
	Gone Silence = "Gone"
)

// Reading is what a manager answered to the four questions, one after the other.
type Reading struct {
	Queue      answer.Queue
	Tasks      []answer.Task
	Workers    []answer.Worker
	Categories []answer.Category
}

// Pod is one that runs a worker, or will.
type Pod struct {
	// Name is also what the worker calls its host.
	Name string
	// IP is its address; empty where it has none, or one that others have too.
	IP string
	// Flavor is the one that it was made for.
	Flavor string
	// Worker is what the worker in it has.
	Worker estimate.Resources
	// Asked is when it was made, NodeMade when its node was, Scheduled when it got that node
	// and Started when its container started; zero for what has not happened.
	Asked, NodeMade, Scheduled, Started time.Time
	// Leaving says that it has been asked to leave.
	Leaving bool
	// Trouble says why it does not start; empty if nothing is wrong.
	Trouble string
}
