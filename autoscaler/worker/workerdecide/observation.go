package workerdecide

import (
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// Observation is the state of a pool at one moment.
type Observation struct {
	// Pods are the pods of the pool that have not ended, in any order.
	Pods []Pod
	// Reading is what the manager answered. If it is nil, Fault is the error and Silence its kind.
	Reading *Reading
	Fault   string
	Silence Silence
}

// Silence is the kind of failure of a manager to give a usable answer.
type Silence string

// The kinds of silence. Only [Gone] means that the manager no longer exists. The zero value means [Unreachable].
const (
	// Unreachable is a manager that does not answer in time, or at all. It may be busy with its workers, which continue
	// their tasks.
	Unreachable Silence = "Unreachable"
	// Unusable is a manager whose answer is garbled, too large, or a refusal.
	Unusable Silence = "Unusable"
	// NotAsked is a manager that could not be queried, because its Secret or its address is missing.
	NotAsked Silence = "NotAsked"
	// Gone is a manager whose port is closed, or whose host name does not exist.
	Gone Silence = "Gone"
)

// String describes the failure.
func (s Silence) String() string {
	switch s {
	case Unusable:
		return "the manager's answer is invalid"
	case NotAsked:
		return "the manager cannot be queried"
	}
	return "the manager does not answer"
}

// Reading has the manager's answers to the four queries, sent one after the other.
type Reading struct {
	Queue      answer.Queue
	Tasks      []answer.Task
	Workers    []answer.Worker
	Categories []answer.Category
}

// Pod is a pod that runs a worker, or will.
type Pod struct {
	// Name is also the host name that the worker reports.
	Name string
	// IP is its address; empty if it has none, or shares it with other pods.
	IP string
	// Flavor is the flavor that it was created for.
	Flavor string
	// Worker is the size of its worker.
	Worker estimate.Resources
	// Asked is when the pod was created, NodeMade when its node was, Scheduled when it was bound to that node, and
	// Started when its container started; zero for what has not happened.
	Asked, NodeMade, Scheduled, Started time.Time
	// Leaving reports whether it has been told to leave.
	Leaving bool
	// Trouble is why it does not start; empty if nothing is wrong.
	Trouble string
}
