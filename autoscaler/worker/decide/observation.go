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
	// Reading is what the manager answered; nil if it did not, and then Fault says why.
	Reading *Reading
	Fault   string
}

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
