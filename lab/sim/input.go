package sim

import (
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/scenario"
)

// Input is all that a run depends on.
type Input struct {
	// Scenario is the cluster with its machines and times.
	Scenario *scenario.Scenario
	// Pods are the workload, in the order of their arrival, as
	// [scenario.Scenario.Arrivals] gives them.
	Pods []scenario.Pod
	// Seed breaks ties between equally good nodes and draws acquisition lags.
	Seed uint64
	// Policy decides.
	Policy Policy
	// Progress, if not nil, is called now and then with what has been done.
	Progress func(Progress)

	// exhaustive tries pods also where it is known that no node takes them.
	exhaustive bool
	// watch, if not nil, is told what becomes of machines and pods.
	watch func(fact)
}

// fact is one step in the life of a machine or a pod.
type fact struct {
	at        time.Duration
	what      factKind
	node, pod string
	flavor    string // of a machine that was asked for
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
	podRestarted    factKind = "restarted"
	machineSleeps   factKind = "put to sleep"
	machineWoken    factKind = "woken"
)

// Policy is a way to run a cluster: a scheduler and who decides about machines.
type Policy struct {
	// Name is what users call it.
	Name string
	// Scheduler returns the KubeSchedulerConfiguration for a scenario, in YAML. All pods
	// name its profile default-scheduler.
	Scheduler func(*scenario.Scenario) []byte
	// Plugins makes those that the configuration needs beside the image's own, or in their
	// place, for a scenario; nil if it needs none.
	Plugins func(*scenario.Scenario, clock.PassiveClock) (runtime.Registry, error)
	// Groups says that the policy heeds the classes that the scenario gives the
	// machines of the start. For others these take both batch pods and services.
	Groups bool
	// Controller makes the controller of one run, for a scenario; nil leaves the
	// machines as they are.
	Controller func(*scenario.Scenario) Controller
	// Fixed makes the controller of one run in a fixed cluster, whose machines are neither
	// bought nor released; nil leaves all as it is.
	Fixed func(*scenario.Scenario) Controller
	// Looks says how often the controller is asked at most, at multiples of that time; nil
	// is the scheduling interval. Pods that wait are tried at the scheduling interval
	// whatever it says.
	Looks func(*scenario.Scenario) time.Duration
	// Asks says that pods are moved only as they declare. Other policies move them as they
	// like.
	Asks bool
}

// classOf is the class that a machine of the start has under the policy.
func (p Policy) classOf(c class.Class) class.Class {
	if p.Groups {
		return c
	}
	return class.Any
}

// Controller decides about machines and moves.
type Controller interface {
	// Decide is called at a scheduling interval or, if the policy says otherwise, at
	// another, if something has happened since it was called last or the plan before
	// asked for it.
	Decide(now time.Time, s *cluster.State) cluster.Plan
}

// Progress is how far a run has come.
type Progress struct {
	// Now is the virtual time.
	Now time.Duration
	// Arrived and Done count pods, Done those that have ended; Total is all of the
	// workload.
	Arrived, Done, Total int
}
