package sim

import (
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/scenario"
)

// Input is everything that a run depends on.
type Input struct {
	// Scenario is the cluster with its machines and times.
	Scenario *scenario.Scenario
	// Pods are the workload in order of arrival, as returned by [scenario.Scenario.Arrivals].
	Pods []scenario.Pod
	// Seed breaks ties between equally good nodes and draws acquisition lags.
	Seed uint64
	// Policy is the policy to simulate.
	Policy Policy
	// Progress, if not nil, is called from time to time.
	Progress func(Progress)

	// exhaustive disables the shortcut for pods that are known to fit on no node.
	exhaustive bool
	// watch, if not nil, is called for each change of a machine or a pod.
	watch func(fact)
}

// fact is a change of a machine or a pod.
type fact struct {
	at        time.Duration
	what      factKind
	node, pod string
	flavor    string // of an ordered machine
	class     class.Class
}

type factKind string

const (
	machineAsked    factKind = "asked for"
	machineReady    factKind = "ready"
	machineReleased factKind = "asked to go"
	podStarted      factKind = "started"
	podFrozen       factKind = "frozen, on its way to the node"
	podMoved        factKind = "moved"
	podEnded        factKind = "ended"
	podEvicted      factKind = "evicted"
)

// Policy is a way to run a cluster: a scheduler and a controller of the machines.
type Policy struct {
	// Name is the name of the policy for users.
	Name string
	// Scheduler returns the KubeSchedulerConfiguration for a scenario, in YAML. All pods
	// name its profile default-scheduler.
	Scheduler func(*scenario.Scenario) []byte
	// Plugins returns additional or replacement plugins that the configuration needs, for a
	// scenario; nil if it needs none.
	Plugins func(*scenario.Scenario, clock.PassiveClock) (runtime.Registry, error)
	// Groups means that the policy respects the scenario's classes of the initial machines.
	// Otherwise these accept both batch pods and services.
	Groups bool
	// Controller returns the controller of one run; nil leaves the machines unchanged.
	Controller func(*scenario.Scenario) Controller
	// Fixed returns the controller of one run in a fixed cluster, whose machines are neither bought
	// nor released; nil means none.
	Fixed func(*scenario.Scenario) Controller
	// Interval returns the minimum interval between calls of the controller, which are at its
	// multiples; nil means the scheduling interval. Waiting pods are tried at the scheduling
	// interval in any case.
	Interval func(*scenario.Scenario) time.Duration
	// Asks means that pods are moved only as they declare. Other policies ignore the declarations.
	Asks bool
}

// classOf returns the class of an initial machine under the policy.
func (p Policy) classOf(c class.Class) class.Class {
	if p.Groups {
		return c
	}
	return class.Any
}

// Controller decides about machines and moves.
type Controller interface {
	// Decide is called at a multiple of the interval of the policy, if something has happened since
	// the last call or the previous plan requested it.
	Decide(now time.Time, s *cluster.State) cluster.Plan
}

// Progress is the progress of a run.
type Progress struct {
	// Now is the virtual time.
	Now time.Duration
	// Arrived and Done count pods that have arrived and that have ended. Total is the size of the
	// workload.
	Arrived, Done, Total int
}
