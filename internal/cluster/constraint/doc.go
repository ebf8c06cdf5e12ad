// Package constraint evaluates kube-scheduler's filters without a scheduler. A pod is compiled once and evaluated
// against many hosts, both existing ones and those that might be bought.
//
// It covers the hard constraints of NodeUnschedulable, NodeName, TaintToleration, NodeAffinity (including the node
// selector), NodePorts, PodTopologySpread and InterPodAffinity, with the default feature gates and default plugin
// arguments of the Kubernetes version this module is built with. [Pod.Admits] evaluates what depends on the host alone,
// [Tracker.Check] what depends on other pods. A pod may run where both return "".
//
// It deliberately does not cover:
//
//   - Preferences (preferredDuringScheduling…, ScheduleAnyway, PreferNoSchedule). They never prevent a placement.
//   - Free room: [Requests] returns the requests of a pod, and package packing compares them.
//   - Volumes, resource claims, gates and gangs: [Unsupported] lists those of a pod, so that the caller can hold the pod
//     instead of planning a place for it.
//   - Which pods are terminating. PodTopologySpread ignores them and the other plugins count them: callers that need
//     this exactly place them as [Pod.Terminating].
//   - A profile's own arguments: added affinity and default spread constraints.
//
// Everything here is deterministic. Nothing is safe for concurrent use, with two exceptions while nothing is being
// compiled: compiled pods may be read, and cloned trackers may each be used by one goroutine.
package constraint
